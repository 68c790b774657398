"""The operations that are running while hooks are told of their beginnings and ends."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Generic, TypeVar

from .operation import Operation

__all__ = ["Running"]

T = TypeVar("T")


class Running(Generic[T]):
    """The operations that have begun and not ended, the innermost last, of each thread.

    An operation that raises an exception never ends. It is dropped when one around it ends; one
    that stood alone stays, and is in the way of none.
    """

    def __init__(self) -> None:
        # Operations are known by their ids: parameters may hold what is not to be kept alive.
        self._stacks: dict[int, list[tuple[set[int], T]]] = {}

    def begin(self, op: Operation, note: T) -> None:
        """Adds an operation, with what is noted of it."""
        stack = self._stacks.setdefault(get_ident(), [])
        # A checkpoint's second run ends with another operation of the same parameters.
        stack.append(({id(op), id(op._params)}, note))
        # No more can be running than Python has frames.
        del stack[: -sys.getrecursionlimit()]

    def end(self, op: Operation) -> T | None:
        """Takes an operation off, and returns its note.

        The result is None for one that has not begun or has ended: a call with several outputs
        ends at the first.
        """
        stack = self._stacks.get(get_ident(), [])
        for place in reversed(range(len(stack))):
            known, note = stack[place]
            if id(op) in known or id(op._params) in known:
                del stack[place:]
                return note
        return None

    def innermost(self) -> T | None:
        """Returns the note of the innermost operation; None where none is running."""
        stack = self._stacks.get(get_ident())
        return stack[-1][1] if stack else None
