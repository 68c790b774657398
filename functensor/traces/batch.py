"""Vectorisation: every batched value travels with its batch axis in front."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from ..primitives.core.array import Tracer
from ..primitives.core.buffers import all_apart_from, apart_from, wrap
from ..primitives.core.errors import ShapeError
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import RAW, Trace, explained, new, slot, under
from .forward import depends_on

if TYPE_CHECKING:
    from ..primitives.collectives import Collective
    from ..primitives.core.annotations import Value
    from ..primitives.core.primitive_like import Call

__all__ = ["BatchTrace", "BatchTracer", "NamedBatchTrace", "batch_trace", "examples_under"]


class BatchTracer(Tracer):
    """A value of one example: at the parent's level it has the batch axis in front."""

    __slots__ = ("owner", "value")

    concrete = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape[1:]  # type: ignore[no-any-return]

    def origin(self) -> str:
        return self.value.origin() if isinstance(self.value, Tracer) else "made by vectorisation"

    def dependence(self) -> str:
        return depends_on(self.owner.names(), exactly=False)


class BatchTrace(Trace):
    """Runs a function once for a whole batch of examples.

    Attributes:
        size: the length of the batch axis.
        names: returns what messages call its inputs.
    """

    __slots__ = ("names", "size")

    batching = True

    # By what name collective operations know the batch axis.
    axis_name: Hashable = None

    def __init__(self, parent: Trace, name: str, fun: Callable[..., Any] | None, size: int) -> None:
        super().__init__(parent, name, fun)
        self.size = size
        self.names: Callable[[], list[str]] = list

    def wrap(self, value: Value) -> BatchTracer:
        """Returns the tracer of a value that has the batch axis in front."""
        out = new(BatchTracer)
        out.owner = self
        out.value = value
        return out

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], list[bool]]:
        """Returns the operands' values and whether each is batched."""
        values: list[Any] = []
        flags: list[bool] = []
        for a in args:
            batched = type(a) is BatchTracer and a.owner is self
            values.append(a.value if batched else self.lift(a))
            flags.append(batched)
        return values, flags

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, flags = self.unwrap(args)
        if True not in flags:
            return apart_from(self.below(primitive, values, params), plain_arrays(args))
        before = slot.trace
        slot.trace = self.parent
        try:
            return self.wrap(primitive.batch(primitive, values, flags, params))
        except ShapeError as error:
            # The user knows the shapes of one example.
            raise explained(primitive, args, params, error) from None
        finally:
            slot.trace = before

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        done = call.in_parts(self, args)
        if done is not None:
            return done
        values, flags = self.unwrap(args)
        if True not in flags:
            return list(map(wrap, all_apart_from(self.parent.custom(call, values), args)))
        return self.mapped(call.batched(flags, self.size), values)

    def mapped(self, call: Call, values: list[Any]) -> list[Any]:
        """Does the work of a call for the whole batch."""
        outs = all_apart_from(self.parent.custom(call, values), values)
        flags = call.out_flags or [call.out_flags is None] * len(outs)
        return [self.wrap(out) if flag else wrap(out) for out, flag in zip(outs, flags)]


class NamedBatchTrace(BatchTrace):
    """A batch whose examples may speak of each other, under the name of the batch axis.

    Attributes:
        axis_name: the name.
        inputs: what is mapped over, which tells where the examples are.
    """

    __slots__ = ("axis_name", "inputs")

    def __init__(self, parent: Trace, name: str, fun: Any, size: int, axis_name: Hashable) -> None:
        super().__init__(parent, name, fun, size)
        self.axis_name = axis_name
        self.inputs: Sequence[Any] = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.along is not None and self.axis_name in params["axis_name"]:
            return self.collect(cast("Collective", primitive), args, params)
        return super().process(primitive, args, params)

    def collect(self, primitive: Collective, args: Sequence[Any], params: dict[str, Any]) -> Value:
        """Does a collective operation over the batch axis; other axes are left to the parent."""
        (x,), (batched,) = self.unwrap(args)
        rest = tuple(name for name in params["axis_name"] if name != self.axis_name)
        with under(self.parent):
            out, batched = primitive.along(x, batched, self.size, params)
            if rest:
                out = primitive.bind([out], {**params, "axis_name": rest})
        return self.wrap(self.lift(out)) if batched else wrap(out)

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        done = call.in_parts(self, args)
        if done is not None:
            return done
        # The function may speak of the axis even where no operand depends on the example.
        values, flags = self.unwrap(args)
        return self.mapped(call.batched(flags, self.size, self.axis_name), values)


def batch_trace(
    parent: Trace, name: str, fun: Callable[..., Any] | None, size: int, axis_name: Hashable
) -> BatchTrace:
    """Returns the trace of a batch, of the kind that is fast where the axis has no name."""
    if axis_name is None:
        return BatchTrace(parent, name, fun, size)
    return NamedBatchTrace(parent, name, fun, size, axis_name)


def examples_under(trace: Trace | None) -> int | None:
    """Returns for how many examples an operation stands under a trace; None outside of batches."""
    sizes = []
    while trace is not None and trace is not RAW:
        if isinstance(trace, BatchTrace):
            sizes.append(trace.size)
        trace = trace.parent
    return prod(sizes) if sizes else None
