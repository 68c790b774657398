"""Arithmetic, powers and rounding, element by element."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.messages import MISSING
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.errors import refuse_out
from ..core.families import binary, elementwise, unary
from ..core.primitive import Unary
from ..core.test_samples import NONZERO, POSITIVE, REAL, Domain
from .cast_and_complex import is_complex

if TYPE_CHECKING:
    from ..core.primitive import AnyPrimitive

__all__ = [
    "abs", "add", "ceil", "copysign", "divide", "floor", "floor_divide", "fmod", "multiply",
    "negative", "nextafter", "positive", "power", "remainder", "rint", "round", "sign", "square",
    "subtract", "trunc",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

# -- the four operations

add = binary(
    "add",
    lambda g: g,
    lambda g: g,
    dtypes="fdD", doc="Returns ``x + y``.", example="np.add([1, 2], 3) -> [4, 5]",
)
subtract = binary(
    "subtract",
    lambda g: g,
    lambda g: -g,
    dtypes="fdD", doc="Returns ``x - y``.", example="np.subtract([1, 2], 3) -> [-2, -1]",
)
multiply = binary(
    "multiply",
    lambda g, y: g * y,
    lambda g, x: g * x,
    dtypes="fdD", doc="Returns ``x * y``.", example="np.multiply([1, 2], 3) -> [3, 6]",
)
divide = binary(
    "divide",
    lambda g, y: g / y,
    lambda g, ans, y: g * ans / -y,
    domains=(REAL, NONZERO), dtypes="fdD", doc="Returns ``x / y``; integers give ``float64``.",
    example="np.divide([1, 2], 4) -> [0.25, 0.5]",
)
negative = unary(
    "negative", lambda g: -g, dtypes="fdD",
    doc="Returns ``-x``.", example="np.negative([1, -2]) -> [-1, 2]",
)
positive = unary(
    "positive", lambda g: g, dtypes="fdD",
    doc="Returns ``+x``.", example="np.positive([1, -2]) -> [1, -2]",
)

# -- division with remainder: the quotient is constant but for its jumps

# Quotients well between two integers, so that no difference quotient crosses a jump.
DIVIDEND, DIVISOR = Domain(2.3, 2.7), Domain(0.95, 1.05)


floor_divide = binary(
    "floor_divide", domains=(DIVIDEND, DIVISOR),
    doc="Returns the largest integer that is at most ``x / y``, and NaN where x is infinite.",
    example="np.floor_divide([7, -7], 2) -> [3, -4]",
)
remainder = binary(
    "remainder",
    lambda g: g,
    lambda g, x, y: g * -ops.floor_divide(x, y),
    domains=(DIVIDEND, DIVISOR), doc="Returns ``x - y * floor(x / y)``, which has y's sign.",
    example="np.remainder([7, -7], 4) -> [3, 1]",
)
fmod = binary(
    "fmod",
    lambda g: g,
    lambda g, x, y: g * -ops.trunc(x / y),
    domains=(DIVIDEND, DIVISOR), doc="Returns ``x - y * trunc(x / y)``, which has x's sign.",
    example="np.fmod([7, -7], 4) -> [3, -3]",
)

# -- powers

square = unary(
    "square", lambda g, x: g * (x + x), dtypes="fdD",
    doc="Returns ``x * x``.", example="np.square([1, -3]) -> [1, 9]",
)


def _zeros_like(g: Array) -> Array:
    """Returns zeros as a cotangent, which reaches what asks for its gradient."""
    return ops.where(False, g, 0.0)


def _power_base_vjp(g: Array, x: Array, y: Array | float) -> Array:
    """The derivative ``y x^(y-1)``, which is 0 for y = 0 even where ``x^-1`` is infinite."""
    if type(y) in (int, float, bool):
        if y == 2:
            return g * (x + x)
        return _zeros_like(g) if y == 0 else g * (y * ops.power(x, y - 1))
    infinite = ops.logical_and(ops.equal(x, 0), ops.equal(y, 0))
    return g * (y * ops.power(x, ops.where(infinite, 1, y - 1)))


def _power_exponent_vjp(g: Array, ans: Array, x: Array | float) -> Array:
    """The derivative ``x^y log(x)``, with 0 for the logarithm of zero.

    A power of a negative number is real for integers only, and has no derivative: that is NaN.
    """
    if type(x) in (int, float, bool) and not is_complex(ans):
        if x == 0:
            return _zeros_like(g)
        return g * ans * (math.log(x) if x > 0 else math.nan)
    if is_complex(ans):
        x = ops.astype(x, ans.dtype)
    return g * ans * ops.log(ops.where(x == 0, 1, x))


power = binary(
    "power",
    _power_base_vjp,
    _power_exponent_vjp, domains=(POSITIVE, REAL), dtypes="fdD",
    doc="Returns ``x`` to the power ``y``; integers stay integers.",
    example="np.power([1, 2, 3], 2) -> [1, 4, 9]",
)

# -- sizes and signs. The rules for complex x hold for real x too, where conj does nothing and
# forward mode drops the imaginary part.

abs = unary(
    "abs", lambda g, x: g * ops.conj(ops.sign(x)), domains=NONZERO, dtypes="fdD",
    doc="Returns the absolute value; its derivative at 0 is 0.",
    example="np.abs([-1.5, 2.0]) -> [1.5, 2.0]",
)


def _angle_change(g: Array, x: Array) -> Array:
    """Returns the change of an angle: the imaginary part of a change, over the radius."""
    radius = ops.abs(x)
    return ops.imag(g) / ops.where(radius == 0, 1, radius)


# Only the angle of a complex number counts, x / |x|.
complex_sign = unary(
    "complex_sign", lambda g, ans, x: _angle_change(g * ans, x) * ops.conj(ans) * 1j,
    jvp=(lambda g, ans, x: _angle_change(g * ops.conj(ans), x) * ans * 1j,),
    compute="sign", reference=np.sign, domains=NONZERO, dtypes="D",
)


class Sign(Unary):
    """The sign of real numbers, a constant but for the jump at 0, so that it can be branched on.

    The sign of complex numbers, which has a derivative, is a primitive of its own.
    """

    def __call__(self, x: ArrayLike = MISSING, /, *rest: Any, **options: Any) -> Array:
        try:
            if not hasattr(x, "dtype") and not isinstance(x, int | float | complex):
                x = ops.asarray(x)
            function = complex_sign if is_complex(x) else super().__call__
            return function(x, *rest, **options)
        except Exception as error:
            self.complain(error, (x, *rest), options)
            raise


sign: AnyPrimitive = elementwise(
    "sign", arity=1, kind=Sign, domains=NONZERO,
    doc="Returns -1, 0 or 1 by the sign of x, and ``x / abs(x)`` for complex x.",
    example="np.sign([-1.5, 0.0, 2.0]) -> [-1.0, 0.0, 1.0]",
)
copysign = binary(
    "copysign",
    lambda g, x, y: g * (ops.sign(x) * ops.copysign(1.0, y)),
    lambda g: None,
    domains=NONZERO, doc="Returns x with the sign of y.",
    example="np.copysign([1.0, 2.0], [-3.0, 4.0]) -> [-1.0, 2.0]",
)

nextafter = binary(
    "nextafter",
    lambda g: g,
    lambda g: None,
    doc="Returns the next number after x, of its dtype, on the way to y.",
    example="np.nextafter(0.0, 1.0) -> 5e-324",
)

# -- rounding: constant but for the jumps

floor = unary(
    "floor",
    doc="Returns the largest integers that are at most x.",
    example="np.floor([-1.5, 1.5]) -> [-2.0, 1.0]",
)
ceil = unary(
    "ceil",
    doc="Returns the smallest integers that are at least x.",
    example="np.ceil([-1.5, 1.5]) -> [-1.0, 2.0]",
)
trunc = unary(
    "trunc",
    doc="Returns x without its fractional part.", example="np.trunc([-1.5, 1.5]) -> [-1.0, 1.0]",
)
rint = unary(
    "rint",
    doc="Returns the nearest integers, the even one of two.",
    example="np.rint([-1.5, 2.5]) -> [-2.0, 2.0]",
)


def _round_arguments(a: ArrayLike, decimals: int = 0, out: None = None) -> Prepared:
    refuse_out("round", out)
    return (a,), {"decimals": operator.index(decimals)}


round = elementwise(
    "round", arity=1, prepare=_round_arguments,
    compute=lambda xp, x, *, decimals: xp.round(x, decimals),
    params=({"decimals": 0}, {"decimals": 2}),
    doc="Returns x rounded to a number of decimals, halves to the even one.",
    arguments={
        "a": "an array of any shape, or a number.",
        "decimals": "how many digits stay behind the point; may be negative.",
        "out": "None; arrays are immutable.",
    },
    example="np.round([1.234, 5.678], 1) -> [1.2, 5.7]",
)
