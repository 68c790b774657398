"""The traces under which a checkpointed function runs: for the first time, and again.

A checkpointed function runs below the transformation that called it, so that no tracer of its
inside stays behind. It may close over values of that transformation. ``CaptureTrace`` replaces
these by values of the level on which the function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..functions.closure import ClosedOver
from ..primitives.core.annotations import Value, Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import all_apart_from, apart_from, wrap
from ..primitives.core.errors import ReplayError, function_name, message
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import RAW, Trace, base_trace, new, under
from ..traces.reverse import ReverseTrace, ReverseTracer, is_inexact

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import Call

__all__ = [
    *("CaptureTrace", "FirstRunTrace", "FirstRunTracer", "RehearsalTrace", "ReplayTrace"),
    *("captured", "signature"),
]


class CaptureTrace(Trace):
    """Replaces the tracers of another trace, and passes everything on to its parent.

    Attributes:
        level: the other trace.
        closed_over: its tracers that were met, and the values in their places.
        make: gives the value in the place of a tracer.
    """

    __slots__ = ("closed_over", "level", "make")

    # It has no tracers of its own: what hooks watch below it, it does not hide.
    hands_on = True

    def __init__(self, level: Trace, closed_over: ClosedOver, make: Callable[[Any], Any]) -> None:
        super().__init__(base_trace(), "", level.fun)
        self.level = level
        self.closed_over = closed_over
        self.make = make

    def resolve(self, x: Value) -> Any:
        """Returns a value, or the one that stands in its place."""
        if not isinstance(x, Tracer) or x.owner is not self.level:
            return x
        return self.closed_over.of(x, self.make)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values = [self.resolve(a) for a in args]
        if self.parent is RAW:
            return primitive.evaluated(values, params)
        return self.below(primitive, values, params)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        with self.passing():
            return call.bind([self.resolve(a) for a in args])

    def passing(self) -> AbstractContextManager[None]:
        """Returns a context in which the parent is the current trace."""
        return under(None if self.parent is RAW else self.parent)


def captured(
    level: Trace,
    closed_over: ClosedOver,
    make: Callable[[Any], Any],
    fun: Callable[[Values], Values],
    values: Values,
) -> Values:
    """Calls a function of a list with the tracers of a level replaced; see `CaptureTrace`."""
    trace = CaptureTrace(level, closed_over, make)
    return [trace.resolve(out) for out in closed_over.run(trace, fun, (values,))]


class FirstRunTracer(Tracer):
    """A value of the first run; ``made`` is a note on it."""

    __slots__ = ("made", "owner", "value")

    made: Any

    @property
    def linked(self) -> bool:
        """Says whether the second run will give it a node."""
        return self.made is True or self.made.linked

    def origin(self) -> str:
        return "made within a checkpointed function"


class FirstRunTrace(Trace):
    """Runs a function for the first time, without leaving nodes.

    ``log`` has name, shapes and dtypes of every operation that is compared in the second run.
    """

    __slots__ = ("log",)

    # What derivatives need in steps is computed in steps, as in the second run.
    differentiates = True

    def __init__(self, fun: Callable[..., Any] | None, within: Trace) -> None:
        super().__init__(base_trace(), "checkpoint", fun, within)
        self.log: list[Any] = []

    def wrap(self, value: Value, made: Any = True) -> FirstRunTracer:
        """Returns the tracer of a value, with a note on it."""
        out = new(FirstRunTracer)
        out.owner = self
        out.value = value
        out.made = made
        return out

    def owns(self, x: Value) -> bool:
        """Says whether a value is one of this run's tracers."""
        return type(x) is FirstRunTracer and x.owner is self

    def unwrap(self, args: Sequence[Any]) -> tuple[Values, list[Any]]:
        """Returns the operands' values and the notes on them; None for values of other levels."""
        values: Values = []
        notes: list[Any] = []
        for a in args:
            mine = type(a) is FirstRunTracer and a.owner is self
            values.append(a.value if mine else self.lift(a))
            notes.append(a.made if mine else None)
        return values, notes

    def forget(self, before: int) -> None:
        """Takes operations since a time for none of the function's."""
        del self.log[before:]

    def collapse(
        self, call: Call, before: int, operands: Sequence[Any], outs: Sequence[Any]
    ) -> Values:
        """Makes one operation of all since a time, which was a checkpointed function's run."""
        raise NotImplementedError


class RehearsalTrace(FirstRunTrace):
    """Runs a function as reverse mode will do; only values that will have a node are traced."""

    __slots__ = ()

    in_parts = True
    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, mine = self.unwrap(args)
        ans = self.below(primitive, values, params)
        if True not in mine:
            return apart_from(ans, plain_arrays(args))
        if not is_inexact(ans):
            return wrap(ans)
        mask = sum([1 << i for i, made in enumerate(mine) if made])
        if primitive.keepers[mask] is None:
            return wrap(ans)
        self.log.append(signature(primitive.name, ans))
        return self.wrap(ans)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        values, mine = self.unwrap(args)
        if True not in mine:
            return list(map(wrap, all_apart_from(self.parent.custom(call, values), args)))
        results, _ = call.reverse(self.parent, values, list(map(bool, mine)))
        return self.called(call, all_apart_from(results, args))

    def called(self, call: Call, outs: Sequence[Any]) -> Values:
        """Notes a call as one operation; returns its outputs."""
        self.log.append(signature(call.name, *outs))
        return [self.wrap(out) if is_inexact(out) else wrap(out) for out in outs]

    def collapse(
        self, call: Call, before: int, operands: Sequence[Any], outs: Sequence[Any]
    ) -> Values:
        self.forget(before)
        return self.called(call, self.unwrap(outs)[0])


class ReplayTrace(ReverseTrace):
    """Reverse mode of a function that ran before, and has to do the same again.

    ``log`` has the operations of the first run; ``position`` counts those that are done again.
    """

    __slots__ = ("log", "position")

    def __init__(
        self,
        parent: Trace,
        name: str,
        fun: Callable[..., Any] | None,
        log: list[Any],
        within: Trace,
    ) -> None:
        super().__init__(parent, name, fun, within)
        self.log = log
        self.position = 0

    def process1(self, primitive: Primitive, x: Value) -> Any:
        return self.compared(primitive.name, super().process1(primitive, x))

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Any:
        return self.compared(primitive.name, super().process2(primitive, x, y))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.compared(primitive.name, super().process(primitive, args, params))

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        outs = super().custom(call, args)
        if any(type(a) is ReverseTracer and a.owner is self for a in args):
            self.expect(signature(call.name, *outs))
        return outs

    def compared(self, name: str, out: Value) -> Value:
        """Returns an output, once it is known to be that of the first time."""
        if type(out) is ReverseTracer and out.owner is self:
            self.expect(signature(name, out))
        return out

    def expect(self, got: tuple[Any, ...]) -> None:
        """Checks the next operation."""
        wanted = self.log[self.position] if self.position < len(self.log) else None
        if wanted != got:
            raise self.different(_shown_operation(wanted), _shown_operation(got))
        self.position += 1

    def finish(self) -> None:
        """Checks that there were no fewer operations."""
        if self.position < len(self.log):
            raise self.different(_shown_operation(self.log[self.position]), "nothing more")

    def different(self, wanted: str, got: str) -> ReplayError:
        """Returns the error for a second run that was not like the first."""
        what = f"checkpoint of {function_name(self.fun)}: run again for the backward pass, it "
        what += f"did not do the same: operation {self.position} was {wanted}, and is now {got}"
        fix = "unseeded random state or a global? Pass what changes as an argument, random keys too"
        return ReplayError(message(what, fix=fix, number=15))


def signature(name: str, *outs: Any) -> tuple[Any, ...]:
    """Returns a key by which two operations are compared."""
    kinds = [shape_dtype(out) for out in outs]
    return (name, *((kind.shape, kind.dtype) for kind in kinds))


def _shown_operation(known: Any) -> str:
    if known is None:
        return "nothing more"
    name, *kinds = known
    listed = ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" for shape, dtype in kinds)
    return f"{name}, which gives {listed}"
