"""The nodes of reverse mode that an operation has left, as a hook finds them by its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..traces.reverse import PROJECTION
from .values import levels_of

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["nodes_of"]


def nodes_of(output: Value) -> Iterator[tuple[Any, Any]]:
    """Yields the levels of reverse mode that have recorded an operation, each with its node."""
    for level in levels_of(output):
        node = getattr(level, "node", None)
        if node is not None and node.primitive is PROJECTION:
            (node,) = node.parents
        if node is not None and node.primitive is not None:
            yield level, node
