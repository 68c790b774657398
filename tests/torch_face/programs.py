"""Programs in text files, each with what its ``r`` was in PyTorch.

A file has for each program a line ``# name``, the lines of the program, and behind ``#>`` the
result. A program uses ``torch``, and nothing but the module that it stands for is changed.
``values`` makes a tensor and ``fill`` gives a module its weights, both without random numbers.
Where PyTorch is installed, ``python tests/torch_face/programs.py FILE`` runs the programs of a
file and writes their results anew.
"""

import re
import sys
import warnings
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest

__all__ = ["RECORDED", "check", "programs", "record", "run"]

# The files of programs, beside those about shared memory.
RECORDED = (
    "attribute", "averaging", "keyword", "optimizer", "optimizer_key", "parametrized", "pruned",
    "rarer", "testing", "tutorial",
)  # fmt: skip


def programs(path):
    """Yields the name of every program of a file, its lines and its result, as parameters."""
    for name, lines, result in parts(path):
        yield pytest.param(lines, literal_eval(result), id=name)


def parts(path):
    """Yields the name of every program of a file, its lines and the text of its result."""
    for part in re.split("^# ", Path(path).read_text(), flags=re.MULTILINE)[1:]:
        lines, _, result = part.partition("#> ")
        name, _, lines = lines.partition("\n")
        yield name, lines, result


def run(torch, lines):
    """Returns a program's ``r`` as numbers, texts and lists of these."""

    def values(*shape):
        """Returns a tensor of numbers between -1 and 1."""
        numbers = np.sin(1 + 0.7 * np.arange(int(np.prod(shape)))).astype(np.float32)
        return torch.tensor(numbers.reshape(shape))

    def fill(module):
        """Gives a module its weights, and returns it."""
        for i, x in enumerate(module.parameters()):
            with torch.no_grad():
                x.copy_(values(*x.shape) * 0.6 * np.cos(0.1 * i))
        return module

    torch.manual_seed(0)
    names = {"torch": torch, "values": values, "fill": fill, "__name__": "program"}
    exec(lines, names)
    return plain(names["r"])


def plain(x):
    """Returns a result as numbers, texts and lists of these."""
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return [[plain(k), plain(v)] for k, v in x.items()]
    return x.tolist() if hasattr(x, "tolist") else x


def unlike(found, wanted, rtol, atol):
    """Says whether results differ by more than tolerances."""
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return not same or any(unlike(*pair, rtol, atol) for pair in zip(found, wanted))
    if type(wanted) is float and isinstance(found, float):
        return not np.allclose(found, wanted, rtol, atol, equal_nan=True)
    return type(found) is not type(wanted) or found != wanted


def check(torch, lines, wanted, rtol=1e-5, atol=1e-6):
    """Runs a program and compares its result."""
    found = run(torch, lines)
    assert not unlike(found, wanted, rtol, atol), f"{found}\nis not\n{wanted}"


def record(path, torch):
    """Writes the results of a file's programs anew."""
    texts = []
    for name, lines, _ in parts(path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts.append(f"# {name}\n{lines}#> {run(torch, lines)!r}\n")
    Path(path).write_text("".join(texts))


if __name__ == "__main__":
    import torch

    for name in sys.argv[1:]:
        record(name, torch)
