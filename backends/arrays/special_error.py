"""Repeated integrals of the error function, and parts of the normal distribution's tail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .special_remainders import (
    DROP,
    elementwise_in_doubles,
    integrate,
    log_remainder,
    put_where,
    special,
)

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer

__all__ = ["erfcx_integral", "kl_div", "log_ndtr_gap", "log_ndtr_grad"]

HUGE = 1e150


def _scaled_integral(xp: ArrayModule, x: Buffer, order: int) -> Any:
    """Returns ``exp(x^2)`` times the integral, of an order from 0 up, of erfc from x on."""
    out = special(xp).erfcx(x)
    if not order:
        return out
    # Left of 0 by DLMF 7.18.7, where all terms are positive.
    before = xp.full_like(out, 2.0 / math.sqrt(math.pi))
    left = xp.minimum(x, 0.0)
    for n in range(1, order + 1):
        before, out = out, (before - 2.0 * left * out) / (2.0 * n)
    # Right of 0 by DLMF 7.18.2, whose integrand is positive.
    factor = 2.0 / math.sqrt(math.pi) / math.factorial(order)

    def right_of_zero(x: Buffer) -> Any:
        # Squares of larger numbers overflow, and the value is next to 0.
        z = xp.minimum(x, HUGE)
        length = DROP / (z + xp.sqrt(z * z + DROP))

        def integrand(t: Buffer) -> Buffer:
            return factor * t**order * xp.exp(-t * (t + 2.0 * z[:, None]))

        return integrate(xp, integrand, length, logarithmic=False)

    return put_where(xp, out, x > 0, right_of_zero, [x], 1.0)


@elementwise_in_doubles
def erfcx_integral(xp: ArrayModule, x: Buffer, *, order: int) -> Any:
    """Returns ``exp(x^2)`` times the repeated integral of erfc from x on."""
    return _scaled_integral(xp, x, order)


@elementwise_in_doubles
def log_ndtr_grad(xp: ArrayModule, x: Buffer) -> Any:
    """Returns the derivative of the logarithm of the normal distribution: density over integral."""
    return math.sqrt(2.0 / math.pi) / special(xp).erfcx(-math.sqrt(0.5) * x)


@elementwise_in_doubles
def log_ndtr_gap(xp: ArrayModule, x: Buffer) -> Buffer:
    """Returns ``x + log_ndtr_grad(x)`` without cancellation where x is negative."""
    z = -math.sqrt(0.5) * xp.minimum(x, 0.0)
    left = math.sqrt(2.0) * _scaled_integral(xp, z, 1) / _scaled_integral(xp, z, 0)
    right = x + math.sqrt(2.0 / math.pi) / special(xp).erfcx(-math.sqrt(0.5) * xp.maximum(x, 0.0))
    return xp.where(xp.isneginf(x), 0.0, xp.where(x < 0, left, right))


@elementwise_in_doubles
def kl_div(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    """Returns ``x log(x / y) - x + y`` without cancellation where x is close to y."""
    u = (x - y) / y
    near = (xp.abs(u) < 0.5) & (y > 0)
    v = xp.where(near, u, 0.0)
    return xp.where(near, y * ((1.0 + v) * log_remainder(xp, v) + v * v), special(xp).kl_div(x, y))
