"""Optimizers by our names and Optax's, over 100 steps; run as a script it records Optax's."""

from functools import partial
from pathlib import Path

import numpy as np

__all__ = ["KEPT", "LINES", "RECORD", "gradients", "optimizer_of", "start"]

RECORD = Path(__file__).with_name("optax.npz")
# Ours | Optax's.
LINES = Path(__file__).with_name("optax_lines.txt").read_text().splitlines()
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


def optaxs(line):
    """Returns the parameters after some of 100 steps, one row for each."""
    import jax
    import optax

    optimizer = optimizer_of(line.split(" | ")[1], optax)
    params = jax.tree.map(jax.numpy.asarray, start())
    state = optimizer.init(params)
    update, rows = jax.jit(optimizer.update), []
    for step in range(1, 101):
        grads = gradients(line, jax.tree.map(np.asarray, params), step)
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
        if step in KEPT:
            rows.append(np.concatenate([np.ravel(x) for x in jax.tree.leaves(params)]))
    return np.array(rows)


if __name__ == "__main__":
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    rows = np.array([optaxs(line) for line in LINES])
    np.savez_compressed(RECORD, rows=rows, version=optax.__version__)
