"""Workloads: a problem made of NumPy data, and a peer's case that solves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

Mode = Literal["grad", "forward"]
Kind = Literal["gradient", "train", "hessian", "per-example", "program"]
NumpyArray = np.ndarray[Any, np.dtype[Any]]
NumpyTree = NumpyArray | dict[str, NumpyArray]

TRAIN_STEPS = 3
"""Optimizer steps after which the loss is compared once more."""


class Unsupported(Exception):
    """The peer has no way to run the workload."""


@dataclass(frozen=True)
class Problem:
    """The data of one workload.

    `params` is what is differentiated: one array, or a dict of named arrays. Names that end in
    `_w` hold a matrix of shape (in, out) or a convolution kernel of shape (out, in, height, width).
    """

    workload: str
    kind: Kind
    params: NumpyTree
    batch: tuple[NumpyArray, ...] = ()

    @property
    def family(self) -> str:
        """The workload's name without its size: `rnn` of `rnn:1000`."""
        return self.workload.partition(":")[0]


@dataclass(frozen=True)
class Outcome:
    """The figures of a peer at the initial parameters, for comparison with the other peers.

    `norms` holds the Euclidean norm of each gradient (or of the hessian), `dtypes` their dtypes;
    `trained` is the loss after `TRAIN_STEPS` optimizer steps.
    """

    loss: float
    norms: dict[str, float] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    trained: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        return asdict(self)


class Case(Protocol):
    """One workload, ready to run in one library."""

    def reset(self) -> None:
        """Go back to the initial parameters and optimizer state."""

    def step(self) -> object:
        """Do the work once, and return only when it is done."""

    def outcome(self) -> Outcome:
        """Returns what the work computes, from the initial parameters."""


class Peer(Protocol):
    """A module of `benchmarks.peers`."""

    def version(self) -> str:
        """The library's version."""

    def set_threads(self, threads: int) -> None:
        """Limit the library's threads, where environment variables do not already."""

    def build(self, problem: Problem, mode: Mode) -> Case:
        """Make the workload ready to run; raises Unsupported."""


def as_dict(tree: Any) -> dict[str, Any]:
    """A bare array under the name `x`; a dict as it is."""
    return tree if isinstance(tree, dict) else {"x": tree}


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to each array of a tree (one array or a dict of them)."""
    if isinstance(tree, dict):
        return {
            name: function(leaf, *(other[name] for other in rest)) for name, leaf in tree.items()
        }
    return function(tree, *rest)


def describe(loss: float, gradients: Any, trained: float | None = None) -> Outcome:
    """The outcome for gradients that `numpy.asarray` understands."""
    arrays = {name: np.asarray(leaf) for name, leaf in as_dict(gradients).items()}
    return Outcome(
        loss=loss,
        norms={
            name: float(np.linalg.norm(leaf.astype(np.float64))) for name, leaf in arrays.items()
        },
        dtypes={name: str(leaf.dtype) for name, leaf in arrays.items()},
        trained=trained,
    )
