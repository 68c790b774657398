"""Student's t distribution, for functions of both `special` and `stats`."""

from __future__ import annotations

from math import log, pi
from typing import Any

from ..custom.rules import custom_jvp
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.special import error, gamma, incomplete  # noqa: F401 - enters
from ..transforms.jvp import jvp

__all__ = ["t_cdf", "t_logpdf", "t_ppf"]

# With b = df / 2 and v = x**2 / (df + x**2), the square of x follows a beta distribution: its
# probability between -x and x is betainc(1/2, b, v).

# (1 - 4**-k) B(2k) / (k (2k - 1)) from k = 5 down.
RATIO = (31 / 18432, -17 / 14336, 1 / 640, -1 / 192, 1 / 8)


def _log_gamma_ratio(b: Array) -> Array:
    """Returns ``log(gamma(b + 1/2) / gamma(b)) - log(b) / 2``, which vanishes as b grows.

    From the asymptotic series of log(gamma) (NIST Digital Library of Mathematical Functions,
    5.11.8) for large b, where gamma functions and even their quotients lose digits.
    """
    large = ops.greater(b, 20)
    r = 1 / ops.where(large, b, 20.0)
    series: Array | float = 0.0
    for term in RATIO:
        series = series * (r * r) + term
    c = ops.where(large, 1.0, b)
    quotient = 0.5 * (log(pi) - ops.log(c)) - ops.betaln(c, c.dtype.type(0.5))
    return ops.where(large, -series * r, quotient)


# From so many degrees of freedom on, the distribution is the normal one.
NORMAL = 1e15


def t_logpdf(x: Array, df: Array) -> Array:
    """Returns the logarithm of the density of the standard form."""
    df = ops.minimum(df, NORMAL)
    height = _log_gamma_ratio(0.5 * df) - 0.5 * log(2 * pi)
    return height - 0.5 * (df + 1) * ops.log1p(x * x / df)


SERIES_TERMS_OF_CDF = 16


def _central(x: Array, v: Array, b: Array) -> Array:
    """Returns the probability between 0 and x, for small x of either sign, by a series.

    v**(1/2) (1 - v)**b / B(1/2, b) times 2F1(b + 1/2, 1; 3/2; v): NIST Digital Library of
    Mathematical Functions, 8.17.8. Here the root of v has x's sign, so that nothing has a kink.
    """
    series: Array | float = 1.0
    for k in reversed(range(SERIES_TERMS_OF_CDF)):
        series = 1.0 + series * (v * ((b + (k + 0.5)) / (k + 1.5)))
    height = _log_gamma_ratio(b) - 0.5 * log(pi)
    root = x * ops.sqrt(b / (2 * b + x * x))
    return root * ops.exp(b * ops.log1p(-v) + height) * series


def t_cdf(x: Array, df: Array) -> Array:
    """Returns the probability of at most x in the standard form."""
    df = ops.minimum(df, NORMAL)
    b = 0.5 * df
    square = x * x
    v = square / (df + square)
    # Each term of the series is a tenth of the one before here; elsewhere x is not zero.
    near = ops.logical_and(ops.less(v, 0.1), ops.less(v * (b + 0.5), 0.15))
    small = ops.where(near, x, 0.0)
    middle = 0.5 + _central(small, ops.where(near, v, 0.0), b)
    # The smaller one of v and 1 - v is precise.
    low = ops.less(v, 0.5)
    inner = ops.where(near, 0.5, ops.where(low, v, 0.5))
    outer = ops.where(low, 0.5, df / (df + ops.where(near, 1.0, square)))
    tail = 0.5 * ops.where(low, ops.betaincc(0.5, b, inner), ops.betainc(b, 0.5, outer))
    return ops.where(near, middle, ops.where(ops.less(x, 0), tail, 1 - tail))


# From so many on, the quantile is that of the normal distribution and a first correction.
CORRECTED = 1e10


@custom_jvp
def t_ppf(q: Array, df: Array) -> Array:
    """Returns the quantile of the standard form, for q between 0 and 1."""
    upper = ops.greater(q, 0.5)
    # Twice the tail's probability; the smaller one of v and 1 - v is precise.
    p = 2 * ops.where(upper, 1 - q, q)
    many = ops.greater(df, CORRECTED)
    b = 0.5 * ops.where(many, 1.0, df)
    v = ops.betainccinv(0.5, b, p)
    w = ops.betaincinv(b, 0.5, p)
    low = ops.less(v, 0.5)
    x = ops.sqrt(2 * b * ops.where(low, v / (1 - v), (1 - w) / w))
    # Far out, p is w**b / (b B(b, 1/2)), where w itself may vanish.
    scaled = ops.log(p) + ops.log(b) + ops.betaln(b, b.dtype.type(0.5))
    x = ops.where(ops.less(w, 1e-20), ops.sqrt(2 * b) * ops.exp(-0.5 * scaled / b), x)
    z = -ops.ndtri(0.5 * p)
    x = ops.where(many, z + z * (z * z + 1) / (4 * df), x)
    return ops.where(upper, x, -x)


@t_ppf.defjvp
def _ppf_rule(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    q, df = primals
    x = t_ppf(q, df)
    _, moved = jvp(lambda d: t_cdf(x, d), (df,), (tangents[1],))
    return x, (tangents[0] - moved) * ops.exp(-t_logpdf(x, df))
