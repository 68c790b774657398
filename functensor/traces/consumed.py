"""Stands in nodes for what a backward pass has used up, and tells where the pass came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Consumed"]


class Consumed:
    """Stands for what the nodes of a pass saved, once it has used that up.

    Args:
        line: the user's line of the pass.
    """

    __slots__ = ("_ends", "line")

    def __init__(self, line: str) -> None:
        self.line = line
        # Not known while the pass runs, nor ever after one that an error has ended.
        self._ends: frozenset[int] | None = None

    def note_ends(self, nodes: Iterable[Any]) -> None:
        """Notes nodes behind those of the pass that it did not use up, by numbers: they may go."""
        self._ends = frozenset([node.number for node in nodes])

    def hides(self, node: Any, other: Any) -> bool:
        """Says whether a node that was used up may have been computed from another one."""
        if self._ends is None or other.number in self._ends:
            return True
        return other.saved is self and other.number < node.number
