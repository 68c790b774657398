"""Choosing between elements: extrema of two, limits, conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .families import binary, elementwise
from .primitive import Primitive
from .registry import registry as ops
from .samples import DISTINCT, LOGICAL, NONZERO, REAL, Domain

__all__ = [
    "clip",
    "exceeds",
    "fmax",
    "fmin",
    "heaviside",
    "maximum",
    "minimum",
    "where",
]


def _exceeds(xp: Any, x: Any, y: Any) -> Any:
    dtype = xp.result_type(x, y)
    # Bytes add up several times faster than booleans do as floating-point numbers.
    twice = xp.greater(x, y).view("int8") + xp.greater_equal(x, y).view("int8")
    return xp.multiply(twice, 0.5, dtype=dtype if dtype.kind == "f" else xp.float64)


exceeds = binary(
    "exceeds",
    compute=_exceeds,
    reference=lambda x, y: np.heaviside(np.subtract(x, y), 0.5),
    doc="Returns 1 where x exceeds y, 0.5 where they are equal, and 0 elsewhere.",
)

# The derivatives of extrema: all to the larger one, and to both alike where they are equal.
maximum = binary(
    "maximum",
    lambda g, x, y: g * ops.exceeds(x, y),
    lambda g, x, y: g * ops.exceeds(y, x),
    domains=DISTINCT,
    doc="Returns the larger of two elements, NaN where one is; equal ones share the derivative.",
    example="np.maximum([1, 5], [4, 2]) -> [4, 5]",
)
minimum = binary(
    "minimum",
    lambda g, x, y: g * ops.exceeds(y, x),
    lambda g, x, y: g * ops.exceeds(x, y),
    domains=DISTINCT,
    doc="Returns the smaller of two elements, NaN where one is; equal ones share the derivative.",
    example="np.minimum([1, 5], [4, 2]) -> [1, 2]",
)


def _unless_nan(weight: Any, x: Any, y: Any) -> Any:
    """The weight of x beside y: all where y is NaN, none where x is."""
    return ops.where(ops.isnan(x), 0, ops.where(ops.isnan(y), 1, weight))


fmax = binary(
    "fmax",
    lambda g, x, y: g * _unless_nan(ops.exceeds(x, y), x, y),
    lambda g, x, y: g * _unless_nan(ops.exceeds(y, x), y, x),
    domains=DISTINCT,
    doc="Returns the larger of two elements, or the one that is not NaN.",
    example="np.fmax([1.0, np.nan], [4.0, 2.0]) -> [4.0, 2.0]",
)
fmin = binary(
    "fmin",
    lambda g, x, y: g * _unless_nan(ops.exceeds(y, x), x, y),
    lambda g, x, y: g * _unless_nan(ops.exceeds(x, y), y, x),
    domains=DISTINCT,
    doc="Returns the smaller of two elements, or the one that is not NaN.",
    example="np.fmin([1.0, np.nan], [4.0, 2.0]) -> [1.0, 2.0]",
)


class _Clip(Primitive):
    """Limits from both sides; from one side it is ``maximum`` or ``minimum``."""

    def __call__(
        self,
        x: Any,
        a_min: Any = None,
        a_max: Any = None,
        *,
        min: Any = None,
        max: Any = None,
    ) -> Any:
        low = a_min if min is None else min
        high = a_max if max is None else max
        if low is None:
            return ops.positive(x) if high is None else ops.minimum(x, high)
        return ops.maximum(x, low) if high is None else super().__call__(x, low, high)


clip = elementwise(
    "clip",
    lambda g, x, y, z: g * (ops.exceeds(x, y) * ops.exceeds(z, x)),
    lambda g, x, y, z: g * (ops.exceeds(y, x) * ops.exceeds(z, y)),
    lambda g, x, y, z: g * ops.exceeds(ops.maximum(x, y), z),
    kind=_Clip,
    domains=(REAL, Domain(-1.5, -0.5), Domain(0.5, 1.5)),
    doc="Returns x limited to an interval: ``minimum(maximum(x, low), high)``.",
    arguments={
        "x": "an array of any shape, or a number.",
        "a_min, a_max": "the limits, which broadcast against x; None for no limit.",
        "min, max": "the same by other names.",
    },
    example="np.clip([-3, 1, 5], 0, 2) -> [0, 1, 2]",
)

def _where_arguments(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise TypeError(
            f"where takes a condition and two branches, got {len(branches)}; "
            "np.nonzero(condition) gives the indices where it holds"
        )
    return (condition, *branches), {}


where = elementwise(
    "where",
    lambda g: None,
    lambda g, x: ops.where(x, g, 0),
    lambda g, x: ops.where(x, 0, g),
    prepare=_where_arguments,
    domains=(LOGICAL, REAL, REAL),
    dtypes="fdD",
    doc="Returns x's elements where a condition holds, y's elsewhere.",
    arguments={
        "condition": "an array of booleans.",
        "x, y": "arrays whose shapes broadcast against the condition's, or numbers.",
    },
    example="np.where([True, False], [1, 2], 0) -> [1, 0]",
)
heaviside = binary(
    "heaviside",
    lambda g: None,
    lambda g, x: ops.where(x == 0, g, 0),
    domains=(NONZERO, REAL),
    doc="Returns 0 for negative x, 1 for positive x, and y for zero.",
    example="np.heaviside([-2.0, 0.0, 2.0], 0.5) -> [0.0, 0.5, 1.0]",
)
