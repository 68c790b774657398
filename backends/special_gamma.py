"""The density of the gamma distribution, and derivatives of its integral by its parameter.

P(a, x) is the integral from 0 to x of p(a, t) = t^(a - 1) exp(-t) / gamma(a). Its n-th derivative
by a is the integral of p(a, t) B(log t), where B is the polynomial by which p's n-th derivative
differs from p. Over all t that integral is zero, so that either tail gives it. The tail is taken
in which, for n = 1, the integrand has one sign; nothing cancels, and all digits are right. With
s = log t the integrand is exp(a s - exp(s)) times a polynomial: smooth, and falling fast enough
that Gauss's rule, in few panels, is exact to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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

__all__ = [
    "bell",
    "beta",
    "betaln",
    "binom",
    "gamma_density",
    "gammainc_slope",
    "poch",
    "polygamma",
]

NEWTON_STEPS = 20
# From here on Stirling's series is more accurate than differences of logarithms.
LARGE = 12.0
# Nearer to 0 or infinity, intermediate results overflow.
TINY = 1e-150
# From this real part on the series of zeta in these terms, Bernoulli numbers over (2k)!, is exact.
COMPLEX_LARGE = 16.0
ZETA = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)


def polygamma(n: Any, x: Any) -> Any:
    """Returns the n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x), DLMF 5.15.1."""
    dtype = np.result_type(n, x)
    if dtype.kind == "c":
        with np.errstate(all="ignore"):
            return _complex_polygamma(n, x).astype(dtype)[()]
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    n, x = np.asarray(n, dtype), np.asarray(x, dtype)
    functions = special()
    sign = np.where(n % 2 == 0, -1.0, 1.0).astype(dtype)
    with np.errstate(all="ignore"):
        higher = sign * functions.gamma(n + 1) * functions.zeta(n + 1, x)
    out = np.where(n == 0, functions.psi(x), np.where((n < 0) | (n % 1 != 0), np.nan, higher))
    return out.astype(dtype)[()]


def _complex_polygamma(n: Any, z: Any) -> Any:
    """The same for complex z: what zeta begins with is summed, the rest is its series."""
    n, z = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(z, np.complex128))
    s = n + 1.0
    count = np.maximum(np.ceil(COMPLEX_LARGE - z.real), 0.0)
    total = np.zeros(z.shape, np.complex128)
    for k in range(int(count.max(initial=0.0))):
        total = total + np.where(k < count, (z + k) ** -s, 0.0)
    # DLMF 25.11.43
    w = z + count
    term = w**-s
    total = total + w * term / n + 0.5 * term
    factor = s * term / w
    for k, weight in enumerate(ZETA):
        total = total + weight * factor
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w)
    total = total * np.where(n % 2 == 0, -1.0, 1.0) * special().gamma(s)
    return np.where(n == 0, special().psi(z), total)


def _log_mass(a: Any, x: Any) -> Any:
    """Returns the logarithm of ``x^a exp(-x) / gamma(a)`` for positive a and x."""
    near = np.abs(x - a) < 0.5 * a
    u = np.where(near, (x - a) / a, 0.0)
    exponent = np.where(near, a * log_remainder(u), a * (np.log(x) - np.log(a)) - (x - a))
    return exponent - stirling_error(a) + 0.5 * np.log(a) - 0.5 * math.log(2.0 * math.pi)


@elements
def gamma_density(a: Any, x: Any) -> Any:
    """Returns ``x^(a - 1) exp(-x) / gamma(a)`` for x >= 0, also where a is not positive."""
    inside = x > 0
    t = np.where(inside, x, 1.0)
    b = np.where(a > 0, a, 1.0)
    usual = np.exp(_log_mass(b, t) - np.log(t))
    reciprocal = special().rgamma(np.where(a > 0, 1.0, a))
    continued = np.where(reciprocal == 0, 0.0, reciprocal * np.exp((a - 1) * np.log(t) - t))
    out = np.where(a > 0, usual, continued)
    at_zero = np.where(a > 1, 0.0, np.where(a == 1, 1.0, np.sign(reciprocal) * np.inf))
    at_zero = np.where((a <= 0) & (reciprocal == 0), 0.0, at_zero)
    out = np.where(x == 0, at_zero, out)
    out = np.where(np.isposinf(x), 0.0, out)
    return np.where((x < 0) | np.isnan(x) | np.isnan(a), np.nan, out)


def bell(order: int, level: Any, cumulants: list[Any]) -> Any:
    """Returns the polynomial by which a density's derivative by a parameter differs from it.

    Args:
        order: how many times to differentiate.
        level: the derivative of the density's logarithm.
        cumulants: the second and further derivatives of its logarithm.
    """
    made = [np.ones_like(level)]
    for m in range(order):
        term = level * made[m]
        for k in range(1, m + 1):
            term = term + math.comb(m, k) * cumulants[k - 1] * made[m - k]
        made.append(term)
    return made[order]


def _falls(slope: Any, scale: Any, sign: float, start: Any) -> Any:
    """Returns at which distance d the drop ``slope d + scale (exp(sign d) - 1 - sign d)`` is done.

    The drop is convex and increasing, so that Newton's steps from beyond come down to it.
    """
    d = start
    for _ in range(NEWTON_STEPS):
        growth = np.expm1(sign * d)
        drop = slope * d + scale * (growth - sign * d)
        d = d - (drop - DROP) / (slope + scale * sign * growth)
    return d


def _tail(a: Any, x: Any, order: int, cumulants: list[Any], upwards: bool) -> Any:
    """Integrates the derivative's density from log x, where it falls, in one direction."""
    sign = 1.0 if upwards else -1.0
    slope = sign * (x - a)
    start = np.sqrt(2.0 * DROP / x) if upwards else (DROP + x) / a
    length = _falls(slope, x, sign, start)
    return _panel(a, x, order, cumulants, sign, length)


def _panel(a: Any, x: Any, order: int, cumulants: list[Any], sign: float, length: Any) -> Any:
    """Integrates the derivative's density over distances from log x up to a length."""
    near = np.abs(x - a) < 0.5 * a
    ratio = np.log1p(np.where(near, (x - a) / a, 0.0))
    level = np.where(near, ratio, np.log(x) - np.log(a)) + digamma_gap(a)
    mass = np.exp(_log_mass(a, x))
    columns = [c[:, None] for c in cumulants]

    def integrand(d: Any) -> Any:
        drop = (sign * (x - a))[:, None] * d + x[:, None] * exp_remainder(sign * d)
        return bell(order, level[:, None] + sign * d, columns) * np.exp(-drop)

    return mass * integrate(integrand, length, logarithmic=sign < 0)


@elements
def gammainc_slope(a: Any, x: Any, *, order: int) -> Any:
    """Returns the derivative of P(a, x) by a, of an order from 1 up."""
    out = np.where((x == 0) | np.isposinf(x), 0.0, np.nan)
    out[~(a >= 0) | np.isinf(a)] = np.nan
    if order == 1:
        # P(a, x) is 1 - a E1(x) for small a: DLMF 8.2.3 and 8.4.4.
        vanishing = (a >= 0) & (a <= TINY) & (x > 0)
        out[vanishing] = -special().exp1(x[vanishing])
    inside = (a > TINY) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    lower = inside & (np.log(x) < special().psi(a))
    upper = inside & ~lower

    def cumulants(where: Any) -> list[Any]:
        return [-polygamma(float(k), a[where]) for k in range(1, order)]

    if lower.any():
        out[lower] = _tail(a[lower], x[lower], order, cumulants(lower), False)
    if upper.any():
        # From x up to where the integrand falls, if it does not do so from x on, and from there.
        b, t, more = a[upper], x[upper], cumulants(upper)
        knee = np.maximum(np.maximum(b, 1.0), t)
        total = _tail(b, knee, order, more, True)
        total += _panel(b, knee, order, more, -1.0, np.log(knee) - np.log(t))
        out[upper] = -total
    return out


def _log_beta(a: Any, b: Any) -> Any:
    """Returns the logarithm of B(a, b) for positive a and b, by Stirling's series.

    Arranged as in A. R. DiDonato and A. H. Morris, "Algorithm 708: significant digit computation
    of the incomplete beta function ratios", ACM Transactions on Mathematical Software 18 (1992).
    """
    small, large = np.minimum(a, b), np.maximum(a, b)
    total = 0.5 * math.log(2.0 * math.pi) - 0.5 * np.log(large)
    total += (small - 0.5) * (np.log(small / (small + large)))
    total -= large * np.log1p(small / large)
    return total + stirling_error(a) + stirling_error(b) - stirling_error(a + b)


@elements
def betaln(a: Any, b: Any) -> Any:
    """Returns the logarithm of the absolute value of B(a, b)."""
    far = _far(a, b)
    c, d = np.where(far, a, 1.0), np.where(far, b, 1.0)
    return np.where(far, _log_beta(c, d), special().betaln(a, b))


@elements
def beta(a: Any, b: Any) -> Any:
    """Returns gamma(a) gamma(b) / gamma(a + b)."""
    far = _far(a, b)
    c, d = np.where(far, a, 1.0), np.where(far, b, 1.0)
    return np.where(far, np.exp(_log_beta(c, d)), special().beta(a, b))


def _far(a: Any, b: Any) -> Any:
    """Says where gamma functions of the arguments are too large for their quotient's digits."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    return (small > TINY) & (large > LARGE) & (large < 1.0 / TINY)


@elements
def poch(z: Any, m: Any) -> Any:
    """Returns gamma(z + m) / gamma(z)."""
    far = (np.minimum(z, z + m) > LARGE) & (np.maximum(z, z + m) < 1.0 / TINY)
    w, k = np.where(far, z, LARGE), np.where(far, m, 0.0)
    logarithm = k * np.log(w + k) + ((w - 0.5) * np.log1p(k / w) - k)
    logarithm += stirling_error(w + k) - stirling_error(w)
    return np.where(far, np.exp(logarithm), special().poch(z, m))


@elements
def binom(n: Any, k: Any) -> Any:
    """Returns gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1)."""
    rest = np.minimum(k, n - k)
    # Of few things, the product of integers is exact.
    far = (n > LARGE) & (rest > -1) & (n < 1.0 / TINY) & ((k % 1 != 0) | (rest >= 20))
    m, j = np.where(far, n, LARGE), np.where(far, k, 0.0)
    quotient = np.exp(-_log_beta(m - j + 1.0, j + 1.0)) / (m + 1.0)
    return np.where(far, quotient, special().binom(n, k))
