"""Registrations in a run that begins anew, whose first calls of hooks were made already."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from .operation import Operation

__all__ = ["AnsweredHandle"]


class AnsweredHandle:
    """A registration that makes no call of its hook which was made before, and changed nothing.

    Args:
        handle: the registration, which answers for all else.
        calls: the names of those calls with their hooks, in their order: all registrations share
            them. Where another call comes than the next of them, the rest is forgotten.
    """

    direct = False

    def __init__(self, handle: Any, calls: deque[tuple[str, Any]]) -> None:
        self.handle = handle
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)

    def was_made(self, name: str) -> bool:
        """Says whether a call was made before, and takes it off the list."""
        if self.calls and self.calls[0] == (name, self.handle.hook):
            self.calls.popleft()
            return True
        self.calls.clear()
        return False

    def told(self, op: Operation, values: Sequence[Any], staged: bool) -> Sequence[Any]:
        """Tells the hook of an operation that is about to run; returns its operands."""
        if not staged and self.was_made(f"before {op.name}"):
            return values
        return self.handle.told(op, values, staged)  # type: ignore[no-any-return]

    def shown(self, op: Operation, args: Sequence[Any], out: Any, staged: bool) -> Any:
        """Shows the hook an output; returns what stands in its place."""
        if not staged and self.was_made(f"hook on {op.name}"):
            return out
        return self.handle.shown(op, args, out, staged)

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> Any:
        """Shows the hook an output of a checkpointed function."""
        if self.was_made(f"hook on {op.name}"):
            return None
        return self.handle.forward(op, inputs, output)

    def pulled(
        self, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any], staged: bool
    ) -> Sequence[Any]:
        """Shows the hook cotangents; returns what stands in their place."""
        if not staged and self.was_made(f"hook on the gradient of {op.name}"):
            return cotangents
        return self.handle.pulled(op, cotangents, gs, staged)  # type: ignore[no-any-return]
