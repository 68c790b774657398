"""Random configurations of every layer and loss: outputs, gradients and statistics as PyTorch's.

Both compute in float32 from the same weights. A figure may be off by 1e-5 of the largest of its
array, or of 1; where float32 has not so many digits, by three times as much as PyTorch's own is off
from PyTorch's in float64.
"""

import inspect
import re
import warnings

import numpy
import pytest
from support.long_forms import sized
from torch_face.random_layers import LAYERS, Draw

import functensor as ft
import functensor.torch

CONFIGURATIONS = sized(3, 200)
TOLERANCE = 1e-5
# PyTorch has no gradient by these targets, or a NaN.
OF_CONSTANT_TARGETS = ("nn.SoftMarginLoss", "nn.PoissonNLLLoss")


def entries(value):
    """Returns the arrays within a result, in a row."""
    if isinstance(value, tuple | list):
        return [x for part in value for x in entries(part)]
    return [] if value is None else [value]


def outcome(torch, text, inputs, call, state, device, dtype):
    """Returns outputs, gradients and what a module holds after a step, as NumPy's arrays."""

    def given(x):
        if isinstance(x, tuple):
            return tuple(map(given, x))
        x = torch.tensor(x).to(device)
        return x.to(dtype) if x.dtype == torch.float32 else x

    module = eval(text, {"nn": torch.nn, "torch": torch}).to(device)
    if dtype == torch.float64:
        module = module.double()
    if state is not None:
        module.load_state_dict({name: given(x) for name, x in state.items()})
    args = [given(x) for x in inputs]
    given_as_constants = 1 if text.startswith(OF_CONSTANT_TARGETS) else 0
    leaves = [x for x in entries(args) if x.dtype in (torch.float32, torch.float64)]
    leaves = leaves[: len(leaves) - given_as_constants]
    for leaf in leaves:
        leaf.requires_grad_()
    outs = entries(module(*args, **call))
    total = 0.0
    for out in outs:
        if out.requires_grad:
            weights = torch.cos(torch.arange(out.numel(), dtype=dtype, device=device))
            total = total + (out * weights.reshape(out.shape)).sum()
    found = {f"output {i}": x.detach() for i, x in enumerate(outs)}
    if not isinstance(total, float):
        total.backward()
        found.update({f"gradient of input {i}": x.grad for i, x in enumerate(leaves)})
        found.update({f"gradient of {name}": p.grad for name, p in module.named_parameters()})
    found.update({f"{name} afterwards": x for name, x in module.named_buffers()})
    return {k: x.detach().cpu().numpy() for k, x in found.items() if x is not None}


def difference(ours, theirs, exact):
    """Returns what is different about two outcomes; None if nothing is."""
    if set(ours) != set(theirs):
        return f"only in one: {sorted(set(ours) ^ set(theirs))}"
    for name, want in theirs.items():
        found = ours[name]
        if found.shape != want.shape or found.dtype != want.dtype:
            return f"{name}: {found.dtype}{found.shape}, not {want.dtype}{want.shape}"
        if not want.size:
            continue
        largest = numpy.max(abs(want), initial=1.0, where=numpy.isfinite(want))
        limit = TOLERANCE * float(largest)
        if numpy.allclose(found, want, 0, limit, equal_nan=True):
            continue
        off, own = (float(numpy.max(abs(x - exact[name]))) for x in (found, want))
        if not off <= max(limit, 3 * own):
            return f"{name}: off by {off}, PyTorch by {own}, allowed {limit}"
    return None


def compared(name, number, device):
    """Returns what is different about a layer in one random configuration."""
    torch = pytest.importorskip("torch")
    seed = [number, *name.encode()]
    text, inputs, *rest = LAYERS[name](Draw(seed))
    call = rest[0] if rest else {}
    if "Norm" in name and "bias" not in inspect.signature(torch.nn.GroupNorm).parameters:
        # Those of PyTorch 2.11 have a bias wherever they have a weight.
        text = re.sub(r", bias=(True|False)", "", text)
    torch.manual_seed(number)
    wrong = None
    try:
        module = eval(text, {"nn": torch.nn, "torch": torch})
        start = {k: x.detach().numpy().copy() for k, x in module.state_dict().items()}
        theirs = outcome(torch, text, inputs, call, start, device, torch.float32)
        exact = outcome(torch, text, inputs, call, start, device, torch.float64)
    except (RuntimeError, ValueError, AssertionError) as error:
        wrong = error
    try:
        state = None if wrong else start
        ours = outcome(ft.torch, text, inputs, call, state, device, ft.torch.float32)
    except Exception as error:
        return None if wrong else f"{text}: {type(error).__name__}: {error}"
    if wrong is not None:
        return f"{text}: PyTorch refuses: {wrong}"
    found = difference(ours, theirs, exact)
    return found and f"{text} of {[numpy.shape(x) for x in inputs]}, seed {seed}: {found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    pytest.importorskip("torch")
    bad = [found for i in range(CONFIGURATIONS) if (found := compared(name, i, "cpu"))]
    assert not bad, f"{len(bad)} of {CONFIGURATIONS}:\n" + "\n".join(bad[:5])


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_layer_on_a_gpu(name):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    with warnings.catch_warnings():
        bad = [found for i in range(CONFIGURATIONS) if (found := compared(name, i, "cuda"))]
    assert not bad, f"{len(bad)} of {CONFIGURATIONS}:\n" + "\n".join(bad[:5])
