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
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import result_type
from ..restoring import quiet
from .special_remainders import (
    DROP,
    as_arrays,
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

__all__ = ["bell", "beta", "betaln", "binom", "gamma_density", "gammainc_grad", "poch", "polygamma"]

MOST_NEWTON_STEPS = 20
# For larger arguments Stirling's series is more accurate than differences of logarithms.
SMALLEST_STIRLING_DIFFERENCE = 12.0
# Intermediate results overflow for arguments nearer to 0 or infinity.
TINY = 1e-150
# The series of zeta in these terms, Bernoulli numbers over (2k)!, is exact from this real part on.
COMPLEX_LARGE = 16.0
# Of the largest factorial that is finite.
MOST_FACTORIAL = 170
ZETA = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)


def polygamma(xp: ArrayModule, n: Any, x: Any) -> Any:
    """Returns the n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x), DLMF 5.15.1."""
    dtype = result_type(n, x)
    if dtype.kind == "c":
        with quiet():
            return _complex_polygamma(n, x).astype(dtype)[()]
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    n, x = as_arrays(xp, dtype, n, x)
    functions = special(xp)
    sign = xp.where(n % 2 == 0, -1.0, 1.0).astype(dtype)
    with quiet():
        higher = sign * functions.gamma(n + 1) * functions.zeta(n + 1, x)
    out = xp.where(n == 0, functions.psi(x), xp.where((n < 0) | (n % 1 != 0), xp.nan, higher))
    return out.astype(dtype)[()]


def _complex_polygamma(n: Buffer | float, z: Buffer) -> Any:
    """Returns ``polygamma`` of complex z, left of zero by that of ``1 - z``, DLMF 5.15.6."""
    n, z = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(z, np.complex128))
    left = z.real < 0
    higher = _complex_polygamma_right(n, np.where(left, 1 - z, z))
    mirrored = np.where(n % 2 == 0, 1.0, -1.0) * higher - np.pi * _cotangent_derivative(n, z)
    whole = (n >= 0) & (n % 1 == 0)
    higher = np.where(whole, np.where(left, mirrored, higher), np.nan)
    return np.where(n == 0, special(np).psi(z), higher)


def _cotangent_derivative(n: Buffer, z: Buffer) -> Any:
    """Returns the n-th derivative of ``cot(pi z)`` for positive n up to 170, and zero for others.

    It is the square of the cosecant times a polynomial q of the cotangent c, at first -1. That of
    the next derivative is ``-2 c q - (1 + c^2) q'``.
    """
    # Far from the real axis it is zero, and the sine would overflow.
    near = np.abs(z.imag) < 100
    turn = np.pi * np.where(near, z - np.round(z.real), 0.5)
    sine = np.sin(turn)
    cot, square = np.cos(turn) / sine, 1 / sine**2
    found = np.zeros(z.shape, np.complex128)
    q = np.polynomial.Polynomial([-1.0])
    twice, more = np.polynomial.Polynomial([0.0, 2.0]), np.polynomial.Polynomial([1.0, 0.0, 1.0])
    for order in range(1, int(np.max(n, initial=0, where=n <= MOST_FACTORIAL)) + 1):
        found = np.where((n == order) & near, np.pi**order * square * q(cot), found)
        q = -twice * q - more * q.deriv()
    return found


def _complex_polygamma_right(n: Buffer, z: Buffer) -> Any:
    """Returns the same right of zero: the first terms of zeta are summed, then its series."""
    s = n + 1.0
    count = np.maximum(np.ceil(COMPLEX_LARGE - z.real), 0.0)
    count = np.where(np.isnan(count), 0.0, count)
    total = np.zeros(z.shape, np.complex128)
    for k in range(int(count.max(initial=0.0))):
        total = total + np.where(k < count, (z + k) ** -s, 0.0)
    # DLMF 25.11.43
    w = z + count
    term = (1 / w) ** s
    total = total + (1 / w) ** n / n + 0.5 * term
    factor = s * term / w
    for k, weight in enumerate(ZETA):
        total = total + weight * factor
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2) / w / w
    return total * np.where(n % 2 == 0, -1.0, 1.0) * special(np).gamma(s)


def log_gamma_mass(xp: ArrayModule, a: Buffer, x: Buffer) -> Any:
    """Returns the logarithm of ``x^a exp(-x) / gamma(a)`` for positive a and x."""
    near = xp.abs(x - a) < 0.5 * a
    u = xp.where(near, (x - a) / a, 0.0)
    exponent = xp.where(near, a * log_remainder(xp, u), a * (xp.log(x) - xp.log(a)) - (x - a))
    return exponent - stirling_error(xp, a) + 0.5 * xp.log(a) - 0.5 * math.log(2.0 * math.pi)


@elementwise_in_doubles
def gamma_density(xp: ArrayModule, a: Buffer, x: Buffer) -> Buffer:
    """Returns ``x^(a - 1) exp(-x) / gamma(a)`` for x >= 0, also where a is not positive."""
    inside = x > 0
    t = xp.where(inside, x, 1.0)
    b = xp.where(a > 0, a, 1.0)
    usual = xp.exp(log_gamma_mass(xp, b, t) - xp.log(t))
    reciprocal = special(xp).rgamma(xp.where(a > 0, 1.0, a))
    continued = xp.where(reciprocal == 0, 0.0, reciprocal * xp.exp((a - 1) * xp.log(t) - t))
    out = xp.where(a > 0, usual, continued)
    at_zero = xp.where(a > 1, 0.0, xp.where(a == 1, 1.0, xp.sign(reciprocal) * xp.inf))
    at_zero = xp.where((a <= 0) & (reciprocal == 0), 0.0, at_zero)
    out = xp.where(x == 0, at_zero, out)
    out = xp.where(xp.isposinf(x), 0.0, out)
    return xp.where((x < 0) | xp.isnan(x) | xp.isnan(a), xp.nan, out)


def bell(order: int, level: Buffer, cumulants: list[Any]) -> Any:
    """Returns the polynomial by which a density's derivative by a parameter differs from it.

    It takes the first derivative of the density's logarithm and the further ones.
    """
    made: list[Any] = [1.0]
    for m in range(order):
        term = level * made[m]
        for k in range(1, m + 1):
            term = term + math.comb(m, k) * cumulants[k - 1] * made[m - k]
        made.append(term)
    return made[order]


def _falls(xp: ArrayModule, linear: Buffer, scale: Buffer, sign: float, start: Buffer) -> Buffer:
    """Returns at which distance d the drop ``linear d + scale (exp(sign d) - 1 - sign d)`` is done.

    The drop is convex and increasing, so that Newton's steps from beyond come down to it.
    """
    d = start
    for _ in range(MOST_NEWTON_STEPS):
        growth = xp.expm1(sign * d)
        drop = linear * d + scale * (growth - sign * d)
        d = d - (drop - DROP) / (linear + scale * sign * growth)
    return d


def _tail(
    xp: ArrayModule, a: Buffer, x: Buffer, order: int, cumulants: list[Any], upwards: bool
) -> Any:
    """Integrates the derivative's density from log x, where it falls, in one direction."""
    sign = 1.0 if upwards else -1.0
    linear = sign * (x - a)
    start = xp.sqrt(2.0 * DROP / x) if upwards else (DROP + x) / a
    length = _falls(xp, linear, x, sign, start)
    return gamma_panel(xp, a, x, order, cumulants, sign, length)


def gamma_panel(
    xp: ArrayModule,
    a: Buffer,
    x: Buffer,
    order: int,
    cumulants: list[Any],
    sign: float,
    length: Buffer,
) -> Any:
    """Integrates the derivative's density over distances from log x up to a length."""
    near = xp.abs(x - a) < 0.5 * a
    ratio = xp.log1p(xp.where(near, (x - a) / a, 0.0))
    level = xp.where(near, ratio, xp.log(x) - xp.log(a)) + digamma_gap(xp, a)
    mass = xp.exp(log_gamma_mass(xp, a, x))
    columns = [c[:, None] for c in cumulants]

    def integrand(d: Buffer) -> Any:
        drop = (sign * (x - a))[:, None] * d + x[:, None] * exp_remainder(xp, sign * d)
        return bell(order, level[:, None] + sign * d, columns) * xp.exp(-drop)

    return mass * integrate(xp, integrand, length, logarithmic=sign < 0)


@elementwise_in_doubles
def gammainc_grad(xp: ArrayModule, a: Buffer, x: Buffer, *, order: int) -> Buffer:
    """Returns the derivative of P(a, x) by a, of an order from 1 up."""
    out = xp.where((x == 0) | xp.isposinf(x), 0.0, xp.nan)
    out = xp.where(~(a >= 0) | xp.isinf(a), xp.nan, out)
    if order == 1:
        # P(a, x) is 1 - a E1(x) for small a: DLMF 8.2.3 and 8.4.4.
        vanishing = (a >= 0) & (a <= TINY) & (x > 0)
        out = put_where(xp, out, vanishing, lambda x: -special(xp).exp1(x), [x], 1.0)
    inside = (a > TINY) & (x > 0) & xp.isfinite(a) & xp.isfinite(x)
    lower = inside & (xp.log(x) < special(xp).psi(a))

    def cumulants(a: Buffer) -> list[Any]:
        return [-polygamma(xp, float(k), a) for k in range(1, order)]

    def below(a: Buffer, x: Buffer) -> Any:
        return _tail(xp, a, x, order, cumulants(a), False)

    def above(a: Buffer, x: Buffer) -> Any:
        # The integrand falls from the knee on. It may rise from x to the knee.
        more = cumulants(a)
        knee = xp.maximum(xp.maximum(a, 1.0), x)
        total = _tail(xp, a, knee, order, more, True)
        return -total - gamma_panel(xp, a, knee, order, more, -1.0, xp.log(knee) - xp.log(x))

    out = put_where(xp, out, lower, below, [a, x], 1.0)
    return put_where(xp, out, inside & ~lower, above, [a, x], 1.0)


def _log_beta(xp: ArrayModule, a: Buffer, b: Buffer) -> Any:
    """Returns the logarithm of B(a, b) for positive a and b, by Stirling's series.

    Arranged as in A. R. DiDonato and A. H. Morris, "Algorithm 708: significant digit computation
    of the incomplete beta function ratios", ACM Transactions on Mathematical Software 18 (1992).
    """
    small, large = xp.minimum(a, b), xp.maximum(a, b)
    total = 0.5 * math.log(2.0 * math.pi) - 0.5 * xp.log(large)
    total += (small - 0.5) * (xp.log(small / (small + large)))
    total -= large * xp.log1p(small / large)
    return total + stirling_error(xp, a) + stirling_error(xp, b) - stirling_error(xp, a + b)


@elementwise_in_doubles
def betaln(xp: ArrayModule, a: Buffer, b: Buffer) -> Buffer:
    """Returns the logarithm of the absolute value of B(a, b)."""
    far, logarithm = beta_of_far_arguments(xp, a, b)
    return xp.where(far, logarithm, special(xp).betaln(a, b))


@elementwise_in_doubles
def beta(xp: ArrayModule, a: Buffer, b: Buffer) -> Buffer:
    """Returns gamma(a) gamma(b) / gamma(a + b)."""
    far, logarithm = beta_of_far_arguments(xp, a, b)
    return xp.where(far, xp.exp(logarithm), special(xp).beta(a, b))


def beta_of_far_arguments(xp: ArrayModule, a: Buffer, b: Buffer) -> tuple[Buffer, Any]:
    """Says where gamma functions are too large for the digits of B; returns its logarithm there."""
    small, large = xp.minimum(a, b), xp.maximum(a, b)
    far = (small > TINY) & (large > SMALLEST_STIRLING_DIFFERENCE) & (large < 1.0 / TINY)
    return far, _log_beta(xp, xp.where(far, a, 1.0), xp.where(far, b, 1.0))


@elementwise_in_doubles
def poch(xp: ArrayModule, z: Buffer, m: Buffer) -> Buffer:
    """Returns gamma(z + m) / gamma(z)."""
    small, large = xp.minimum(z, z + m), xp.maximum(z, z + m)
    far = (small > SMALLEST_STIRLING_DIFFERENCE) & (large < 1.0 / TINY)
    w, k = xp.where(far, z, SMALLEST_STIRLING_DIFFERENCE), xp.where(far, m, 0.0)
    logarithm = k * xp.log(w + k) + ((w - 0.5) * xp.log1p(k / w) - k)
    logarithm += stirling_error(xp, w + k) - stirling_error(xp, w)
    return xp.where(far, xp.exp(logarithm), special(xp).poch(z, m))


@elementwise_in_doubles
def binom(xp: ArrayModule, n: Buffer, k: Buffer) -> Buffer:
    """Returns gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1)."""
    rest = xp.minimum(k, n - k)
    # The product of integers is exact for small n.
    far = (n > SMALLEST_STIRLING_DIFFERENCE) & (n < 1.0 / TINY)
    far = far & (rest > -1) & ((k % 1 != 0) | (rest >= 20))
    m, j = xp.where(far, n, SMALLEST_STIRLING_DIFFERENCE), xp.where(far, k, 0.0)
    quotient = xp.exp(-_log_beta(xp, m - j + 1.0, j + 1.0)) / (m + 1.0)
    return xp.where(far, quotient, special(xp).binom(n, k))
