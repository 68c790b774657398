"""Inverse hyperbolic functions: arcsinh, arccosh and arctanh.

They are logarithms, ``log(2**k m) = k ln 2 + 2 arctanh((m - 1) / (m + 1))``. For small numbers,
where k is zero, that quotient has a form without differences: M. Abramowitz, I. A. Stegun, Handbook
of Mathematical Functions, sections 4.5 and 4.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..graph import function, select
from .exponential import LN_2
from .formats import (
    SINGLE_FORMAT,
    capped,
    format_of,
    nearest_integer,
    power_of_two,
    sign_bit,
    with_sign,
)
from .logarithm import LOG_DOUBLE, split_normal
from .polynomials import exact_product, fma, polynomial_of, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

# (2 atanh(s) / s - 2) / s**2 by s**2, as ``LOG_DOUBLE``: 2 atanh(s) / s to 2**-29.2.
LOG_SHORT = (0.66666776, 0.3997755, 0.2987161)
sqrt = function("sqrt")


def logarithm(
    k: Expr, above: tuple[Expr, Expr], below: tuple[Expr, Expr], factor: float = 1.0
) -> Expr:
    """Returns ``factor (k ln 2 + 2 atanh(s))``, where s is a quotient of numbers with errors."""
    form = format_of(k)
    inverse = 1.0 / below[0]
    s = above[0] * inverse
    s_low = inverse * (fma(-s, below[0], above[0]) + fma(-s, below[1], above[1]))
    z = s * s
    rest = fma(
        s * z, polynomial_of(z, LOG_SHORT if form is SINGLE_FORMAT else LOG_DOUBLE), s_low + s_low
    )
    high, low = form.parts(LN_2, 2)
    whole, lost = exact_product(k, high)
    total, error = quick_sum(whole, s + s)
    return factor * (total + (error + (lost + fma(k, low, rest))))


def of_sum(
    x: Expr, x_low: Expr, large: Expr, above: tuple[Expr, Expr], below: tuple[Expr, Expr]
) -> Expr:
    """Returns ``log(x + x_low)``, or ``log(8 x)`` where x is large.

    Args:
        x, x_low: a number of 1 or more, rounded, and its error.
        large: where it is large.
        above, below: the quotient ``(x - 1) / (x + 1)``, known without a difference.
    """
    form = format_of(x)
    k, _ = split_normal(x, 2.0**form.mantissa + form.bias)
    _, exponent = nearest_integer(k, 1.0, form.bias)
    power = power_of_two(exponent, form)
    near = k.equals(0.0)
    total, lost = quick_sum(power, x)
    return logarithm(
        select(large, k + 3.0, k),
        (select(near, above[0], x - power), select(near, above[1], x_low)),
        (select(near, below[0], total), select(near, below[1], lost + x_low)),
    )


def root_with_error(x: Expr, x_low: Expr) -> tuple[Expr, Expr]:
    """Returns the square root of a number with an error, and the root's own."""
    root = sqrt(x)
    return root, (fma(-root, root, x) + x_low) / (root + root + format_of(x).tiny)


def arcsinh(x: Expr) -> Expr:
    """Returns ``log(x + h)`` with ``h = sqrt(x**2 + 1)``; for ``k = 0`` by ``s = x / (1 + h)``."""
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    limit = 2.0 ** (form.mantissa // 2 + 3)
    large = size > limit
    number = capped(size, None, limit)
    square, square_low = exact_product(number, number)
    square, lost = quick_sum(1.0, square)
    root, root_low = root_with_error(square, lost + square_low)
    total, lost = quick_sum(root, number)
    below, below_lost = quick_sum(1.0, root)
    zero = x.graph.constant(0.0, x.dtype)
    found = of_sum(
        select(large, 0.25 * size, total),
        select(large, zero, lost + root_low),
        large,
        (number, zero),
        (below, below_lost + root_low),
    )
    # Halves of subnormal numbers would be rounded.
    ordinary = (size < np.inf) & (size > 2.0 ** -(form.mantissa // 2 + 1))
    return with_sign(select(ordinary, found, size), sign)


def arccosh(x: Expr) -> Expr:
    """Returns ``log(x + h)`` with ``h = sqrt(x**2 - 1)``; for ``k = 0`` by ``s = h / (x + 1)``."""
    form = format_of(x)
    limit = 2.0 ** (form.mantissa // 2 + 3)
    large = x > limit
    number = capped(x, None, limit)
    square, square_low = exact_product(number, number)
    square, lost = quick_sum(-1.0, square)
    root, root_low = root_with_error(square, lost + square_low)
    total, lost = quick_sum(number, root)
    found = of_sum(
        select(large, 0.25 * x, total),
        select(large, 0.0, lost + root_low),
        large,
        (root, root_low),
        quick_sum(1.0, number),
    )
    found = select(x < np.inf, found, x)
    return select(x < 1.0, np.nan, found)


def arctanh(x: Expr) -> Expr:
    """Returns ``log((1 + x) / (1 - x)) / 2``; for ``k = 0`` by ``s = x``."""
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    more, more_low = quick_sum(1.0, size)
    less, less_low = quick_sum(1.0, -size)
    k, _ = split_normal(more / less, 2.0**form.mantissa + form.bias)
    _, exponent = nearest_integer(k, 1.0, form.bias)
    power = power_of_two(exponent, form)
    less, less_low = power * less, power * less_low
    near = k.equals(0.0)
    zero = x.graph.constant(0.0, x.dtype)
    below, lost = quick_sum(more, less)
    found = logarithm(
        k,
        (select(near, size, more - less), select(near, zero, more_low - less_low)),
        (select(near, 1.0, below), select(near, zero, lost + (more_low + less_low))),
        0.5,
    )
    found = select(size.equals(1.0), np.inf, select(size > 1.0, np.nan, found))
    return with_sign(found, sign)
