"""Repeated integrals of the error function, and what the normal distribution's tail is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .special_parts import DROP, elements, integrate, log_remainder, special

__all__ = ["erfcx_integral", "kl_div", "log_ndtr_gap", "log_ndtr_slope"]

HUGE = 1e150


def _scaled_integral(x: Any, order: int) -> Any:
    """Returns ``exp(x^2)`` times the integral, of an order from 0 up, of erfc from x on."""
    out = special().erfcx(x)
    if not order:
        return out
    # Left of 0 by DLMF 7.18.7, where all terms are positive.
    before = np.full_like(out, 2.0 / math.sqrt(math.pi))
    left = np.minimum(x, 0.0)
    for n in range(1, order + 1):
        before, out = out, (before - 2.0 * left * out) / (2.0 * n)
    # Right of 0 by DLMF 7.18.2, whose integrand is positive.
    right = x > 0
    if right.any():
        # Beyond, squares overflow and the value is next to 0.
        z = np.minimum(x[right], HUGE)[:, None]
        length = DROP / (z + np.sqrt(z * z + DROP))
        factor = 2.0 / math.sqrt(math.pi) / math.factorial(order)

        def integrand(t: Any) -> Any:
            return factor * t**order * np.exp(-t * (t + 2.0 * z))

        out[right] = integrate(integrand, length[:, 0], logarithmic=False)
    return out


@elements
def erfcx_integral(x: Any, *, order: int) -> Any:
    """Returns ``exp(x^2)`` times the repeated integral of erfc from x on."""
    return _scaled_integral(x, order)


@elements
def log_ndtr_slope(x: Any) -> Any:
    """Returns the derivative of the logarithm of the normal distribution: density over integral."""
    return math.sqrt(2.0 / math.pi) / special().erfcx(-math.sqrt(0.5) * x)


@elements
def log_ndtr_gap(x: Any) -> Any:
    """Returns ``x + log_ndtr_slope(x)`` without cancellation where x is negative."""
    z = -math.sqrt(0.5) * np.minimum(x, 0.0)
    left = math.sqrt(2.0) * _scaled_integral(z, 1) / _scaled_integral(z, 0)
    right = x + math.sqrt(2.0 / math.pi) / special().erfcx(-math.sqrt(0.5) * np.maximum(x, 0.0))
    return np.where(np.isneginf(x), 0.0, np.where(x < 0, left, right))


@elements
def kl_div(x: Any, y: Any) -> Any:
    """Returns ``x log(x / y) - x + y`` without cancellation where x is close to y."""
    u = (x - y) / y
    near = (np.abs(u) < 0.5) & (y > 0)
    v = np.where(near, u, 0.0)
    return np.where(near, y * ((1.0 + v) * log_remainder(v) + v * v), special().kl_div(x, y))
