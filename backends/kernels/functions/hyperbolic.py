"""Hyperbolic functions, by ``exp(x)`` and ``exp(x) - 1`` with their errors.

M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, section 4.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph import select
from .exponential import LOG2_E, exp_terms
from .formats import capped, format_of, nearest_integer, power_of_two, sign_bit, with_sign
from .polynomials import fma, quick_sum, quotient, quotient_terms

if TYPE_CHECKING:
    from ..graph import Expr

# Beyond these numbers tanh is 1, and cosh and sinh are infinite.
TANH_LIMITS = (10.0, 20.0)
COSH_LIMITS = (89.5, 710.5)


def power_terms(x: Expr, shift: int, fine: bool = True) -> tuple[Expr, Expr, Expr]:
    """Returns ``p = 2**(k + shift)`` and two numbers: ``p (1 + first + rest)`` is scaled exp(x)."""
    form = format_of(x)
    k, exponent = nearest_integer(x, LOG2_E, form.bias + shift)
    return power_of_two(exponent, form), *exp_terms(x, k, fine=fine)


def pair(whole: Expr, power: Expr, first: Expr, rest: Expr) -> tuple[Expr, Expr]:
    """Returns ``whole + power (first + rest)``, rounded, and its error; the first is largest."""
    high, error = quick_sum(whole, power * first)
    return quick_sum(high, fma(power, rest, error))


def tanh(x: Expr) -> Expr:
    """Returns ``tanh(x) = -e / (2 + e)`` with ``e = exp(-2 x) - 1`` of positive x."""
    sign = sign_bit(x)
    size = with_sign(x, sign)
    doubled = capped(size, None, TANH_LIMITS[format_of(x).places]) * -2.0
    power, first, rest = power_terms(doubled, 0, fine=False)
    whole, lost = quick_sum(-1.0, power)
    high, low = pair(whole, power, first, rest)
    low = low + lost
    below, error = quick_sum(2.0, high)
    return with_sign(quotient(-high, -low, below, error + low), sign)


def cosh(x: Expr) -> Expr:
    """Returns ``cosh(x) = 2 h + 1 / (8 h)`` with ``h = exp(x) / 4`` of positive x."""
    size = capped(abs(x), None, COSH_LIMITS[format_of(x).places])
    power, first, rest = power_terms(size, -2)
    high, low = pair(power, power, first, rest)
    half = high + (low + 0.0625 / high)
    return half + half


def sinh(x: Expr) -> Expr:
    """Returns ``sinh(x) = 2 (e + e / (4 e + 1))`` with ``e = (exp(x) - 1) / 4`` of positive x."""
    form = format_of(x)
    sign = sign_bit(x)
    size = capped(with_sign(x, sign), None, COSH_LIMITS[form.places])
    power, first, rest = power_terms(size, -2)
    whole, lost = quick_sum(power, x.graph.constant(-0.25, x.dtype))
    high, low = pair(whole, power, first, rest)
    low = low + lost
    below, error = quick_sum(0.25, high)
    share, more, inverse = quotient_terms(0.25 * high, 0.25 * low, below, error + low)
    half, error = quick_sum(high, share)
    half = half + fma(more, inverse, error + low)
    # The quarter of a subnormal number would be rounded.
    found = select(size < 2.0 ** -(form.mantissa // 2 + 1), size, half + half)
    return with_sign(found, sign)
