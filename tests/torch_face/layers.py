"""Layers and losses that mean the same in PyTorch and here: constructors and their inputs.

Every line of ``layers.txt`` has an expression and the shapes of its inputs, which are normally
distributed numbers; ``i7:`` stands for integers below 7, ``p:`` for numbers between 0 and 1, ``s:``
for signs, ``o:`` for ascending numbers from 0. A module is called with them, in an expression
they are x, y and z.
"""

from pathlib import Path

import numpy as np
from torch_face.expressions import array, flat

__all__ = ["LAYERS", "layer_outcomes"]

LAYERS = Path(__file__).with_suffix(".txt").read_text().splitlines()


def inputs_of(text, rng):
    """Returns the arrays that a line asks for."""
    found = []
    for each in text.split(";"):
        kind, _, lengths = each.strip().rpartition(":")
        shape = tuple(int(n) for n in lengths.split(",") if n)
        if kind.startswith("i"):
            found.append(rng.integers(0, int(kind[1:]), size=shape))
        elif kind == "p":
            found.append(rng.uniform(0.05, 0.95, size=shape).astype("f4"))
        elif kind == "s":
            found.append(rng.choice([-1.0, 1.0], size=shape).astype("f4"))
        elif kind == "o":
            found.append(np.arange(*shape) * 2)
        else:
            found.append(rng.normal(size=shape).astype("f4"))
    return found


def layer_outcomes(torch, line, derive=True):
    """Returns results, and gradients by inputs and parameters, of a line with the same weights."""
    text, _, shapes = line.partition("|")
    rng = np.random.default_rng(len(text))
    arrays = inputs_of(shapes, rng)
    inputs = [torch.tensor(a.tolist(), dtype=getattr(torch, a.dtype.name)) for a in arrays]
    for x in inputs:
        if (x.dtype == torch.float32 and "SoftMargin" not in text) or x is inputs[0]:
            x.requires_grad_(x.dtype == torch.float32)
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    leaves = [x for x in inputs if x.requires_grad]
    # What works in place may not be given leaves.
    given = [x * 1.0 if x.requires_grad else x for x in inputs]
    state = []
    if text.startswith("nn.utils") or not text.startswith("nn."):
        out = eval(text, {**names, **dict(zip("xyz", given))})
    else:
        module = eval(text, names)
        if "Loss" not in text:
            with torch.no_grad():
                for _, x in sorted(module.state_dict(keep_vars=True).items()):
                    if x.dtype == torch.float32:
                        value = rng.uniform(0.1, 0.6, size=tuple(x.shape)) * rng.choice(
                            [-1, 1] if x.requires_grad else [1], size=tuple(x.shape)
                        )
                        x.copy_(torch.tensor(value.tolist(), dtype=torch.float32))
        out = module(*given)
        leaves += [p for _, p in sorted(module.named_parameters())]
        state = [x for _, x in sorted(module.named_buffers())]
    results = [array(x) for x in flat(out) if x is not None]
    results += [array(x) for x in state]
    floats = [x for x in flat(out) if x is not None and x.requires_grad]
    if not floats:
        return results, []
    weighted = 0
    for x in floats:
        weights = torch.cos(torch.arange(x.numel(), dtype=torch.float32))
        weighted = weighted + (x.reshape(-1) * weights).sum()
    total = weighted + 0 * sum(x.sum() for x in leaves)
    return results, [array(g) for g in torch.autograd.grad(total, leaves)]
