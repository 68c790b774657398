"""The jobs, their data, and what each has to find; a library's module enters its own way of each.

A job is a function of `compile` that returns what is run and timed, which returns what the job
found. Its lines are those of its body: all that a user writes besides the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import NumpyArray

Run = Callable[[], Any]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Job = Callable[[Compile], Run]
Jobs = dict[str, tuple[Job, str]]

rng = np.random.default_rng(16)
WIDTH, ROWS = 256, 256
WEIGHTS = [rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for _ in range(3)]
X = rng.normal(0, 1, (ROWS, WIDTH)).astype(np.float32)
CEILING, LIMIT = 0.5, 0.01


def forward(first: NumpyArray) -> NumpyArray:
    """The second hidden layer, of the first one's weights."""
    hidden: NumpyArray = np.tanh(np.tanh(X @ first) @ WEIGHTS[1])
    return hidden


def loss_of(hidden: NumpyArray) -> float:
    """The loss of a second hidden layer."""
    return float(np.sum((hidden @ WEIGHTS[2]) ** 2))


HIDDEN = forward(WEIGHTS[0])
HIDDEN_GRADIENT = 2 * (HIDDEN @ WEIGHTS[2]) @ WEIGHTS[2].T
# The gradient by the weights in front of the second hidden layer, its own gradient being clipped.
CLIPPED_GRADIENT = np.tanh(X @ WEIGHTS[0]).T @ (
    np.clip(HIDDEN_GRADIENT, -LIMIT, LIMIT) * (1 - HIDDEN**2)
)


def close(found: Any, expected: Any) -> bool:
    """Says whether float32 explains the difference."""
    scale = float(np.max(np.abs(expected)))
    return bool(np.allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4 * scale))


def names_products(found: Any) -> bool:
    """Says whether names of operations are found, among them a product and a tanh."""
    text = " ".join(map(str, found))
    return "tanh" in text and any(name in text for name in ("matmul", "mm", "dot", "fusion"))


# What every job has to find.
EXPECTED: dict[str, Callable[[Any], bool]] = {
    "look at every operation": names_products,
    "look at a layer's activations": lambda found: close(found, HIDDEN),
    "gradient of a value on the way": lambda found: close(found, HIDDEN_GRADIENT),
    "replace a value": lambda found: close(found, loss_of(np.minimum(HIDDEN, CEILING))),
    "clip gradients inside": lambda found: close(found, CLIPPED_GRADIENT),
    "first NaN, forward": lambda found: "log" in found.lower(),
    "first NaN, backward": lambda found: "sqrt" in found.lower(),
    "time per operation": lambda found: names_products(found) and min(found.values()) >= 0,
    "memory per scope": lambda found: found["block"] >= HIDDEN.nbytes,
    "offload what backward saved": lambda found: close(found, 2 * HIDDEN.T @ (HIDDEN @ WEIGHTS[2])),
    "convert all that backward saved": lambda found: close(
        found, 2 * HIDDEN.T @ (HIDDEN @ WEIGHTS[2])
    ),
}


def entering(jobs: Jobs) -> Callable[[str, str], Callable[[Job], Job]]:
    """Returns a decorator that enters a job by its name, and by what it is compared with."""

    def entered(name: str, beside: str) -> Callable[[Job], Job]:
        def enter(job: Job) -> Job:
            assert name in EXPECTED, name
            jobs[name] = job, beside
            return job

        return enter

    return entered


def lines_of(job: Job) -> int:
    """Counts the lines of a job's body that are neither empty nor comments."""
    lines = [line.strip() for line in inspect.getsource(job).splitlines()]
    body = lines[lines.index(next(line for line in lines if line.startswith("def "))) + 1 :]
    return sum(bool(line) and not line.startswith("#") for line in body)
