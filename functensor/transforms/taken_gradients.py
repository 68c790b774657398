"""The gradients that a thread took last, for optimizers that check the order of their arguments."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from numpy import ndarray

from ..primitives.core.array import Array

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["TakenGradients", "taken_gradients"]


class TakenGradients(threading.local):
    """The gradients that this thread took last, with where it took them, while somebody asks.

    Attributes:
        count: how many were taken, of tracers too.
        pairs: the first leaves of the last arguments and gradients, which are held weakly.
    """

    watched = False

    def __init__(self) -> None:
        self.count = 0
        self.pairs: deque[tuple[Any, Any]] = deque(maxlen=8)

    def note(self, at: Value, gradient: Value) -> None:
        """Notes the first leaf of an argument, and of its gradient."""
        self.count += 1
        if type(gradient) is Array and type(at) in (Array, ndarray):
            self.pairs.append((ref(at), ref(gradient)))

    def is_pair(self, at: Value, gradient: Value) -> bool:
        """Says whether an array is the gradient that was taken at another one."""
        return any(pair[0]() is at and pair[1]() is gradient for pair in self.pairs)

    def among(self, leaves: Sequence[Any]) -> list[tuple[int, int, Any]]:
        """Returns the numbers of arrays and of the gradients taken at them, and these, weakly."""
        places = {id(leaf): i for i, leaf in enumerate(leaves)}
        # A leaf is never None, so that what is gone is not found.
        found = [(places.get(id(at())), places.get(id(of())), of) for at, of in self.pairs]
        return [(i, j, of) for i, j, of in found if i is not None and j is not None]


taken_gradients = TakenGradients()
