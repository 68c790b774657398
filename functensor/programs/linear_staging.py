"""The staging of linear functions: values are computed, what tangents go through is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import Trace
from .program import used
from .staging import StagingTrace

__all__ = ["LinearTrace"]


class LinearTrace(StagingTrace):
    """Records what depends on its inputs, which are tangents, and does all else at once.

    So the nonlinear work is done once, and Python knows every value that is no tangent.
    """

    __slots__ = ()

    linear = True

    def __init__(self, parent: Trace, fun: Callable[..., Any]) -> None:
        # Messages mention the transformation once, by the trace that stands on this one.
        super().__init__(parent, "", fun)
        # Hooks see the operations now, and not those of the linear function.
        self.calls_hooks = False

    def deferred(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        given: Sequence[ShapeDtype],
        params: dict[str, Any],
    ) -> ShapeDtype | None:
        """Returns None: no operation of constants waits."""
        return None

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        operands = [self.operand(a) for a in args]
        return super().custom(call, args) if used(operands) else self.done(call, operands)
