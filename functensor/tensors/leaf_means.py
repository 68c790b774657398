"""Averages of the gradients of leaves over processes, taken during backward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakMethod

from ..traces.reverse import Node, backward

__all__ = ["AveragingPass", "LeafMeans", "averaged_backward", "means_of_leaves"]


class AveragingPass(Protocol):
    """A backward pass in which the gradients of some leaves are averaged over processes."""

    def end(self) -> dict[Node, Any]:
        """Returns the means, by leaf."""

    def unwatch(self) -> None:
        """Makes the leaves what they were."""


class LeafMeans:
    """Keeps the functions that average gradients of leaves over processes, the oldest first.

    Each is given the nodes from which a pass begins; it returns None where the pass comes
    to none of its leaves.
    """

    def __init__(self) -> None:
        self._entered: list[WeakMethod[Callable[[list[Node]], AveragingPass | None]]] = []

    def enter(self, begin: Callable[[list[Node]], AveragingPass | None]) -> None:
        """Enters a method, for as long as its object lives."""
        self._entered = [other for other in self._entered if other() is not None]
        self._entered.append(WeakMethod(begin))

    def living(self) -> list[Callable[[list[Node]], AveragingPass | None]]:
        """Returns the methods whose objects live."""
        if not self._entered:
            return []
        return [begin for entry in self._entered if (begin := entry()) is not None]


means_of_leaves = LeafMeans()


def averaged_backward(roots: Sequence[tuple[Node, Any]], **options: Any) -> dict[Node, Any]:
    """Returns what `backward` does, with means over processes where they are wanted."""
    nodes = [node for node, _ in roots]
    passes: list[AveragingPass] = []
    try:
        for begin in means_of_leaves.living():
            begun = begin(nodes)
            if begun is not None:
                passes.append(begun)
        grads = backward(roots, **options)
        for begun in passes:
            grads.update(begun.end())
    finally:
        for begun in passes:
            begun.unwatch()
    return grads
