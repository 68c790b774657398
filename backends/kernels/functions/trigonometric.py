"""Trigonometric functions: sin, cos and tan.

``x = k pi / 2 + r``. The difference is taken in three parts with its errors, after W. J. Cody and
W. Waite, Software Manual for the Elementary Functions, 1980; J.-M. Muller, Elementary Functions:
Algorithms and Implementation, chapter 11. The C library takes larger numbers than such a difference
allows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..graph import bits, select
from .formats import format_of, nearest_integer, sign_bit, with_sign
from .polynomials import Coefficients, fma, polynomial_of, quick_sum, quotient

if TYPE_CHECKING:
    from ..graph import Expr

HALF_PI = Fraction("1.5707963267948966192313216916397514420985846996875529104874723")
# (sin(r) / r - 1) / r**2 by r**2 for |r| <= 0.79: sin(r) / r to 2**-27.9 and 2**-62.9.
SIN: Coefficients = (
    (-0.16666655, 0.008332184, -0.00019516995),
    (
        -0.16666666666666666, 0.008333333333333099, -0.0001984126984105507,
        2.7557319128461494e-06, -2.5052085842348963e-08, 1.6056243439281702e-10,
        -7.485125320373788e-13,
    ),
)  # fmt: skip
# (cos(r) - 1 + r**2 / 2) / r**4 by r**2 for |r| <= 0.79: cos(r) to 2**-33.1 and 2**-64.1.
COS: Coefficients = (
    (0.041666646, -0.0013887307, 2.4431802e-05),
    (
        0.041666666666666595, -0.0013888888888873292, 2.4801587288935492e-05,
        -2.7557314187433455e-07, 2.08757000039519e-09, -1.1358402578979986e-11,
    ),
)  # fmt: skip
# The first number that the difference does not reach.
LARGE = (100_000.0, 1e9)


def reduced_angle(size: Expr) -> tuple[Expr, Expr, Expr]:
    """Returns ``r`` of a positive number, rounded, its error, and an integer whose last bits are k.

    The first product is exact, for r is less than 1 and a multiple of both last digits.
    """
    form = format_of(size)
    k, integer = nearest_integer(size, float(1 / HALF_PI))
    first, second, third = form.parts(HALF_PI, 3)
    near = fma(k, -first, size)
    product = k * -second
    rest = fma(k, -second, -product)
    r, error = quick_sum(near, product)
    return r, fma(k, -third, error + rest), integer


def sin_terms(r: Expr, low: Expr) -> Expr:
    """Returns ``sin(r + low) - r``."""
    z = r * r
    return fma(r * z, polynomial_of(z, SIN), low)


def cosine_terms(r: Expr, low: Expr) -> tuple[Expr, Expr]:
    """Returns ``1 - r**2 / 2``, and what is missing for ``cos(r + low)``."""
    z = r * r
    total, lost = quick_sum(1.0, -0.5 * z)
    return total, lost + fma(z * z, polynomial_of(z, COS), -(r * low))


def wave(x: Expr, quarter: int, name: str) -> Expr:
    """Returns ``sin(x + quarter pi / 2)``."""
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    r, low, integer = reduced_angle(size)
    if quarter:
        integer = integer + quarter
    top = 8 * form.dtype.itemsize - 1
    odd = bits(integer << top, f"i{form.dtype.itemsize}") < 0
    cosine, rest = cosine_terms(r, low)
    found = select(odd, cosine + rest, r + sin_terms(r, low))
    turned = (integer << (top - 1)) & (1 << top)
    found = with_sign(found, turned if quarter else turned ^ sign)
    return x.graph.library(name, size >= LARGE[form.places], found, x)


def sin(x: Expr) -> Expr:
    """Returns ``sin(x)``."""
    return wave(x, 0, "sin")


def cos(x: Expr) -> Expr:
    """Returns ``cos(x) = sin(x + pi / 2)``."""
    return wave(x, 1, "cos")


def tan(x: Expr) -> Expr:
    """Returns ``tan(x)``: the quotient of sine and cosine of r, or minus its inverse."""
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    r, low, integer = reduced_angle(size)
    # Of r the error counts here, and that of its square.
    cosine, rest = cosine_terms(r, low)
    sine, sine_low = quick_sum(r, sin_terms(r, low * cosine))
    cosine, cosine_low = quick_sum(cosine, fma(fma(r, r, -(r * r)), -0.5, rest))
    odd = bits(integer << (8 * form.dtype.itemsize - 1), f"i{form.dtype.itemsize}") < 0
    found = quotient(
        select(odd, -cosine, sine),
        select(odd, -cosine_low, sine_low),
        select(odd, sine, cosine),
        select(odd, sine_low, cosine_low),
    )
    return x.graph.library("tan", size >= LARGE[form.places], with_sign(found, sign), x)
