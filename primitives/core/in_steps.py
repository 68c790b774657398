"""Primitives that are computed in steps where derivatives are wanted, which need the steps too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .array import Array, Tracer
from .primitive import Primitive
from .trace import Trace, slot, under

if TYPE_CHECKING:
    from .annotations import ArrayLike

__all__ = ["PrimitiveInSteps"]


class PrimitiveInSteps(Primitive):
    """A primitive for which reverse and forward mode run other primitives.

    A system's solution is one: its derivatives need the factors of the matrix, which a primitive of
    one output does not return. Where nothing is differentiated it is an operation like others, and
    so it is for hooks. It takes operands by position alone, and has its own rules for traces that
    want no steps.

    Args:
        name: its name.
        steps: ``steps(*operands)``, which does the same by other primitives.
        in_steps: ``in_steps(*operands)``: whether that saves time for these operands.
        last: the primitive of the last step: another operand, and these behind it.
        declared: what else ``Primitive`` takes.
    """

    def __init__(
        self,
        name: str,
        *,
        steps: Callable[..., Array],
        in_steps: Callable[..., bool],
        last: Primitive,
        **declared: Any,
    ) -> None:
        super().__init__(name, **declared)
        self.steps = steps
        self.in_steps = in_steps
        last.whole = self

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            return self.bind(args, kwargs)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise

    def bind(self, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Applies the primitive, or its steps under a trace that stands open."""
        if slot.trace is None:
            standing = (x.owner for x in args if isinstance(x, Tracer) and x.owner.standing)
            if any(self._wanted(trace, args) for trace in standing):
                return self.steps(*args, **params)
        return super().bind(args, params)

    def under(self, trace: Trace, args: Sequence[ArrayLike], params: dict[str, Any]) -> Array:
        """Hands the primitive to a trace, or its steps where the trace differentiates them."""
        if self._wanted(trace, args):
            with under(trace):
                return self.steps(*args, **params)
        return super().under(trace, args, params)

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
