"""The traces under which a checkpointed function runs: for the first time, and again.

A checkpointed function runs below the transformation that called it, so that nothing of its inside
stays behind. What it closes over, though, are values of that transformation: a trace of its own
puts the right ones in their places, and tells which they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..primitives.core.annotations import Value, Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import all_apart_from, apart_from, plain_arrays, wrap
from ..primitives.core.errors import ReplayError, function_name, message
from ..primitives.core.primitive import Primitive, evaluate
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import RAW, Trace, base_trace, new, run, slot, under
from ..traces.reverse import ReverseTrace, ReverseTracer, is_inexact

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import Call

__all__ = ["CaptureTrace", "RehearsalTrace", "ReplayTrace", "captured"]


class CaptureTrace(Trace):
    """Replaces the tracers of another trace, and passes everything on to its parent.

    Attributes:
        level: the other trace.
        met: its tracers that were met, by their ids; kept from one run to the next.
        known: what stands in their places, likewise.
        make: gives what is to stand in the place of a tracer.
    """

    __slots__ = ("known", "level", "make", "met")

    def __init__(
        self,
        parent: Trace,
        level: Trace,
        met: dict[int, Any],
        known: dict[int, Any],
        make: Callable[[Any], Any],
    ) -> None:
        super().__init__(parent, "", level.fun)
        self.level = level
        self.met = met
        self.known = known
        self.make = make

    def resolve(self, x: Value) -> Any:
        """Returns what stands in the place of a value."""
        if not isinstance(x, Tracer) or x.owner is not self.level:
            return x
        found = self.known.get(id(x))
        if found is None:
            found = self.known[id(x)] = self.make(x)
            self.met[id(x)] = x
        return found

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values = [self.resolve(a) for a in args]
        if self.parent is RAW:
            return evaluate(primitive, values, params)
        return self.below(primitive, values, params)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        with self.passing():
            return call.bind([self.resolve(a) for a in args])

    def passing(self) -> AbstractContextManager[None]:
        """Returns a context in which the parent is the current trace."""
        return under(None if self.parent is RAW else self.parent)


def captured(
    level: Trace,
    met: dict[int, Any],
    known: dict[int, Any],
    make: Callable[[Any], Any],
    fun: Callable[[Values], Values],
    values: Values,
) -> Values:
    """Calls a function of a list with the tracers of a level replaced; see `CaptureTrace`."""
    trace = CaptureTrace(base_trace(), level, met, known, make)
    # In a later run the level is over, but what is closed over belongs to it.
    before = slot.stood_for
    slot.stood_for = {*before, *met}
    try:
        return [trace.resolve(out) for out in run(trace, fun, (values,))]
    finally:
        slot.stood_for = before


class RehearsalTracer(Tracer):
    """A value that will have a node when the function runs again."""

    __slots__ = ("owner", "value")

    def origin(self) -> str:
        return "made within a checkpointed function"


class RehearsalTrace(Trace):
    """Runs a function as reverse mode will do, without leaving nodes.

    Attributes:
        log: name, shape and dtype of every operation that will have a node.
    """

    __slots__ = ("log",)

    def __init__(
        self, parent: Trace, name: str, fun: Callable[..., Any] | None, within: Trace
    ) -> None:
        super().__init__(parent, name, fun, within)
        self.log: list[Any] = []

    def wrap(self, value: Value) -> Tracer:
        """Returns the tracer of a value."""
        out = new(RehearsalTracer)
        out.owner = self
        out.value = value
        return out

    def owns(self, x: Value) -> bool:
        """Says whether a value is one that will have a node."""
        return type(x) is RehearsalTracer and x.owner is self

    def unwrap(self, args: Sequence[Any]) -> tuple[Values, bool]:
        """Returns the operands' values, and whether any is to have a node."""
        mine = list(map(self.owns, args))
        values = [a.value if m else self.lift(a) for a, m in zip(args, mine, strict=True)]
        return values, True in mine

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, found = self.unwrap(args)
        ans = self.below(primitive, values, params)
        if not found:
            return apart_from(ans, plain_arrays(args))
        if not is_inexact(ans):
            return wrap(ans)
        mask = sum(1 << i for i, a in enumerate(args) if self.owns(a))
        if primitive.keepers[mask] is None:
            return wrap(ans)
        self.log.append(signature(primitive.name, ans))
        return self.wrap(ans)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        values, found = self.unwrap(args)
        if not found:
            return list(map(wrap, all_apart_from(self.parent.custom(call, values), args)))
        results, _ = call.reverse(self.parent, values, list(map(self.owns, args)))
        outs = all_apart_from(results, args)
        self.log.append(signature(call.name, *outs))
        return [self.wrap(out) if is_inexact(out) else wrap(out) for out in outs]


class ReplayTrace(ReverseTrace):
    """Reverse mode of a function that ran before, and has to do the same again.

    Attributes:
        log: what it did the first time.
        position: how much of that it has done again.
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
        return ReplayError(
            message(
                f"checkpoint of {function_name(self.fun)}: run again for the backward pass, it "
                f"did not do the same: operation {self.position} was {wanted}, and is now {got}",
                fix="unseeded random state or a global? Pass what changes as an argument, random "
                "keys too",
                number=15,
            )
        )


def signature(name: str, *outs: Any) -> tuple[Any, ...]:
    """Returns what an operation is compared by."""
    kinds = [shape_dtype(out) for out in outs]
    return (name, *((kind.shape, kind.dtype) for kind in kinds))


def _shown_operation(known: Any) -> str:
    if known is None:
        return "nothing more"
    name, *kinds = known
    listed = ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" for shape, dtype in kinds)
    return f"{name}, which gives {listed}"
