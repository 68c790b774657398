"""Functions of complex numbers as operations of kernels on their parts.

NaN, infinities and the signs of zeros are those of the C library, which NumPy calls: ISO/IEC 9899,
Annex G.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np

from ....kernels.graph import Expr, function, select
from ...where_and_extrema import LARGEST_PRODUCT_POWER
from .complex_nodes import ComplexExpr
from .formulas import product_of_same
from .whole_formulas import with_sign_of

__all__ = [
    *("angle", "both_times", "complex_logarithm", "cosine", "exponential", "exponential_less_one"),
    *("hyperbolic_cosine", "hyperbolic_sine", "hyperbolic_tangent", "is_finite_part"),
    *("is_infinite", "power", "reciprocal", "sign", "sine", "size", "square", "square_root"),
    "tangent",
]

arctan2, cosh, log1p, real_log, sinh = map(function, ("arctan2", "cosh", "log1p", "log", "sinh"))
cos, exp, expm1, sin, sqrt = map(function, ("cos", "exp", "expm1", "sin", "sqrt"))
# Beyond the first number exponentials are taken in steps of the second, so that products with small
# numbers do not become infinite before. The power of a step is close to a number of the dtype: to
# 0.01 units in the last place. Beyond the third tanh is 1, and its imaginary part a power.
FAR_EXPONENTS = {"f": (80.0, 60.125, 12.0), "d": (700.0, 544.0, 22.0)}


class FloatRange:
    """Limits between which squares neither overflow nor lose digits, and factors to get there.

    Attributes:
        low, high: the limits of the larger of two numbers.
        up, down: the factors of lower and of higher numbers, powers of 4.
    """

    def __init__(self, dtype: Any) -> None:
        limits = np.finfo(dtype)
        places, least, most = int(limits.nmant), int(limits.minexp), int(limits.maxexp)
        lowest = (least + places) // 2 + 1
        self.low = 2.0**lowest
        self.high = 2.0 ** (most // 2 - 2)
        self.up = 4.0 ** ((lowest - least + places + 1) // 2)
        self.down = 2.0 ** -(most // 2 + 8)


FLOAT_RANGES = {char: FloatRange(char) for char in "fd"}


# -- sizes and angles


def parts_scaled(z: ComplexExpr) -> tuple[ComplexExpr, Expr]:
    """Returns sizes of parts times a power of 4, and the root of the power's inverse."""
    x, y = abs(z.real), abs(z.imag)
    limits = FLOAT_RANGES[x.dtype.char]
    largest = select(x > y, x, y)
    high, low = largest > limits.high, largest < limits.low
    one = x.graph.constant(1.0, x.dtype)
    factor = select(high, limits.down, select(low, limits.up, one))
    root = select(high, limits.down**-0.5, select(low, limits.up**-0.5, one))
    return ComplexExpr(x * factor, y * factor), root


def is_infinite(z: ComplexExpr) -> Expr:
    """Returns where a part is infinite."""
    return abs(z.real).equals(np.inf) | abs(z.imag).equals(np.inf)


def is_finite_part(x: Expr) -> Expr:
    """Returns where a part is finite."""
    return abs(x) < np.inf


def square_of_size(z: ComplexExpr) -> Expr:
    """Returns ``x**2 + y**2``."""
    return z.graph.fma(z.real, z.real, z.imag * z.imag)


def size(z: ComplexExpr) -> Expr:
    """Returns ``sqrt(x**2 + y**2)``, and infinity where a part is infinite."""
    parts, root = parts_scaled(z)
    return select(is_infinite(z), np.inf, sqrt(square_of_size(parts)) * (root * root))


def angle(z: ComplexExpr) -> Expr:
    """Returns the angle."""
    return arctan2(z.imag, z.real)


def sign(z: ComplexExpr) -> ComplexExpr:
    """Returns ``z / |z|``, 0 for 0."""
    length = size(z)
    x, y = z.real, z.imag
    one, nothing = (x.graph.constant(n, x.dtype) for n in (1.0, 0.0))
    x_infinite, y_infinite = (abs(v).equals(np.inf) for v in (x, y))
    both = x_infinite & y_infinite
    is_zero = length.equals(0.0)

    def part(v: Expr, infinite: Expr) -> Expr:
        found = select(
            length.equals(np.inf), select(infinite, with_sign_of(one, v), nothing), v / length
        )
        return select(is_zero, 0.0, select(both, np.nan, found))

    return ComplexExpr(part(x, x_infinite), part(y, y_infinite))


# -- powers


def reciprocal(z: ComplexExpr) -> ComplexExpr:
    """Returns ``1 / z``, by the larger part."""
    by_real = abs(z.imag) <= abs(z.real)
    larger = select(by_real, z.real, z.imag)
    share = select(by_real, z.imag, z.real) / larger
    whole = select(by_real, z.imag, z.real) * share + larger
    one = share.graph.constant(1.0, share.dtype)
    return ComplexExpr(select(by_real, one, share) / whole, -select(by_real, share, one) / whole)


def square(z: ComplexExpr) -> ComplexExpr:
    """Returns ``z * z``."""
    return z * z


def square_root(z: ComplexExpr) -> ComplexExpr:
    """Returns the root whose real part is not negative."""
    parts, root = parts_scaled(z)
    x, y = z.real, z.imag
    length = sqrt(square_of_size(parts))
    half = sqrt((parts.real + length) * 0.5) * root
    other = abs(y) / (half + half)
    is_zero = x.equals(0.0) & y.equals(0.0)
    right = ~(x < 0.0)
    real = select(is_zero, 0.0, select(right, half, other))
    imag = select(is_zero, 0.0, select(right, other, half))
    # Beside the infinite part of a root the other part is 0, or NaN where y is.
    rest = select(is_finite_part(y), 0.0, y)
    x_infinite, y_infinite = (abs(v).equals(np.inf) for v in (x, y))
    real = select(x_infinite, select(right, np.inf, rest), real)
    imag = select(x_infinite, select(right, rest, np.inf), imag)
    return ComplexExpr(
        select(y_infinite, np.inf, real), with_sign_of(select(y_infinite, np.inf, imag), y)
    )


COMPLEX_POWERS: dict[float, Callable[[ComplexExpr], ComplexExpr]] = {
    0.5: square_root,
    1.0: lambda z: z,
    2.0: square,
    -1.0: reciprocal,
}


def power(z: ComplexExpr, exponent: float) -> ComplexExpr | None:
    """Returns a power that eager mode makes of products; None for others."""
    if exponent in COMPLEX_POWERS:
        return COMPLEX_POWERS[exponent](z)
    rest = abs(exponent)
    if not 2 <= rest <= LARGEST_PRODUCT_POWER or exponent != int(exponent):
        return None
    found = product_of_same(z, int(rest))
    return reciprocal(found) if exponent < 0 else found


# -- exponential functions


def exp_product(x: Expr, *factors: Expr, scale: float = 1.0) -> list[Expr]:
    """Returns ``exp(x)`` times each of some factors and a scale, infinite where the product is."""
    limit, step, _ = FAR_EXPONENTS[x.dtype.char]
    far, farther = x > limit, x > limit + step
    rest = select(far, select(farther, x - 2 * step, x - step), x)
    powers = exp(rest)
    one = x.graph.constant(1.0, x.dtype)
    first = select(far, scale * float(np.exp(step)), x.graph.constant(scale, x.dtype))
    second = select(farther, float(np.exp(step)), one)
    return [powers * y * first * second for y in factors]


def exponential(z: ComplexExpr) -> ComplexExpr:
    """Returns ``exp(x) (cos(y) + i sin(y))``."""
    x, y = z.real, z.imag
    real, imag = exp_product(x, cos(y), sin(y))
    not_finite = ~is_finite_part(y)
    real = select(not_finite & abs(x).equals(np.inf), select(x > 0.0, x, 0.0), real)
    nothing = x.graph.constant(0.0, x.dtype)
    imag = select(not_finite & x.equals(-np.inf), with_sign_of(nothing, y), imag)
    return ComplexExpr(real, select(y.equals(0.0), y, imag))


def exponential_less_one(z: ComplexExpr) -> ComplexExpr:
    """Returns ``exp(z) - 1``, as NumPy does; of infinities and NaN by the exponential itself.

    Of zeros the real part is +0, as the array API standard has it.
    """
    x, y = z.real, z.imag
    half = sin(y * 0.5)
    is_zero = x.equals(0.0) & y.equals(0.0)
    real = select(is_zero, 0.0, expm1(x) * cos(y) - half * half * 2.0)
    imag = exp(x) * sin(y)
    finite = is_finite_part(x) & is_finite_part(y)
    whole = exponential(z)
    return ComplexExpr(select(finite, real, whole.real - 1.0), select(finite, imag, whole.imag))


def size_logarithm(z: ComplexExpr) -> Expr:
    """Returns ``log(|z|)``; about 1 by ``x**2 + y**2 - 1``, whose terms are exact."""
    parts, root = parts_scaled(z)
    limits = FLOAT_RANGES[root.dtype.char]
    fma = z.graph.fma
    high = select(parts.real > parts.imag, parts.real, parts.imag)
    low = select(parts.real > parts.imag, parts.imag, parts.real)
    whole, small = high * high, low * low
    lost = fma(high, high, -whole) + fma(low, low, -small)
    less = whole - 1.0
    lost = lost + (whole - (less + 1.0))
    total = less + small
    # The error of the sum: the larger of both is the first, wherever it counts.
    rest = select(abs(less) > small, (less - total) + small, (small - total) + less)
    near = log1p(total + (rest + lost)) * 0.5
    sum_of_squares = fma(high, high, small)
    nothing = root.graph.constant(0.0, root.dtype)
    added = select(root < 1.0, -log(limits.up), nothing)
    added = select(root > 1.0, -log(limits.down), added)
    far = real_log(sum_of_squares) * 0.5 + added
    close = (sum_of_squares > 0.5) & (sum_of_squares < 2.0) & root.equals(1.0)
    return select(is_infinite(z), np.inf, select(close, near, far))


def complex_logarithm(z: ComplexExpr) -> ComplexExpr:
    """Returns ``log(|z|)`` and the angle."""
    return ComplexExpr(size_logarithm(z), angle(z))


def both_times(z: ComplexExpr, factor: float) -> ComplexExpr:
    """Returns both parts times a real number."""
    return ComplexExpr(z.real * factor, z.imag * factor)


# -- hyperbolic and trigonometric functions


def hyperbolic(x: Expr, y: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Returns ``sinh(x)`` and ``cosh(x)``, each times ``cos(y)`` and ``sin(y)``.

    In this order: sinh cos, cosh sin, cosh cos, sinh sin. A product is infinite only where it lies
    beyond the largest number, and not where one of its factors does.
    """
    c, s = cos(y), sin(y)
    far = abs(x) > FAR_EXPONENTS[x.dtype.char][0]
    rising, falling = sinh(x), cosh(x)
    by_cos, by_sin = exp_product(abs(x), c, s, scale=0.5)
    back = x < 0.0
    return (
        select(far, select(back, -by_cos, by_cos), rising * c),
        select(far, by_sin, falling * s),
        select(far, by_cos, falling * c),
        select(far, select(back, -by_sin, by_sin), rising * s),
    )


def hyperbolic_sine(z: ComplexExpr) -> ComplexExpr:
    """Returns ``sinh(x) cos(y) + i cosh(x) sin(y)``."""
    x, y = z.real, z.imag
    real, imag, *_ = hyperbolic(x, y)
    not_finite = ~is_finite_part(y)
    real = select(not_finite & abs(x).equals(np.inf), np.inf, real)
    return ComplexExpr(select(not_finite & x.equals(0.0), x, real), select(y.equals(0.0), y, imag))


def hyperbolic_cosine(z: ComplexExpr) -> ComplexExpr:
    """Returns ``cosh(x) cos(y) + i sinh(x) sin(y)``."""
    x, y = z.real, z.imag
    *_, real, imag = hyperbolic(x, y)
    one, nothing = (x.graph.constant(n, x.dtype) for n in (1.0, 0.0))
    not_finite = ~is_finite_part(y)
    real = select(not_finite & abs(x).equals(np.inf), np.inf, real)
    imag = select(not_finite & x.equals(0.0), nothing, imag)
    level = select(x.differs(x), y, y * with_sign_of(one, x))
    return ComplexExpr(real, select(y.equals(0.0), level, imag))


def sine(z: ComplexExpr) -> ComplexExpr:
    """Returns ``sin(x) cosh(y) + i cos(x) sinh(y)``."""
    found = hyperbolic_sine(ComplexExpr(z.imag, z.real))
    return ComplexExpr(found.imag, found.real)


def cosine(z: ComplexExpr) -> ComplexExpr:
    """Returns ``cos(x) cosh(y) - i sin(x) sinh(y)``."""
    return hyperbolic_cosine(ComplexExpr(-z.imag, z.real))


def tangent(z: ComplexExpr) -> ComplexExpr:
    """Returns ``sin(z) / cos(z)``."""
    found = hyperbolic_tangent(ComplexExpr(z.imag, z.real))
    return ComplexExpr(found.imag, found.real)


def hyperbolic_tangent(z: ComplexExpr) -> ComplexExpr:
    """Returns ``sinh(z) / cosh(z)``."""
    x, y = z.real, z.imag
    one, nothing = (x.graph.constant(n, x.dtype) for n in (1.0, 0.0))
    c, s = cos(y), sin(y)
    far = abs(x) > FAR_EXPONENTS[x.dtype.char][2]
    rising, falling = sinh(x), cosh(x)
    whole = x.graph.fma(rising, rising, c * c)
    real = select(far, with_sign_of(one, x), rising * falling / whole)
    imag = select(far, c * s * 4.0 * exp(abs(x) * -2.0), c * s / whole)
    not_finite = ~is_finite_part(y)
    x_infinite = abs(x).equals(np.inf)
    steep = is_finite_part(y) & (abs(y) > 1.0)
    imag = select(x_infinite, with_sign_of(nothing, select(steep, c * s, y)), imag)
    real = select(not_finite & ~x_infinite, select(x.equals(0.0), x, np.nan), real)
    level = y.equals(0.0) & x.differs(x)
    return ComplexExpr(select(level, x, real), select(y.equals(0.0), y, imag))
