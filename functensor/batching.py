"""Vectorisation: every batched value travels with its batch axis in front."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .primitives.array import Tracer
from .primitives.buffers import wrap
from .primitives.core import Trace, slot
from .primitives.primitive import Primitive

__all__ = ["BatchTrace", "BatchTracer"]

new = object.__new__


class BatchTracer(Tracer):
    """A value of one example: at the parent's level it has the batch axis in front."""

    __slots__ = ("trace", "value")

    concrete = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape[1:]  # type: ignore[no-any-return]

    def origin(self) -> str:
        return "made by vectorisation"


class BatchTrace(Trace):
    """Runs a function once for a whole batch of examples.

    Attributes:
        size: the length of the batch axis.
    """

    __slots__ = ("size",)

    def __init__(self, parent: Trace, name: str, fun: Any, size: int) -> None:
        super().__init__(parent, name, fun)
        self.size = size

    def wrap(self, value: Any) -> Any:
        """Returns the tracer of a value that has the batch axis in front."""
        out = new(BatchTracer)
        out.trace = self
        out.value = value
        return out

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], list[bool]]:
        """Returns the operands' values and whether each is batched."""
        values: list[Any] = []
        flags: list[bool] = []
        for a in args:
            batched = type(a) is BatchTracer and a.trace is self
            values.append(a.value if batched else self.lift(a))
            flags.append(batched)
        return values, flags

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, flags = self.unwrap(args)
        if True not in flags:
            return wrap(self.below(primitive, values, params))
        before = slot.trace
        slot.trace = self.parent
        try:
            return self.wrap(primitive.batch(primitive, values, flags, params))
        finally:
            slot.trace = before

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        values, flags = self.unwrap(args)
        if True not in flags:
            return [wrap(out) for out in self.parent.custom(call, values)]
        outs = self.parent.custom(call.batched(flags, self.size), values)
        return [self.wrap(out) for out in outs]
