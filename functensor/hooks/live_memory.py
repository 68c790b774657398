"""The arrays that own memory, and how long they live. Hooks that measure memory use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..primitives.core.errors import describe
from .values import plain_values_of, tangents_of

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["Block", "LiveMemory", "owner_of", "owners_of"]


def owner_of(buffer: Any) -> Any:
    """Returns the array whose memory a view shows; of any other array itself."""
    base = getattr(buffer, "base", None)
    return owner_of(base) if type(base) is type(buffer) else buffer


def owners_of(x: Value | None) -> Iterator[Any]:
    """Yields the arrays that own the memory of a value and of its tangents."""
    for buffer in (*plain_values_of(x), *tangents_of(x)):
        yield owner_of(buffer)


class Block(ref[Any]):
    """A weak reference to the array that owns memory.

    Attributes:
        key: the array's id.
        bytes: its size.
        type: its dtype and shape.
        note: what the hook knows of it.
    """

    __slots__ = ("bytes", "key", "note", "type")

    key: int
    bytes: int
    type: str
    note: Any


class LiveMemory(dict[int, Block]):
    """The memory that a hook follows, by the ids of the arrays that own it.

    Args:
        freed: called with a block when its array dies, in whichever thread that is.
    """

    def __init__(self, freed: Callable[[Any], Any]) -> None:
        self._freed = freed

    def met(
        self, values: Sequence[Value | None], given: Sequence[Value | None] = ()
    ) -> Iterator[Block]:
        """Yields a block for the memory of values that is new: neither known nor that of others."""
        others = {id(owner) for x in given for owner in owners_of(x)}
        for owner in (owner for x in values for owner in owners_of(x)):
            known = self.get(id(owner))
            if id(owner) in others or (known is not None and known() is owner):
                continue
            try:
                block = Block(owner, self._freed)
            except TypeError:  # a number of NumPy's or Python's
                continue
            block.key, block.bytes = id(owner), prod(owner.shape) * owner.dtype.itemsize
            block.type = describe(owner)
            self[block.key] = block
            yield block

    def known(self, x: Value | None) -> Iterator[Block]:
        """Yields the blocks of a value's memory that are followed."""
        for owner in owners_of(x):
            block = self.get(id(owner))
            if block is not None and block() is owner:
                yield block

    def drop(self, block: Block) -> None:
        """Forgets a block whose array has died."""
        if self.get(block.key) is block:
            del self[block.key]
