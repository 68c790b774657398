"""Descriptions of operations, as hooks are told of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType, MappingProxyType
from typing import Any

from ..backends.frames import line_of
from ..programs.labels import label

__all__ = ["TAG", "Operation"]

new = object.__new__

# The name of the primitive that gives a value a name, and does nothing else.
TAG = "checkpoint_name"


class Operation:
    """An operation, as hooks are told of it.

    Attributes:
        name: the primitive's name, or that of a function with a rule of its own.
        params: its static parameters, to read.
        line: the user's ``file:line`` that called it.
        scope: the ``ft.scope`` that it is in, ``"block/attention"``; empty outside of all.
        tag: the name that ``ft.tag`` gives its operand; None for other operations.
        phase: "forward"; "tangent" where it computes a tangent too; "backward" where its cotangents
            are shown; "replay" where a checkpoint runs it again.
        batch_size: for how many examples of ``vmap`` it stands; None outside of all.
    """

    __slots__ = ("_line", "_params", "batch_size", "name", "phase", "scope")

    # The operation in its first phase, where this is another one.
    first: Operation | None = None

    def __init__(
        self,
        name: str,
        params: dict[str, Any],
        line: str | tuple[CodeType, int] | None = "",
        scope: str = "",
        phase: str = "forward",
        batch_size: int | None = None,
    ) -> None:
        self.name = name
        self._params = params
        self._line = line
        self.scope = scope
        self.phase = phase
        self.batch_size = batch_size

    @property
    def params(self) -> Mapping[str, Any]:
        return MappingProxyType(self._params)

    @property
    def tag(self) -> str | None:
        return self._params.get("name") if self.name == TAG else None

    @property
    def line(self) -> str:
        # Few hooks ask, and the text costs more than the instruction that it is made of.
        line = self._line
        return line if isinstance(line, str) else line_of(line)

    def at(self, phase: str) -> Operation:
        """Returns the same operation in another phase."""
        # The constructor would take twice as long.
        out = new(LaterOperation)
        out.name = self.name
        out._params = self._params
        out._line = self._line
        out.scope = self.scope
        out.phase = phase
        out.batch_size = self.batch_size
        out.first = self.first or self
        return out

    def __reduce__(self) -> Any:
        known = (self.name, self._params, self.line, self.scope, self.phase, self.batch_size)
        return Operation, known

    def __repr__(self) -> str:
        return f"<{label(self.name, self._params)} at {self.line}>"


class LaterOperation(Operation):
    """An operation in another phase than its first."""

    __slots__ = ("first",)
