"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.families import binary, unary
from ..core.test_samples import NONZERO, UNIT, Domain

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh",
    "deg2rad", "hypot", "one_less_square", "rad2deg", "side_ratio", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

sin = unary(
    "sin", lambda g, x: g * ops.cos(x), dtypes="fdD",
    doc="Returns the sine of angles in radians.", example="np.sin(0.0) -> 0.0",
)
cos = unary(
    "cos", lambda g, x: -g * ops.sin(x), dtypes="fdD",
    doc="Returns the cosine of angles in radians.", example="np.cos(0.0) -> 1.0",
)
tan = unary(
    "tan", lambda g, ans: g * (1 + ans * ans), domains=UNIT, dtypes="fdD",
    doc="Returns the tangent of angles in radians.", example="np.tan(0.0) -> 0.0",
)
# Close to 1 the product has all digits, and its derivative has them close to 0.
one_less_square = unary(
    "one_less_square", lambda g, x: g * (-2 * x),
    compute=lambda xp, x: (1 - x) * (1 + x),
    reference=lambda x: 1 - x * x, domains=UNIT, dtypes="fdD",
    doc="Returns ``1 - x * x``.",
)
arcsin = unary(
    "arcsin", lambda g, x: g / ops.sqrt(ops.one_less_square(x)), domains=UNIT, dtypes="fdD",
    doc="Returns the angle in radians, from -pi/2 to pi/2, whose sine is x.",
    example="np.arcsin(0.0) -> 0.0",
)
arccos = unary(
    "arccos", lambda g, x: -g / ops.sqrt(ops.one_less_square(x)), domains=UNIT, dtypes="fdD",
    doc="Returns the angle in radians, from 0 to pi, whose cosine is x.",
    example="np.arccos(1.0) -> 0.0",
)
arctan = unary(
    "arctan", lambda g, x: g / (1 + x * x), domains=UNIT, dtypes="fdD",
    doc="Returns the angle in radians, from -pi/2 to pi/2, whose tangent is x.",
    example="np.arctan(0.0) -> 0.0",
)

# -- of two sides of a right angle. Quotients by the hypotenuse are at most 1, so that no square
# overflows; at the origin, where there is no derivative, they are 0.


# Sides this small are multiplied by these factors, as subnormal numbers have few digits.
SMALLEST_ACCURATE_SIDE = {"e": 2.0**-8, "f": 2.0**-60, "d": 2.0**-500}
SMALL_SIDE_SCALE = {"e": 2.0**12, "f": 2.0**84, "d": 2.0**560}


def _safe_divisor(r: Array) -> Array:
    return ops.where(r == 0, 1, r)


def _side_ratio(xp: ArrayModule, x: Buffer, y: Buffer) -> Any:
    r = xp.hypot(x, y)
    kind = r.dtype
    small = xp.less(r, SMALLEST_ACCURATE_SIDE[kind.char])
    if xp is not np or small.any():
        scale = xp.where(small, kind.type(SMALL_SIDE_SCALE[kind.char]), kind.type(1))
        x = x * scale
        r = xp.hypot(x, y * scale)
    return x / xp.where(xp.equal(r, 0), 1, r).astype(kind)[()]


def _side_ratio_grad(first: Array, second: Array, x: Array, y: Array) -> Array:
    # The division comes first, as the product of two small ratios may vanish.
    return first * (second / _safe_divisor(ops.hypot(x, y)))


# Derivatives are products of such ratios, in which nothing cancels.
side_ratio = binary(
    "side_ratio",
    lambda g, x, y: g * _side_ratio_grad(ops.side_ratio(y, x), ops.side_ratio(y, x), x, y),
    lambda g, ans, x, y: -g * _side_ratio_grad(ans, ops.side_ratio(y, x), x, y),
    compute=_side_ratio, domains=NONZERO, reference=lambda x, y: x / np.hypot(x, y),
    doc="Returns ``x / hypot(x, y)``, and 0 at the origin.",
)
hypot = binary(
    "hypot",
    lambda g, x, y: g * ops.side_ratio(x, y),
    lambda g, x, y: g * ops.side_ratio(y, x),
    domains=NONZERO,
    doc="Returns ``sqrt(x**2 + y**2)`` without overflow; its derivative at the origin is 0.",
    example="np.hypot(3.0, 4.0) -> 5.0",
)
arctan2 = binary(
    "arctan2",
    lambda g, x, y: g * (ops.side_ratio(y, x) / _safe_divisor(ops.hypot(x, y))),
    lambda g, x, y: -g * (ops.side_ratio(x, y) / _safe_divisor(ops.hypot(x, y))),
    domains=NONZERO,
    doc="Returns the angle in radians, from -pi to pi, whose tangent is ``x / y``.",
    arguments={"x, y": "ordinates and abscissas: arrays whose shapes broadcast, or numbers."},
    example="np.arctan2(0.0, 1.0) -> 0.0",
)

# -- hyperbolic

sinh = unary(
    "sinh", lambda g, x: g * ops.cosh(x), dtypes="fdD",
    doc="Returns the hyperbolic sine.", example="np.sinh(0.0) -> 0.0",
)
cosh = unary(
    "cosh", lambda g, x: g * ops.sinh(x), dtypes="fdD",
    doc="Returns the hyperbolic cosine.", example="np.cosh(0.0) -> 1.0",
)
tanh = unary(
    "tanh", lambda g, ans: ops.tanh_grad(g, ans), domains=UNIT, dtypes="fdD",
    doc="Returns the hyperbolic tangent.", example="np.tanh(0.0) -> 0.0",
)
arcsinh = unary(
    "arcsinh", lambda g, ans: g / ops.cosh(ans), domains=UNIT, dtypes="fdD",
    doc="Returns the number whose hyperbolic sine is x.", example="np.arcsinh(0.0) -> 0.0",
)
arccosh = unary(
    "arccosh", lambda g, x: g / (ops.sqrt(x - 1) * ops.sqrt(x + 1)), domains=Domain(1.3, 3.0),
    dtypes="fdD",
    doc="Returns the number, at least 0, whose hyperbolic cosine is x.",
    example="np.arccosh(1.0) -> 0.0",
)
arctanh = unary(
    "arctanh", lambda g, x: g / ops.one_less_square(x), domains=UNIT, dtypes="fdD",
    doc="Returns the number whose hyperbolic tangent is x.", example="np.arctanh(0.0) -> 0.0",
)

# -- units of angles

deg2rad = unary(
    "deg2rad", lambda g: ops.deg2rad(g),
    doc="Returns angles in degrees as radians.", example="(np.deg2rad(180.0) == np.pi) -> True",
)
rad2deg = unary(
    "rad2deg", lambda g: ops.rad2deg(g),
    doc="Returns angles in radians as degrees.", example="np.rad2deg(np.pi) -> 180.0",
)
