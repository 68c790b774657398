"""Blocks in which a hook is used, from when they are entered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from operator import attrgetter
from typing import Any, Self

from ...backends.restoring import Restoring, in_turn

__all__ = ["HookBlock"]


class HookBlock(Restoring, ContextDecorator):
    """A ``with`` block that registers a hook where it begins.

    Args:
        begin: registers the hook, and returns its handle.
    """

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin

    def __enter__(self) -> Any:
        handles: list[Any] = []
        self.close = in_turn(map(attrgetter("_left"), handles))
        handles[:] = (self._begin(),)

    def _recreate_cm(self) -> Self:
        # For every call of a decorated function.
        block = HookBlock.__new__(type(self))
        block._begin = self._begin
        return block
