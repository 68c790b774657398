"""Functions that close over traced values, made functions of those values.

A function that is called later, by a rule or by a solver, must be given every traced value that it
uses as an argument. What it closes over is found by running it once; from then on other values
stand in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import tree
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import RAW, Trace, base_trace, new, run, slot, under

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value
    from ..primitives.core.primitive_like import Call

__all__ = ["close"]


class ClosureTracer(Tracer):
    """A value within a function whose constants are looked for, or replaced."""

    __slots__ = ("owner", "value")

    def origin(self) -> str:
        return "made within a function that a solver calls"


class ClosureTrace(Trace):
    """Runs a function, and finds or replaces the traced values that it closes over.

    Attributes:
        found: those that were met, by their ids, while they are looked for.
        values: what stands in their place, by the same ids; None while they are looked for.
    """

    __slots__ = ("found", "values")

    def __init__(
        self, parent: Trace, fun: Callable[..., Any] | None, values: dict[int, Any] | None
    ) -> None:
        super().__init__(parent, "closure", fun)
        self.found: dict[int, Any] = {}
        self.values = values

    def wrap(self, value: Value) -> ClosureTracer:
        """Returns the tracer of a value."""
        out = new(ClosureTracer)
        out.owner = self
        out.value = value
        return out

    def resolve(self, x: Value) -> Any:
        """Returns an operand as a value of the parent's level."""
        if type(x) is ClosureTracer and x.owner is self:
            return x.value
        if isinstance(x, Tracer) and not x.owner.standing:
            if self.values is None:
                self.found[id(x)] = x
            elif id(x) in self.values:
                return self.values[id(x)]
        return self.lift(x)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.wrap(self.below(primitive, [self.resolve(a) for a in args], params))

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        outs = self.parent.custom(call, [self.resolve(a) for a in args])
        return [self.wrap(out) for out in outs]

    def call(self, fun: Callable[..., Any], args: Any) -> Any:
        """Calls the function on arrays of the parent's level and returns such ones."""
        given = tree.map(
            lambda leaf: self.wrap(self.argument(leaf)) if is_array_like(leaf) else leaf, args
        )
        before = slot.stood_for
        slot.stood_for = {*before, *(self.values or ())}
        try:
            out = run(self, fun, given)
        finally:
            slot.stood_for = before
        return tree.map(
            lambda leaf: wrap(self.resolve(leaf)) if is_array_like(leaf) else leaf, out
        )


def close(fun: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a function of what ``fun`` closes over and of its arguments, and the former.

    Args:
        fun: takes and returns trees of arrays.
        args: arguments to run it on, once, if anything is being transformed.

    Returns:
        ``(closed, constants)``, such that ``closed(constants, *args)`` is ``fun(*args)``.

    >>> closed, constants = close(lambda x: 2 * x, 3.0)
    >>> closed(constants, 3.0), constants
    (6.0, [])
    """
    base = base_trace()
    if base is RAW:
        return lambda constants, *args: fun(*args), []
    finder = ClosureTrace(base, fun, None)
    # Hooks are to see what the function computes, not that it was looked into.
    with under(base):
        finder.call(fun, args)
    met = finder.found
    if not met:
        return lambda constants, *args: fun(*args), []

    def closed(constants: Sequence[Any], *args: Any) -> Any:
        trace = ClosureTrace(base_trace(), fun, None)
        trace.values = {key: trace.argument(c) for key, c in zip(met, constants, strict=True)}
        return trace.call(fun, args)

    return closed, list(met.values())
