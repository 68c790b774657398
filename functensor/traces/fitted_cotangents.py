"""Cotangents of derivative rules, fitted to the shapes and dtypes of the operands."""

from __future__ import annotations

from typing import Any

from ..primitives.core.annotations import operations as ops
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import RuleResultError, failure
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.elementwise.cast_and_complex import cast

__all__ = ["fitted_cotangent"]


def fitted_cotangent(c: Any, operand: Any, primitive: PrimitiveLike) -> Any:
    """Returns a cotangent in the shape and dtype of the operand that it belongs to.

    Args:
        c: the cotangent that a rule returned.
        operand: the operand's node or type.
        primitive: whose rule it is.

    Raises:
        RuleResultError: it has another shape, and not that to which the operand was broadcast.
    """
    shape = shape_dtype(c).shape
    if shape != operand.shape:
        extra = len(shape) - len(operand.shape)
        lengths = zip(shape[max(extra, 0) :], operand.shape, strict=False)
        if extra < 0 or not primitive.broadcasts or any(n != m != 1 for n, m in lengths):
            raise failure(
                RuleResultError,
                f"the vjp of {primitive.name!r} returned a cotangent of shape {shape} for an "
                f"operand of shape {operand.shape}",
                fix="a cotangent has the shape of its operand",
            )
        axes = tuple(range(extra)) + tuple(
            i for i, n in enumerate(operand.shape, extra) if n == 1 and shape[i] != 1
        )
        c = ops["sum"].bind((c,), {"axis": axes, "keepdims": False, "dtype": None})
        if shape_of(c) != operand.shape:
            c = ops.reshape(c, operand.shape)
    if shape_dtype(c).dtype != operand.dtype or type(c) in (float, int, complex):
        c = cast(c, operand.dtype)
    return c
