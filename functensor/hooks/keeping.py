"""Weak references to what nodes of reverse mode keep, for hooks that tell what holds memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..traces.reverse import Node
from .nodes import nodes_of

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["Keeping", "keepings"]


class Residuals(list[Any]):
    """The residuals of a node; other than to a tuple there are weak references to it."""


class Keeping(ref[Any]):
    """A weak reference to what a node keeps; a pass that consumes the node ends it.

    Attributes:
        holder: the node, in words.
        keys: the ids of the arrays that own its memory, as far as they are followed.
    """

    __slots__ = ("holder", "keys")

    holder: str
    keys: list[int]


def keepings(
    output: Value, holder: str, ended: Callable[[Any], Any]
) -> Iterator[tuple[Keeping, list[Any]]]:
    """Yields what the nodes of an operation keep, at every level, with the values.

    Args:
        output: the operation's output.
        holder: what the nodes are called.
        ended: is called with a `Keeping` when its node keeps nothing any more.
    """
    for _, node in nodes_of(output):
        if type(node) is not Node:
            # To look at what a checkpoint's second run keeps would compute it.
            continue
        saved = node.saved
        if isinstance(saved, tuple):
            saved = node.saved = Residuals(saved)
        elif not hasattr(saved, "with_kept"):
            # It was met before, or is a function, of which nobody knows what it keeps.
            continue
        keeping = Keeping(saved, ended)
        keeping.holder, keeping.keys = holder, []
        yield keeping, saved if isinstance(saved, list) else saved.kept
