"""Random programs that move tensors in memory, and write to them, in functensor and in PyTorch."""

from __future__ import annotations

import copy
import random

import numpy
import pytest

import functensor.torch

VIEWS = [
    "{x}[0]", "{x}[..., None]", "{x}[1:]", "{x}.T", "{x}.reshape(-1)", "{x}.unsqueeze(0)",
    "{x}.squeeze()", "{x}.detach()", "{x}.data", "{x}.clone()", "torch.nn.Parameter({x}, False)",
    "copy.copy({x})", "torch.Tensor({x})", "torch.nn.Buffer({x})",
]  # fmt: skip
# PyTorch gives no bits of conjugates.
OF_REALS = [
    "torch.from_dlpack({x}.detach())", "{x}.view({x}.dtype)", "{x}.view(torch.int64)",
    "{x}.resize_({x}.shape)",
]  # fmt: skip
OF_COMPLEX = ["{x}.conj()", "{x}.conj()", "{x}[None].mH", "{x}.real"]
WRITES = [
    "a[0] = 3.5", "b *= 2", "{v} += 0.5", "{v}.mul_(2.0)", "{v}[0] = 0.25", "{v}[..., -1] -= 1.5",
    "{v}[1:].neg_()", "{v}.data.add_(1.25)", "{v}.data[0] = 7.0",
    "{v}.t_()", "{v}.transpose_(0, -1)", "{v}.squeeze_()", "{v}.unsqueeze_(0)",
    "{v}.data = {x}", "{v}.data = {x}.clone()", "{v}.data = {v}.data",
    "{v}.data = {v}[0]", "{v}.data = {v}.T", "{v}.data -= 0.5", "{v}.data[0] += 1",
    "{v}.swapaxes_(0, 1)", "torch.nn.init.ones_({v})",
]  # fmt: skip


def outcome(lines, torch, start, other, held):
    """Runs lines, and returns what they name as lists; a line that is refused does nothing.

    ``a`` and ``b`` are arrays of NumPy; ``held`` ones have ``x`` and ``y`` in their memory.
    """
    a, b = start.copy(), other.copy()
    make = torch.from_numpy if held else torch.tensor
    values = {"x": make(a), "y": make(b), "a": a, "b": b}
    done = []
    for line in lines:
        try:
            exec(line, {"torch": torch, "copy": copy}, values)
            done.append(True)
        except (RuntimeError, IndexError, NameError, TypeError, ValueError):
            done.append(False)
    return {
        name: getattr(value, "detach", lambda x=value: x)().tolist()
        for name, value in values.items()
    }, done


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(200))
def test_programs_that_move_tensors_do_as_with_pytorch(seed):
    torch = pytest.importorskip("torch")
    choose = random.Random(seed)
    lines, names = [], ["x", "y"]
    is_complex = choose.random() < 0.5
    views = VIEWS + (OF_COMPLEX if is_complex else OF_REALS)
    for i in range(choose.randint(4, 14)):
        x, v = choose.choice(names), choose.choice(names)
        if choose.random() < 0.5:
            lines.append(f"v{i} = " + choose.choice(views).format(x=x))
            names.append(f"v{i}")
        else:
            lines.append(choose.choice(WRITES).format(x=x, v=v))
    start = numpy.arange(6.0).reshape(2, 3) / 8 - 1
    other = numpy.arange(4.0) if choose.random() < 0.5 else numpy.arange(6.0).reshape(2, 3)
    if is_complex:
        start, other = start + 0.5j, other - 1j
    wanted = outcome(lines, torch, start, other, seed % 2)
    assert outcome(lines, functensor.torch, start, other, seed % 2) == wanted, "\n".join(lines)
