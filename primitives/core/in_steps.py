"""Primitives that are computed in steps where derivatives are wanted, which need the steps too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .array import Array, Tracer
from .primitive import Application, Primitive
from .trace import Trace, slot, under

if TYPE_CHECKING:
    from .annotations import ArrayLike

__all__ = ["PrimitiveInSteps"]

# A primitive and its parameters.
BoundStep: TypeAlias = tuple[Primitive, dict[str, Any]]


class PrimitiveInSteps(Primitive):
    """A primitive for which reverse and forward mode run other primitives.

    A system's solution is one: its derivatives need the factors of the matrix, which a primitive of
    one output does not return. Where nothing is differentiated it is an operation like others, and
    so it is for hooks. It takes operands by position alone, and has its own rules for traces that
    want no steps.

    Args:
        name: its name.
        first: the primitive of the first step, which takes the first operand, and its parameters.
            Its result has no derivative.
        last: the primitive of the last step, which takes that result and then all operands, and
            its parameters.
        in_steps: ``in_steps(*operands)``: whether that saves time for these operands.
        declared: what else ``Primitive`` takes.
    """

    def __init__(
        self,
        name: str,
        *,
        first: BoundStep,
        last: BoundStep,
        in_steps: Callable[..., bool],
        **declared: Any,
    ) -> None:
        super().__init__(name, **declared)
        self.first = first
        self.last = last
        self.in_steps = in_steps
        last[0].whole = self

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            return self.bind(args, kwargs)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise

    def bind(self, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Applies the primitive, or its steps under a trace that stands open."""
        if slot.trace is None:
            return self.evaluated(args, params)
        return super().bind(args, params)

    def evaluated(self, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Computes the primitive at the public face, in its steps where a tensor needs them."""
        standing = (x.owner for x in args if isinstance(x, Tracer) and x.owner.standing)
        if any(self._wanted(trace, args) for trace in standing):
            with under(None):
                return self._run(args)
        return super().evaluated(args, params)

    def under(self, trace: Trace, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Hands the primitive to a trace, or its steps where the trace differentiates them."""
        if self._wanted(trace, args):
            with under(trace):
                return self._run(args)
        return super().under(trace, args, params)

    def differentiated(self, args: Sequence[Any], params: dict[str, Any]) -> Application:
        if not self.in_steps(*args):
            return super().differentiated(args, params)
        first, known = self.first
        primitive, rest = self.last
        return primitive, [first.bind(args[:1], known), *args], rest

    def leaves(self, primitive: Any) -> bool:
        return primitive is self or primitive is self.last[0]

    def _run(self, args: Sequence[ArrayLike]) -> Array:
        """Does the steps at the level of the current trace."""
        primitive, operands, params = self.differentiated(args, {})
        return primitive.bind(operands, params)

    def _wanted(self, trace: Trace, args: Sequence[ArrayLike]) -> bool:
        """Says whether a trace is to differentiate what is computed of these operands."""
        return (
            trace.differentiates
            and any(isinstance(x, Tracer) and x.owner is trace and is_linked(x) for x in args)
            and self.in_steps(*args)
        )


def is_linked(x: Tracer) -> bool:
    """Says whether a tracer has a derivative: a node, or a note of a checkpoint's first run."""
    return getattr(x, "node", x) is not None and getattr(x, "linked", True)
