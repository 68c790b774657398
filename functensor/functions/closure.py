"""Traced values that functions close over: found while a function runs, and replaced by others.

A function that runs later, or below the transformation that called it, must be given every traced
value that it uses. ``ClosedOver`` finds these values and puts others in their places. ``close``
makes a function one of such values; loops, branches and checkpoints do the same by traces of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import tree
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import RAW, Trace, base_trace, new, run, slot, under
from .frozen_closure import frozen

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value
    from ..primitives.core.primitive_like import Call

__all__ = ["ClosedOver", "ClosureTrace", "close", "kept_as_it_is"]

Kept = TypeVar("Kept")


class ClosedOver:
    """The traced values that a function closes over, and the values that stand in their places.

    Args:
        met: the values by their ids; an earlier run may have met some.
        known: the values in their places, by the same ids.
    """

    __slots__ = ("known", "met")

    def __init__(
        self, met: dict[int, Any] | None = None, known: dict[int, Any] | None = None
    ) -> None:
        self.met: dict[int, Any] = {} if met is None else met
        self.known: dict[int, Any] = {} if known is None else known

    def of(self, x: Value, make: Callable[[Any], Any]) -> Any:
        """Returns the value in the place of another; ``make`` gives it the first time."""
        found = self.known.get(id(x))
        if found is None:
            found = self.known[id(x)] = make(x)
            self.met[id(x)] = x
        return found

    def run(self, trace: Trace, fun: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Calls a function under a trace that replaces the values; their own may have ended."""
        before = slot.stood_for
        slot.stood_for = {*before, *self.met}
        try:
            return run(trace, fun, args)
        finally:
            slot.stood_for = before


class ClosureTracer(Tracer):
    """A value within a function whose constants are looked for, or replaced."""

    __slots__ = ("owner", "value")

    def origin(self) -> str:
        return "made within a function that a solver calls"


class ClosureTrace(Trace):
    """Runs a function, and replaces the traced values that it closes over.

    Its own tracers tell what the function computes from what it closes over.
    """

    __slots__ = ("closed_over",)

    def __init__(
        self,
        parent: Trace,
        fun: Callable[..., Any] | None,
        met: dict[int, Any],
        constants: Sequence[Any] = (),
    ) -> None:
        super().__init__(parent, "closure", fun)
        known = {key: self.argument(c) for key, c in zip(met, constants, strict=True)}
        self.closed_over = ClosedOver(dict(met), known)

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
            return self.closed_over.of(x, self.lift)
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
        out = self.closed_over.run(self, fun, given)
        return tree.map(
            lambda leaf: wrap(self.resolve(leaf)) if is_array_like(leaf) else leaf, out
        )


def kept_as_it_is(fun: Kept, *args: Any, workspace: bool = False) -> Kept:
    """Returns a function that does later what another does now: it keeps what that closes over.

    Names may come to stand for others, as in the next step of a loop. Where nothing is transformed,
    nothing runs later, and the function itself is returned.

    Args:
        fun: the function, or a tuple of functions and other values.
        args: what it is about to be called with.
        workspace: whether it may write to arrays that it closes over, which are not copied then.
    """
    if base_trace() is RAW and not any(isinstance(x, Tracer) for x in tree.leaves(args)):
        return fun
    kept: Kept = frozen(fun, {}, in_place=True, workspace=workspace)
    return kept


def close(fun: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a function of what ``fun`` closes over and of its arguments, and the former.

    It keeps what ``fun`` closes over now.

    Args:
        fun: takes and returns trees of arrays.
        args: arguments to run it on, once, if anything is being transformed.

    Returns:
        ``(closed, constants)``, such that ``closed(constants, *args)`` is ``fun(*args)``.

    >>> closed, constants = close(lambda x: 2 * x, 3.0)
    >>> closed(constants, 3.0), constants
    (6.0, [])
    """
    fun = kept_as_it_is(fun, *args)
    base = base_trace()
    if base is RAW:
        return lambda constants, *args: fun(*args), []
    finder = ClosureTrace(base, fun, {})
    # Hooks see the computation, not this first look.
    with under(base):
        finder.call(fun, args)
    met = finder.closed_over.met
    if not met:
        return lambda constants, *args: fun(*args), []

    def closed(constants: Sequence[Any], *args: Any) -> Any:
        return ClosureTrace(base_trace(), fun, met, constants).call(fun, args)

    return closed, list(met.values())
