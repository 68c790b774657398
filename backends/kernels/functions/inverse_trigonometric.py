"""Inverse trigonometric functions: arctan, arctan2, arcsin and arccos.

Large arguments are mapped to small ones by ``arctan(x) = pi / 2 - arctan(1 / x)`` and
``arcsin(x) = pi / 2 - 2 arcsin(sqrt((1 - x) / 2))``: M. Abramowitz, I. A. Stegun, Handbook of
Mathematical Functions, section 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..graph import function, select
from .formats import capped, format_of, sign_bit, with_sign
from .polynomials import Coefficients, exact_product, fma, polynomial_of, quick_sum
from .trigonometric import HALF_PI

if TYPE_CHECKING:
    from ..graph import Expr

# (arctan(t) / t - 1) / t**2 by t**2 up to 1: arctan(t) / t to 2**-28.7 and 2**-57.7.
ARCTAN: Coefficients = (
    (
        -0.33333302, 0.19998628, -0.14265124, 0.1095692, -0.08417494, 0.058200322, -0.03142117,
        0.01104573, -0.0018230005,
    ),
    (
        -0.3333333333333309, 0.19999999999954673, -0.14285714282762016, 0.11111111012539124,
        -0.09090907100469423, 0.07692280974968826, -0.06666413313360578, 0.058805827470279036,
        -0.052537626228060685, 0.047231495595625464, -0.04221344935031165, 0.03668599598501309,
        -0.029973711359034337, 0.022070659001308095, -0.013981396026759544,
        0.007253768412958071, -0.0029144196136048177, 0.0008417502196365657,
        -0.0001544220652688855, 1.3451780292707379e-05,
    ),
)  # fmt: skip
# (arcsin(s) / s - 1) / s**2 by s**2 up to 1/4: arcsin(s) / s to 2**-27.6 and 2**-55.9.
ARCSIN: Coefficients = (
    (0.16666754, 0.07495254, 0.04547564, 0.02415439, 0.042207595),
    (
        0.16666666666665383, 0.07500000000342577, 0.04464285682398892, 0.030381959307730994,
        0.022371754122616477, 0.017359761778656682, 0.013884691995069445, 0.012172662417957548,
        0.006513516098012553, 0.019566664398091804, -0.016282812357127033, 0.031951330872580244,
    ),
)  # fmt: skip
sqrt = function("sqrt")


def arctan(x: Expr) -> Expr:
    """Returns ``arctan(x)``: of t, or ``pi / 2 + arctan(t)`` with ``t = -1 / x``."""
    sign = sign_bit(x)
    size = capped(with_sign(x, sign), None, 1e30)
    far = size > 1.0
    above = select(far, -1.0, size)
    t = above / select(far, size, 1.0)
    # The remainder over x; it is zero where t is x.
    t_low = fma(-t, select(far, size, 1.0), above) * -t
    first, second = format_of(x).parts(HALF_PI, 2)
    zero = x.graph.constant(0.0, x.dtype)
    found = angle(t, t_low, select(far, first, zero), select(far, second, zero))
    return with_sign(found, sign)


def angle(t: Expr, t_low: Expr, base: Expr, base_low: Expr) -> Expr:
    """Returns ``base + arctan(t)`` with their errors; the derivative is about 1 - t**2 / 2."""
    z = t * t
    constant, *others = ARCTAN[format_of(t).places]
    slope = polynomial_of(z, others)
    p = fma(z, slope, constant)
    p_low = fma(z, slope, constant - p)
    cubic, cubic_low = exact_product(t, z)
    low = fma(t_low, fma(z, -0.5, 1.0), base_low) + fma(cubic, p_low, cubic_low * p)
    total, lost = quick_sum(base, t)
    return total + fma(cubic, p, low + lost)


def arctan2(y: Expr, x: Expr) -> Expr:
    """Returns the angle of a point: multiples of ``pi / 2``, and arctan of a quotient up to 1."""
    form = format_of(x)
    sign = sign_bit(y)
    height = with_sign(y, sign)
    width = abs(x)
    one = with_sign(x.graph.constant(1.0, x.dtype), sign_bit(x))
    steep = height > width
    # Of two infinite numbers the quotient is 1, of two zeros it is 0.
    same = height.equals(width)
    above = select(same, select(height > 0.0, 1.0, height), select(steep, -x, height))
    below = select(same, one, select(steep, height, x))
    # Remainders of subnormal numbers, and of those near to infinity, need other scales.
    size = abs(below)
    small, large = form.tiny * 2.0 ** (form.mantissa + 2), 2.0 ** (form.bias - 2)
    factor = select(size < small, 2.0 ** (form.mantissa * 2), x.graph.constant(1.0, x.dtype))
    factor = select(size > large, 0.25, factor)
    above, below = above * factor, below * factor
    t = above / below
    t_low = select(size < np.inf, fma(-t, below, above) / below, 0.0)
    halves = [(0.0, 0.0), form.parts(HALF_PI, 2), form.parts(2 * HALF_PI, 2)]
    first, second = (
        select(steep, half, select(one < 0.0, whole, x.graph.constant(none, x.dtype)))
        for none, half, whole in zip(*halves)
    )
    return with_sign(angle(t, t_low, first, second), sign)


def arcsin_terms(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Returns a number s, what is missing for its arcsin, and where ``|x| > 1/2``.

    There ``s = sqrt((1 - |x|) / 2)``, and elsewhere it is ``|x|``.
    """
    size = abs(x)
    far = size > 0.5
    z = select(far, fma(size, -0.5, 0.5), size * size)
    s = select(far, sqrt(z), size)
    # The root's error; a root of zero has none.
    s_low = select(far, fma(-s, s, z) / (s + s + format_of(x).tiny), 0.0)
    return s, fma(s * z, polynomial_of(z, ARCSIN), s_low), far


def arcsin(x: Expr) -> Expr:
    """Returns ``arcsin(x)``."""
    first, second = format_of(x).parts(HALF_PI, 2)
    s, rest, far = arcsin_terms(x)
    total, lost = quick_sum(first, -2.0 * s)
    large = total + (lost + fma(rest, -2.0, second))
    return with_sign(select(far, large, s + rest), sign_bit(x))


def arccos(x: Expr) -> Expr:
    """Returns ``arccos(x)``."""
    first, second = format_of(x).parts(HALF_PI, 2)
    s, rest, far = arcsin_terms(x)
    zero = x.graph.constant(0.0, x.dtype)
    left = x < 0.0
    # pi / 2 - arcsin(x), 2 arcsin(s), or pi - 2 arcsin(s)
    base = select(far, select(left, 2.0 * first, zero), first)
    base_low = select(far, select(left, 2.0 * second, zero), second)
    factor = select(far, x.graph.constant(2.0, x.dtype), -1.0)
    factor = select(left, -factor, factor)
    total, lost = quick_sum(base, factor * s)
    return total + (lost + fma(rest, factor, base_low))
