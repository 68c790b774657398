"""The density of the beta distribution, and derivatives of its integral by its parameters.

I_x(a, b) is the integral from 0 to x of p(t) = t^(a - 1) (1 - t)^(b - 1) / B(a, b). As for the
incomplete gamma function (``special_gamma.py``), derivatives by a and b are integrals of p times a
polynomial in the logarithms of t and 1 - t, over that tail in which the integrand of the first
derivative has one sign. In s = log(t / (1 - t)) the integrand is smooth.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .special_gamma import MOST_NEWTON_STEPS, polygamma
from .special_remainders import (
    DROP,
    digamma_gap,
    elementwise_in_doubles,
    exp_remainder,
    integrate,
    log_remainder,
    put_where,
    special,
    stirling_error,
)

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer

__all__ = ["beta_density", "betainc_grad", "betaincc", "betainccinv", "betaincinv"]

def log_beta_mass(xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, y: Buffer) -> Any:
    """Returns the logarithm of ``x^a y^b / B(a, b)`` for positive a and b, and x + y = 1."""
    excess = x * b - a * y
    parts: Buffer | float = 0.0
    for c, t, u in ((a, x, excess / a), (b, y, -excess / b)):
        # Far below the mean, 1 + u has lost its digits.
        far = xp.log(t) - xp.log(c / (a + b)) - u
        parts = parts + c * xp.where(u > -0.5, log_remainder(xp, u), far)
    parts = parts + stirling_error(xp, a + b) - stirling_error(xp, a) - stirling_error(xp, b)
    return parts + 0.5 * (xp.log(a) + xp.log(b) - xp.log(a + b) - math.log(2.0 * math.pi))


@elementwise_in_doubles
def beta_density(
    xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, *, low: int, high: int
) -> Buffer:
    """Returns ``x^(a - 1 - low) (1 - x)^(b - 1 - high) / B(a, b)`` for x from 0 to 1."""
    inside = (x > 0) & (x < 1) & (a > 0) & (b > 0)
    c, d, t = (xp.where(inside, value, 0.5) for value in (a, b, x))
    y = 1.0 - t
    out = xp.exp(log_beta_mass(xp, c, d, t, y) - (1 + low) * xp.log(t) - (1 + high) * xp.log1p(-t))
    # At the ends a power of 0, over B, remains.
    power = xp.where(x == 0, a - 1 - low, b - 1 - high)
    ends = xp.where(power > 0, 0.0, xp.where(power == 0, 1 / special(xp).beta(a, b), xp.inf))
    ends = xp.where(((x == 0) | (x == 1)) & (a > 0) & (b > 0), ends, xp.nan)
    return xp.where(inside, out, ends)


def density_polynomial(
    orders: tuple[int, int], levels: tuple[Buffer, Buffer], cumulants: dict[tuple[int, int], Any]
) -> Any:
    """Returns the polynomial by which the density's mixed derivative differs from it.

    It takes the orders by a and by b, and of the density's logarithm the first derivatives by a
    and by b and those of higher order.
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


def _cumulants(
    xp: ArrayModule, a: Buffer, b: Buffer, orders: tuple[int, int]
) -> dict[tuple[int, int], Any]:
    """Returns the second and higher derivatives of the density's logarithm by a and b."""
    found = {}
    for n in range(orders[0] + 1):
        for m in range(orders[1] + 1):
            if n + m < 2:
                continue
            k = float(n + m - 1)
            value = polygamma(xp, k, a + b)
            if not m:
                value = value - polygamma(xp, k, a)
            if not n:
                value = value - polygamma(xp, k, b)
            found[n, m] = value
    return found


def _mean_level(xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, y: Buffer) -> Any:
    """Returns ``log(x) - digamma(a) + digamma(a + b)`` without cancellation near the mean."""
    u = (x * b - a * y) / a
    near = xp.abs(u) < 0.5
    level = xp.where(near, xp.log1p(xp.where(near, u, 0.0)), xp.log(x) - xp.log(a / (a + b)))
    return level + digamma_gap(xp, a) - digamma_gap(xp, a + b)


def beta_panel(
    xp: ArrayModule,
    a: Buffer,
    b: Buffer,
    x: Buffer,
    y: Buffer,
    orders: tuple[int, int],
    downwards: bool,
    length: Buffer,
) -> Any:
    """Integrates the derivative's density over distances in s from x, up to a length."""
    mass = xp.exp(log_beta_mass(xp, a, b, x, y))
    first = _mean_level(xp, a, b, x, y)[:, None]
    second = _mean_level(xp, b, a, y, x)[:, None]
    cumulants = {key: c[:, None] for key, c in _cumulants(xp, a, b, orders).items()}
    # Upwards is downwards for 1 - x.
    rate, part, linear = (a, x, a * y - b * x) if downwards else (b, y, b * x - a * y)
    rate, part, linear, total = (v[:, None] for v in (rate, part, linear, a + b))

    def integrand(d: Buffer) -> Any:
        change = part * xp.expm1(-d)
        spread = xp.log1p(change)
        # The two are the same; the first does not cancel where d is small.
        near = total * (log_remainder(xp, change) + part * exp_remainder(xp, -d)) + linear * d
        drop = xp.where(d < 1.0, near, rate * d + total * spread)
        own, other = -d - spread, -spread
        levels = (first + own, second + other) if downwards else (first + other, second + own)
        return density_polynomial(orders, levels, cumulants) * xp.exp(-drop)

    return mass * integrate(xp, integrand, length, logarithmic=True)


def beta_tail_length(xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, y: Buffer) -> Buffer:
    """Returns how far below x, in s, the density has all but vanished."""
    # The drop is convex and increasing: from beyond, Newton's steps come down to where it is done.
    d = (DROP - (a + b) * xp.log(y)) / a
    for _ in range(MOST_NEWTON_STEPS):
        change = x * xp.expm1(-d)
        rate = a - (a + b) * (x + change) / (1.0 + change)
        d = d - (a * d + (a + b) * xp.log1p(change) - DROP) / rate
    return d


def _lower_tail(
    xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, y: Buffer, orders: tuple[int, int]
) -> Buffer:
    """Integrates the derivative's density from 0 to x."""
    # Beyond the knee the integrand rises, or is flat, before it falls.
    up, down = xp.maximum(a, 1.0), xp.maximum(b, 1.0)
    beyond = x * down > y * up
    knee, rest = xp.where(beyond, up / (up + down), x), xp.where(beyond, down / (up + down), y)
    total = beta_panel(xp, a, b, knee, rest, orders, True, beta_tail_length(xp, a, b, knee, rest))

    def rising(
        a: Buffer, b: Buffer, knee: Buffer, rest: Buffer, x: Buffer, y: Buffer, total: Buffer
    ) -> Any:
        length = xp.log(x / y) - xp.log(xp.maximum(a, 1.0) / xp.maximum(b, 1.0))
        return total + beta_panel(xp, a, b, knee, rest, orders, False, length)

    return put_where(xp, total, beyond, rising, [a, b, knee, rest, x, y, total], 0.5)


@elementwise_in_doubles
def betainc_grad(
    xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer, *, by_a: int, by_b: int
) -> Buffer:
    """Returns a derivative of I_x(a, b) by a and b; at least one order is not 0."""
    y = 1.0 - x
    out = xp.where((x == 0) | (x == 1), 0.0, xp.nan)
    proper = (a > 0) & (b > 0) & xp.isfinite(a) & xp.isfinite(b)
    out = xp.where(proper, out, xp.nan)
    proper = proper & (x > 0) & (x < 1)
    psi = special(xp).psi
    if by_a:
        below = xp.log(x) < psi(a) - psi(a + b)
    else:
        below = xp.log1p(-x) > psi(b) - psi(a + b)

    def lower(a: Buffer, b: Buffer, x: Buffer, y: Buffer) -> Buffer:
        return _lower_tail(xp, a, b, x, y, (by_a, by_b))

    def upper(a: Buffer, b: Buffer, x: Buffer, y: Buffer) -> Buffer:
        return -_lower_tail(xp, b, a, y, x, (by_b, by_a))

    out = put_where(xp, out, proper & below, lower, [a, b, x, y], 0.5)
    return put_where(xp, out, proper & ~below, upper, [a, b, x, y], 0.5)


def _climb(xp: ArrayModule, a: Buffer, b: Buffer, y: Buffer) -> Buffer:
    """Returns that x for which I_x(a, b) is a very small y, by Newton's steps in logarithms.

    The logarithm of I is concave in that of x, so that the steps come up to the solution.
    """
    log_beta = special(xp).betaln(a, b)
    x = xp.exp(xp.minimum((xp.log(y) + xp.log(a) + log_beta) / a, -1e-3))
    for _ in range(MOST_NEWTON_STEPS):
        value = special(xp).betainc(a, b, x)
        # A derivative of some digits is enough.
        rate = xp.exp(a * xp.log(x) + (b - 1.0) * xp.log1p(-x) - log_beta) / value
        x = x * xp.exp((xp.log(y) - xp.log(value)) / rate)
    return x


def _completed(xp: ArrayModule, x: Buffer, a: Buffer, b: Buffer, y: Buffer) -> Buffer:
    """Returns SciPy's solutions, and those for very small y that it does not find."""
    missing = xp.isnan(x) & (a > 0) & (b > 0) & (y > 0) & (y < 1e-3)
    return put_where(xp, x, missing, lambda *v: _climb(xp, *v), [a, b, y], 1e-4)


def _inverse(xp: ArrayModule, a: Buffer, b: Buffer, y: Buffer) -> Any:
    """Returns that x for which I_x(a, b) is y, as the module for an array module finds it.

    Others than SciPy's may end their search some digits before it is done. Then a step of Newton's
    method follows, on logarithms: not where it would not be small, and not where the value hardly
    depends on x, so that its rounding would count more than the correction.
    """
    x = special(xp).betaincinv(a, b, y)
    if xp.__name__ == "numpy":
        return x
    inside = (x > 0) & (x < 1) & (y > 0) & (y < 1)
    p, q, t, wanted = (xp.where(inside, v, 0.5) for v in (a, b, x, y))
    value = special(xp).betainc(p, q, t)
    rate = xp.exp(log_beta_mass(xp, p, q, t, 1.0 - t)) / ((1.0 - t) * value)
    change = xp.log1p((wanted - value) / value) / rate
    after = t * xp.exp(change)
    small = (xp.abs(change) < 1e-3) & (xp.abs(after - t) < 1e-3 * (1.0 - t))
    return xp.where(inside & (rate > 1e-4) & small, after, x)


@elementwise_in_doubles
def betaincc(xp: ArrayModule, a: Buffer, b: Buffer, x: Buffer) -> Buffer:
    """Returns 1 - I_x(a, b) where SciPy's module has no function for it."""
    lower = special(xp).betainc(a, b, x)
    upper = special(xp).betainc(b, a, 1.0 - x)
    # The rounding of 1 - x changes the result by the density times that.
    inside = (x > 0) & (x < 1) & (a > 0) & (b > 0)
    c, d, t = (xp.where(inside, value, 0.5) for value in (a, b, x))
    density = xp.exp(log_beta_mass(xp, c, d, t, 1.0 - t) - xp.log(t) - xp.log1p(-t))
    return xp.where(inside & ((lower < 0.5) | (density > 1.0)), 1.0 - lower, upper)


@elementwise_in_doubles
def betaincinv(xp: ArrayModule, a: Buffer, b: Buffer, y: Buffer) -> Buffer:
    """Returns that x for which I_x(a, b) is y."""
    return _completed(xp, _inverse(xp, a, b, y), a, b, y)


@elementwise_in_doubles
def betainccinv(xp: ArrayModule, a: Buffer, b: Buffer, y: Buffer) -> Buffer:
    """Returns that x for which 1 - I_x(a, b) is y."""
    if xp.__name__ == "numpy":
        x = special(xp).betainccinv(a, b, y)
    else:
        x = 1.0 - _inverse(xp, b, a, y)
        # The rounding of 1 - y matters where y is small, and the rounding of x where x is small.
        near = (y >= 0.5) | ((y > 1e-3) & (x < 0.5))
        x = xp.where(near, _inverse(xp, a, b, 1.0 - y), x)

    def completed(x: Buffer, a: Buffer, b: Buffer, y: Buffer) -> Buffer:
        return 1.0 - _completed(xp, x, b, a, y)

    return put_where(xp, x, xp.isnan(x), completed, [x, a, b, y], xp.nan)
