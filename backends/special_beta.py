"""The density of the beta distribution, and derivatives of its integral by its parameters.

I_x(a, b) is the integral from 0 to x of p(t) = t^(a - 1) (1 - t)^(b - 1) / B(a, b). As for the
incomplete gamma function (``special_gamma.py``), derivatives by a and b are integrals of p times a
polynomial in the logarithms of t and 1 - t, over that tail in which the integrand of the first
derivative has one sign. In s = log(t / (1 - t)) the integrand is smooth.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .special_gamma import polygamma
from .special_parts import (
    DROP,
    digamma_gap,
    elements,
    exp_remainder,
    integrate,
    log_remainder,
    special,
    stirling_error,
)

__all__ = ["beta_density", "betainc_slope", "betainccinv", "betaincinv"]

NEWTON_STEPS = 20


def _log_mass(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Returns the logarithm of ``x^a y^b / B(a, b)`` for positive a and b, and x + y = 1."""
    excess = x * b - a * y
    parts = 0.0
    for c, t, u in ((a, x, excess / a), (b, y, -excess / b)):
        # Far below the mean, what is left of 1 + u has lost its digits.
        far = np.log(t) - np.log(c / (a + b)) - u
        parts = parts + c * np.where(u > -0.5, log_remainder(u), far)
    parts = parts + stirling_error(a + b) - stirling_error(a) - stirling_error(b)
    return parts + 0.5 * (np.log(a) + np.log(b) - np.log(a + b) - math.log(2.0 * math.pi))


@elements
def beta_density(a: Any, b: Any, x: Any, *, low: int, high: int) -> Any:
    """Returns ``x^(a - 1 - low) (1 - x)^(b - 1 - high) / B(a, b)`` for x from 0 to 1."""
    inside = (x > 0) & (x < 1) & (a > 0) & (b > 0)
    c, d, t = (np.where(inside, value, 0.5) for value in (a, b, x))
    y = 1.0 - t
    out = np.exp(_log_mass(c, d, t, y) - (1 + low) * np.log(t) - (1 + high) * np.log1p(-t))
    # At the ends a power of 0, over B, remains.
    power = np.where(x == 0, a - 1 - low, b - 1 - high)
    ends = np.where(power > 0, 0.0, np.where(power == 0, 1 / special().beta(a, b), np.inf))
    ends = np.where(((x == 0) | (x == 1)) & (a > 0) & (b > 0), ends, np.nan)
    return np.where(inside, out, ends)


def _polynomial(orders: tuple[int, int], levels: Any, cumulants: dict[tuple[int, int], Any]) -> Any:
    """Returns the polynomial by which the density's mixed derivative differs from it.

    Args:
        orders: how many times to differentiate by a and by b.
        levels: the derivatives of the density's logarithm by a and by b.
        cumulants: those of higher order, by their orders.
    """
    derivatives = {(1, 0): levels[0], (0, 1): levels[1], **cumulants}
    made: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for n in range(orders[0] + 1):
        for m in range(orders[1] + 1):
            if n + m == 0:
                continue
            # The last derivative of the product of the density and its logarithm's derivative.
            p, q, step = (n - 1, m, (1, 0)) if n else (n, m - 1, (0, 1))
            made[n, m] = sum(
                math.comb(p, j) * math.comb(q, k)
                * derivatives[j + step[0], k + step[1]] * made[p - j, q - k]
                for j in range(p + 1)
                for k in range(q + 1)
            )
    return made[orders]


def _cumulants(a: Any, b: Any, orders: tuple[int, int]) -> dict[tuple[int, int], Any]:
    """Returns the second and higher derivatives of the density's logarithm by a and b."""
    found = {}
    for n in range(orders[0] + 1):
        for m in range(orders[1] + 1):
            if n + m < 2:
                continue
            k = float(n + m - 1)
            value = polygamma(k, a + b)
            if not m:
                value = value - polygamma(k, a)
            if not n:
                value = value - polygamma(k, b)
            found[n, m] = value
    return found


def _mean_level(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Returns ``log(x) - digamma(a) + digamma(a + b)`` without cancellation near the mean."""
    u = (x * b - a * y) / a
    near = np.abs(u) < 0.5
    level = np.where(near, np.log1p(np.where(near, u, 0.0)), np.log(x) - np.log(a / (a + b)))
    return level + digamma_gap(a) - digamma_gap(a + b)


def _panel(
    a: Any, b: Any, x: Any, y: Any, orders: tuple[int, int], downwards: bool, length: Any
) -> Any:
    """Integrates the derivative's density over distances in s from x, up to a length."""
    mass = np.exp(_log_mass(a, b, x, y))
    first = _mean_level(a, b, x, y)[:, None]
    second = _mean_level(b, a, y, x)[:, None]
    cumulants = {key: c[:, None] for key, c in _cumulants(a, b, orders).items()}
    # Upwards is downwards for 1 - x.
    rate, part, slope = (a, x, a * y - b * x) if downwards else (b, y, b * x - a * y)
    rate, part, slope, total = (v[:, None] for v in (rate, part, slope, a + b))

    def integrand(d: Any) -> Any:
        change = part * np.expm1(-d)
        spread = np.log1p(change)
        # The two are the same; the first does not cancel where d is small.
        near = total * (log_remainder(change) + part * exp_remainder(-d)) + slope * d
        drop = np.where(d < 1.0, near, rate * d + total * spread)
        own, other = -d - spread, -spread
        levels = (first + own, second + other) if downwards else (first + other, second + own)
        return _polynomial(orders, levels, cumulants) * np.exp(-drop)

    return mass * integrate(integrand, length, logarithmic=True)


def _length(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Returns how far below x, in s, the density has all but vanished."""
    # The drop is convex and increasing: from beyond, Newton's steps come down to where it is done.
    d = (DROP - (a + b) * np.log(y)) / a
    for _ in range(NEWTON_STEPS):
        change = x * np.expm1(-d)
        rate = a - (a + b) * (x + change) / (1.0 + change)
        d = d - (a * d + (a + b) * np.log1p(change) - DROP) / rate
    return d


def _lower_tail(a: Any, b: Any, x: Any, y: Any, orders: tuple[int, int]) -> Any:
    """Integrates the derivative's density from 0 to x."""
    # Beyond the knee the integrand rises, or is flat, before it falls.
    up, down = np.maximum(a, 1.0), np.maximum(b, 1.0)
    beyond = x * down > y * up
    knee, rest = np.where(beyond, up / (up + down), x), np.where(beyond, down / (up + down), y)
    total = _panel(a, b, knee, rest, orders, True, _length(a, b, knee, rest))
    if beyond.any():
        c, d, t, u = (value[beyond] for value in (a, b, knee, rest))
        length = np.log(x / y)[beyond] - np.log(up / down)[beyond]
        total[beyond] += _panel(c, d, t, u, orders, False, length)
    return total


@elements
def betainc_slope(a: Any, b: Any, x: Any, *, by_a: int, by_b: int) -> Any:
    """Returns a derivative of I_x(a, b) by a and b, of orders of which one is not 0."""
    y = 1.0 - x
    out = np.where((x == 0) | (x == 1), 0.0, np.nan)
    proper = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    out[~proper] = np.nan
    proper &= (x > 0) & (x < 1)
    psi = special().psi
    if by_a:
        below = np.log(x) < psi(a) - psi(a + b)
    else:
        below = np.log1p(-x) > psi(b) - psi(a + b)
    lower, upper = proper & below, proper & ~below
    if lower.any():
        out[lower] = _lower_tail(a[lower], b[lower], x[lower], y[lower], (by_a, by_b))
    if upper.any():
        out[upper] = -_lower_tail(b[upper], a[upper], y[upper], x[upper], (by_b, by_a))
    return out


def _climb(a: Any, b: Any, y: Any) -> Any:
    """Returns that x for which I_x(a, b) is a very small y, by Newton's steps in logarithms.

    The logarithm of I is concave in that of x, so that the steps come up to the solution.
    """
    logarithm = (np.log(y) + np.log(a) + special().betaln(a, b)) / a
    x = np.exp(np.minimum(logarithm, -1e-3))
    for _ in range(NEWTON_STEPS):
        value = special().betainc(a, b, x)
        rate = np.exp(_log_mass(a, b, x, 1.0 - x)) / ((1.0 - x) * value)
        x = x * np.exp((np.log(y) - np.log(value)) / rate)
    return x


def _completed(x: Any, a: Any, b: Any, y: Any) -> Any:
    """Returns SciPy's solutions, and those for very small y that it does not find."""
    missing = np.isnan(x) & (a > 0) & (b > 0) & (y > 0) & (y < 1e-3)
    if missing.any():
        x[missing] = _climb(a[missing], b[missing], y[missing])
    return x


@elements
def betaincinv(a: Any, b: Any, y: Any) -> Any:
    """Returns that x for which I_x(a, b) is y."""
    return _completed(special().betaincinv(a, b, y), a, b, y)


@elements
def betainccinv(a: Any, b: Any, y: Any) -> Any:
    """Returns that x for which 1 - I_x(a, b) is y."""
    x = special().betainccinv(a, b, y)
    missing = np.isnan(x)
    if missing.any():
        x[missing] = 1.0 - _completed(x[missing], b[missing], a[missing], y[missing])
    return x
