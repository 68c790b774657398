"""Cotangents and tangents that users give, checked against the values that they belong to."""

from __future__ import annotations

from typing import Any

from ..primitives.core.annotations import ArrayLike, Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.errors import RuleResultError, describe, failure
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype

__all__ = ["cotangent_of"]


def cotangent_of(
    value: Value | ShapeDtype, g: ArrayLike, name: str = "cotangent", of: str = "an output"
) -> Any:
    """Returns a cotangent or tangent that a user gave, checked, in the dtype of its value."""
    wanted = shape_dtype(value)
    got = shape_dtype(g)
    if got.shape != wanted.shape:
        raise failure(
            RuleResultError,
            f"a {name} of shape {got.shape} was given for {of} {describe(value)}",
            fix=f"pass a {name} of shape {wanted.shape}",
        )
    if got.dtype.kind == "c" and wanted.dtype.kind != "c":
        raise failure(
            RuleResultError,
            f"a complex {name} was given for {of} {describe(value)}",
            fix=f"pass a real {name}",
        )
    return ops.astype(g, wanted.dtype) if got.dtype != wanted.dtype or got.weak else g
