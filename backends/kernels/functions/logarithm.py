"""Logarithms: log, log2, log10 and log1p.

``log(2**k m) = k ln 2 + log(m)`` with m between ``sqrt(1/2)`` and ``sqrt(2)``: J.-M. Muller,
Elementary Functions: Algorithms and Implementation, chapters 3 and 11. With ``f = m - 1`` and
``s = f / (2 + f)``, no large error of rounding is in
``log(m) = 2 atanh(s) = f - f**2 / 2 + s (f**2 / 2 + s**2 R(s**2))``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..graph import bits, select
from .exponential import LN_2
from .formats import SINGLE_FORMAT, Format, format_of
from .polynomials import exact_product, fma, polynomial_of, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

LN_10 = Fraction("2.302585092994045684017991454684364207601101488628772976033328")
# (log(1 + f) - f + f**2 / 2) / f**3 for m between the roots: log(m) / f to 2**-27.3 and 2**-30.0.
LOG_SINGLE = (
    0.33333316, -0.2500081, 0.20002288, -0.16624549, 0.1418118, -0.13128789, 0.12881723,
    -0.07859603,
)  # fmt: skip
# (2 atanh(s) / s - 2) / s**2 by s**2: 2 atanh(s) / s to 2**-58.1.
LOG_DOUBLE = (
    0.6666666666666734, 0.39999999999415103, 0.2857142874230528, 0.2222219858082245,
    0.18183563968197025, 0.15314058710856776, 0.14795878025828763,
)  # fmt: skip


def split(x: Expr) -> tuple[Expr, Expr]:
    """Returns ``k`` and ``m`` of a positive number ``2**k m``."""
    form = format_of(x)
    small = x < form.tiny
    x = select(small, x * 2.0**form.mantissa, x)
    return split_normal(x, select(small, *offsets(x, form.mantissa, form)))


def offsets(x: Expr, shift: int, form: Format) -> tuple[Expr, Expr]:
    """Returns what is taken off the float with an exponent's bits, scaled or not."""
    base = 2.0**form.mantissa + form.bias
    return x.graph.constant(base + shift, form.dtype), x.graph.constant(base, form.dtype)


def split_normal(x: Expr, offset: Expr | float) -> tuple[Expr, Expr]:
    """Returns ``k`` and ``m`` of a positive normal number."""
    form = format_of(x)
    least = form.pattern(np.sqrt(0.5))
    moved = bits(x, form.whole) + (form.pattern(1.0) - least)
    m = bits((moved & ((1 << form.mantissa) - 1)) + least, form.dtype)
    k = bits((moved >> form.mantissa) | form.pattern(2.0**form.mantissa), form.dtype)
    return k - offset, m


def log_rest(f: Expr) -> Expr:
    """Returns ``f - log(1 + f)``."""
    half = 0.5 * f
    if format_of(f) is SINGLE_FORMAT:
        square = f * f
        return square * fma(-f, polynomial_of(f, LOG_SINGLE), 0.5)
    half = half * f
    s = f / (2.0 + f)
    z = s * s
    return half - s * fma(z, polynomial_of(z, LOG_DOUBLE), half)


def log(x: Expr) -> Expr:
    """Returns ``log(x) = k ln 2 + log(m)``."""
    high, low = format_of(x).parts(LN_2, 2)
    k, m = split(x)
    f = m - 1.0
    found = fma(k, high, f - fma(k, -low, log_rest(f)))
    return at_limits(found, x)


def at_limits(found: Expr, x: Expr) -> Expr:
    """Returns a logarithm, with its values of zero, infinity, NaN and negative numbers."""
    found = select(x < np.inf, found, x)
    found = select(x < 0.0, np.nan, found)
    return select(x.equals(0.0), -np.inf, found)


def log1p(x: Expr) -> Expr:
    """Returns ``log(1 + x)``: of the rounded sum, and of its error over the sum."""
    form = format_of(x)
    high, low = form.parts(LN_2, 2)
    total = 1.0 + x
    k, m = split_normal(total, 2.0**form.mantissa + form.bias)
    f = select(k.equals(0.0), x, m - 1.0)
    lost = select(k.equals(0.0), 0.0, (x - (total - 1.0)) / total)
    found = fma(k, high, f - (log_rest(f) - fma(k, low, lost)))
    found = select(x < np.inf, found, x)
    found = select(x.equals(0.0), x, found)
    found = select(x < -1.0, np.nan, found)
    return select(x.equals(-1.0), -np.inf, found)


def log_terms(f: Expr) -> tuple[Expr, Expr]:
    """Returns ``f - f**2 / 2``, and what is missing for ``log(1 + f)``."""
    half, half_low = exact_product(0.5 * f, f)
    total, lost = quick_sum(f, -half)
    if format_of(f) is SINGLE_FORMAT:
        return total, fma(f * (half + half), polynomial_of(f, LOG_SINGLE), lost - half_low)
    s = f / (2.0 + f)
    z = s * s
    return total, fma(s, fma(z, polynomial_of(z, LOG_DOUBLE), half), lost - half_low)


def log2(x: Expr) -> Expr:
    """Returns ``log2(x) = k + log(m) / ln 2``."""
    k, m = split(x)
    high, low = log_terms(m - 1.0)
    first, second = format_of(x).parts(1 / LN_2, 2)
    value, error = exact_product(high, first)
    error = fma(low, first, fma(high, second, error))
    total, lost = quick_sum(k, value)
    return at_limits(total + (lost + error), x)


def log10(x: Expr) -> Expr:
    """Returns ``log10(x) = k log10(2) + log(m) / ln 10``."""
    k, m = split(x)
    high, low = log_terms(m - 1.0)
    first, second = format_of(x).parts(1 / LN_10, 2)
    value, error = exact_product(high, first)
    error = fma(low, first, fma(high, second, error))
    of_two = format_of(x).parts(LN_2 / LN_10, 2)
    whole, below = exact_product(k, of_two[0])
    total, lost = quick_sum(whole, value)
    return at_limits(total + (lost + (below + fma(k, of_two[1], error))), x)
