"""Optimizers by our names, and by Optax's or PyTorch's, over 100 steps.

Run as a script it records Optax's and PyTorch's.
"""

from functools import partial
from pathlib import Path

import numpy as np

__all__ = ["KEPT", "LINES", "RECORD", "gradients", "optimizer_of", "start"]

RECORD = Path(__file__).with_name("equal_steps.npz")
# Ours | Optax's or PyTorch's.
LINES = Path(__file__).with_name("equal_steps.txt").read_text().splitlines()
# The steps of which parameters are recorded.
KEPT = (1, 2, 10, 100)


def start():
    """Returns parameters: a matrix, a vector and a number."""
    rng = np.random.default_rng(5)
    return {"a": rng.normal(size=(2, 3)), "b": [rng.normal(size=3), rng.normal(size=())]}


def gradients(line, params, step):
    """Returns gradients of a saddle in doubles; some are not finite where that is the subject."""
    a, (b, c) = params["a"], params["b"]
    found = {
        "a": a**3 - b + 0.1 * np.cos(step),
        "b": [0.5 * b - a.sum(axis=0) + c, np.asarray(np.sin(c) + 0.3 * b.mean())],
    }
    if "finite" in line and step in (5, 11, 12):
        found["b"][0][1] = np.inf
    return found


def optimizer_of(text, module):
    """Returns the optimizer that a text makes of a module's functions."""
    return eval(text, {**vars(module), "partial": partial})


def theirs(line):
    """Returns the parameters after some of 100 steps of Optax or PyTorch, one row for each."""
    text = line.split(" | ")[1]
    stepped = pytorchs(text) if text.startswith("torch.") else optaxs(text)
    params, rows = start(), []
    for step in range(1, 101):
        params = stepped(params, gradients(line, params, step))
        if step in KEPT:
            rows.append(np.concatenate([np.ravel(x) for x in (params["a"], *params["b"])]))
    return np.array(rows)


def optaxs(text):
    """Returns a function that makes a step of an optimizer of Optax's."""
    import jax
    import optax

    optimizer = optimizer_of(text, optax)
    state = [optimizer.init(jax.tree.map(jax.numpy.asarray, start()))]
    update = jax.jit(optimizer.update)

    def stepped(params, grads):
        updates, state[0] = update(grads, state[0], params)
        return jax.tree.map(np.asarray, optax.apply_updates(params, updates))

    return stepped


def pytorchs(text):
    """Returns a function that makes a step of an optimizer of PyTorch's."""
    import torch

    first = start()
    tensors = [torch.tensor(x, requires_grad=True) for x in (first["a"], *first["b"])]
    optimizer = eval(text.replace("(", "(tensors, ", 1), {"torch": torch.optim, "tensors": tensors})

    def stepped(params, grads):
        for x, g in zip(tensors, (grads["a"], *grads["b"]), strict=True):
            x.grad = torch.tensor(g)
        optimizer.step()
        a, *b = [x.detach().numpy().copy() for x in tensors]
        return {"a": a, "b": b}

    return stepped


if __name__ == "__main__":
    import jax
    import optax
    import torch

    jax.config.update("jax_enable_x64", True)
    rows = np.array([theirs(line) for line in LINES])
    np.savez_compressed(RECORD, rows=rows, versions=[optax.__version__, torch.__version__])
