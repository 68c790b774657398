"""The gamma function and its kin: logarithms, logarithmic derivatives, quotients."""

from __future__ import annotations

import math

from ...backends.arrays import special_gamma as kernels
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.test_samples import POSITIVE, Domain
from .scipy_functions import (
    DLMF,
    ORDER,
    by_scipy,
    scipy_elementwise,
    scipy_unary,
    without_derivative,
)

__all__ = [
    "beta", "betaln", "binom", "digamma", "gamma", "gammaln", "gammasgn", "loggamma", "poch",
    "polygamma", "rgamma", "rgamma_grad",
]  # fmt: skip

# fmt: off - as in a table, one rule stands beside its name, and several stand below it.

# Between the poles, on both sides of 0.
OFF_POLES = Domain(-0.9, -0.1)

gammaln = scipy_unary(
    "gammaln", lambda g, x: g * ops.digamma(x), domains=POSITIVE,
    doc="Returns the logarithm of the absolute value of the gamma function.",
    example="special.gammaln([1.0, 2.0]) -> [0.0, 0.0]", source=DLMF + "5.2.1",
)
loggamma = scipy_unary(
    "loggamma", lambda g, x: g * ops.digamma(x), domains=POSITIVE, dtypes="fdD",
    doc="Returns the logarithm of the gamma function, NaN where that is negative.",
    example="special.loggamma([1.0, 2.0]) -> [0.0, 0.0]", source=DLMF + "5.2.1",
)
gamma = scipy_unary(
    "gamma", lambda g, ans, x: g * (ans * ops.digamma(x)), domains=OFF_POLES, dtypes="fdD",
    doc="Returns the gamma function: ``(x - 1)!`` at positive integers.",
    example="special.gamma([1.0, 5.0]) -> [1.0, 24.0]", source=DLMF + "5.2.1",
)
gammasgn = scipy_unary(
    "gammasgn",
    doc="Returns the sign of the gamma function, 1 at 0 and NaN at its other poles.",
    example="special.gammasgn([2.5, -0.5]) -> [1.0, -1.0]",
)


def rgamma_grad(x: Array) -> Array:
    """Returns the derivative of ``1 / gamma``, which has no poles.

    Left of 1/2 by the reflection formula, DLMF 5.5.3: 1 / gamma(x) is gamma(1 - x) sin(pi x) / pi.
    """
    left = ops.less(ops.real(x), 0.5)
    mirrored = 1 - ops.where(left, x, 0)
    angle = math.pi * ops.where(left, x, 0)
    reflected = ops.cos(angle) - ops.digamma(mirrored) * ops.sin(angle) * (1 / math.pi)
    right = ops.where(left, 1, x)
    # Digamma is infinite where the reciprocal has vanished for good.
    reciprocal = ops.rgamma(right)
    direct = ops.where(ops.equal(reciprocal, 0), 0, -ops.digamma(right) * reciprocal)
    return ops.where(left, ops.gamma(mirrored) * reflected, direct)


rgamma = scipy_unary(
    "rgamma", lambda g, x: g * rgamma_grad(x), dtypes="fdD",
    doc="Returns the reciprocal of the gamma function, which is 0 at its poles.",
    example="special.rgamma([1.0, -3.0]) -> [1.0, 0.0]", source=DLMF + "5.5.3",
)
digamma = scipy_unary(
    "digamma", lambda g, x: g * ops.polygamma(1, x),
    compute=by_scipy("psi"), domains=POSITIVE, dtypes="fdD",
    doc="Returns the derivative of the logarithm of the gamma function, also known as psi.",
    example="special.digamma(0.0) -> -inf", source=DLMF + "5.2.2",
)
polygamma = scipy_elementwise(
    "polygamma",
    without_derivative("polygamma", "its order n"),
    lambda g, x, y: g * ops.polygamma(x + 1, y),
    compute=kernels.polygamma, domains=(ORDER, POSITIVE), dtypes="dD",
    doc="Returns the n-th derivative of digamma.",
    arguments={
        "n": "the order, integers from 0 up; there is no derivative by it.",
        "x": "an array of a shape that broadcasts against n's, or a number.",
    },
    example="special.polygamma(1, 0.0) -> inf", source=DLMF + "5.15.1",
)
# From this argument on differences of digamma are taken by its expansion, DLMF 5.11.2.
EXPANDED_FROM = 60.0


def digamma_rise(x: Array, y: Array) -> Array:
    """Returns ``digamma(x + y) - digamma(x)``, in which all digits cancel where y is small."""
    far = ops.logical_and(ops.greater(x, EXPANDED_FROM), ops.greater(x + y, EXPANDED_FROM))
    a, b = ops.where(far, x, EXPANDED_FROM), ops.where(far, y, 1)
    # Reciprocals p of x and q of x + y: of even powers the differences are multiples of y p q.
    p, q = 1 / a, 1 / (a + b)
    squares = p * p + q * q
    sixth = (squares * squares - p * p * q * q) * (1 / 252)
    even = (p + q) * (1 / 12 - squares * (1 / 120) + sixth)
    rise = ops.log1p(b * p) + b * p * q * (0.5 + even)
    x, y = ops.where(far, 1, x), ops.where(far, 1, y)
    return ops.where(far, rise, ops.digamma(x + y) - ops.digamma(x))


beta = scipy_elementwise(
    "beta",
    lambda g, ans, x, y: -g * (ans * digamma_rise(x, y)),
    lambda g, ans, x, y: -g * (ans * digamma_rise(y, x)),
    compute=kernels.beta, domains=POSITIVE,
    doc="Returns the beta function ``gamma(a) gamma(b) / gamma(a + b)``.",
    arguments={"a, b": "arrays whose shapes broadcast, or numbers."},
    example="special.beta(1.0, 2.0) -> 0.5", source=DLMF + "5.12.1",
)
betaln = scipy_elementwise(
    "betaln",
    lambda g, x, y: -g * digamma_rise(x, y),
    lambda g, x, y: -g * digamma_rise(y, x),
    compute=kernels.betaln, domains=POSITIVE,
    doc="Returns the logarithm of the absolute value of the beta function.",
    arguments={"a, b": "arrays whose shapes broadcast, or numbers."},
    example="special.betaln(1.0, 1.0) -> 0.0", source=DLMF + "5.12.1",
)


def _poch_vjp_z(g: Array, ans: Array, x: Array, y: Array) -> Array:
    # Close to the pole of digamma at 0 the symbol is that of z + 1, times z / (z + m).
    near = ops.logical_and(ops.less(ops.abs(x), 0.25), ops.greater_equal(y, 0.25))
    z, m = ops.where(near, x, 0), ops.where(near, y, 1)
    near_pole = ops.poch(z + 1, m) / (z + m) * (m / (z + m) + z * digamma_rise(z + 1, m))
    x, y = ops.where(near, 1, x), ops.where(near, 1, y)
    return g * ops.where(near, near_pole, ops.where(near, 1, ans) * digamma_rise(x, y))


poch = scipy_elementwise(
    "poch",
    _poch_vjp_z,
    lambda g, ans, x, y: g * (ans * ops.digamma(x + y)),
    compute=kernels.poch, domains=POSITIVE,
    doc="Returns Pochhammer's symbol ``gamma(z + m) / gamma(z)``, the rising factorial.",
    arguments={"z, m": "arrays whose shapes broadcast, or numbers."},
    example="special.poch(2.0, 3.0) -> 24.0", source=DLMF + "5.2.5",
)


def _wave(x: Array) -> tuple[Array, Array]:
    """Returns ``sin(pi x) / pi`` and ``cos(pi x)``, exact where x is an integer."""
    whole = ops.rint(x)
    sign = 1 - 2 * ops.remainder(whole, 2)
    rest = math.pi * (x - whole)
    return sign * ops.sin(rest) / math.pi, sign * ops.cos(rest)


def _binom_grads_outside(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns both derivatives where ``k > n > -1``, by the reflection formula, DLMF 5.5.3.

    There the coefficient is ``beta(n + 1, k - n) sin(pi (n - k + 1)) / pi``.
    """
    gap = y - x
    sine, cosine = _wave(x - y + 1)
    size = ops.beta(x + 1, gap)
    by_x = size * (cosine + digamma_rise(gap, x + 1 - gap) * sine)
    by_y = -size * (cosine + digamma_rise(gap, x + 1) * sine)
    return by_x, by_y


def _binom_grads(ans: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Returns both derivatives of the binomial coefficient."""
    mirrored = ops.less(y, -0.5)
    # There k is left of 0 or right of n, and digamma has its poles.
    beyond = ops.logical_or(ops.greater(y, x + 0.5), mirrored)
    outside = ops.logical_and(ops.greater(x, -1), beyond)
    # Left of 0 by the symmetry of k and n - k.
    n, k = ops.where(outside, x, 1), ops.where(outside, ops.where(mirrored, x - y, y), 3)
    by_n, by_k = _binom_grads_outside(n, k)
    by_n, by_k = ops.where(mirrored, by_n + by_k, by_n), ops.where(mirrored, -by_k, by_k)
    n, k = ops.where(outside, 2, x), ops.where(outside, 1, y)
    value = ops.where(outside, 2, ans)
    inner_n = value * digamma_rise(n - k + 1, k)
    inner_k = value * digamma_rise(k + 1, n - 2 * k)
    return ops.where(outside, by_n, inner_n), ops.where(outside, by_k, inner_k)


binom = scipy_elementwise(
    "binom",
    lambda g, ans, x, y: g * _binom_grads(ans, x, y)[0],
    lambda g, ans, x, y: g * _binom_grads(ans, x, y)[1],
    compute=kernels.binom, domains=(Domain(3.1, 6.0), Domain(0.3, 2.9)), dtypes="d",
    doc="Returns the binomial coefficient ``gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1)``.",
    arguments={"n, k": "arrays whose shapes broadcast, or numbers."},
    example="special.binom(4.0, 2.0) -> 6.0", source=DLMF + "1.2.6",
)
