"""Distributions of counts."""

from __future__ import annotations

from math import e, inf, lgamma, log, pi
from typing import Any

import numpy as np

from ...backends.annotations import Buffer
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from .. import special
from .distribution import Discrete, LawParameter

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]

COUNTS: dict[str, Any] = {"support": (0.0, inf), "inner": 0.0}
# Beyond this, the logarithm of a binomial coefficient is cut: it is multiplied by a power of 0.
LARGEST_EXPONENT = 80.0
LOG_2_PI_E = log(2 * pi * e)


def _mass_of(log_ways: Array, p: LawParameter, successes: Array, failures: Array) -> Array:
    """Returns exp(log_ways) p**successes (1 - p)**failures, with derivatives at 0 and 1 too."""
    # Logarithms of a certain event or its opposite are infinite.
    certain = ops.logical_or(ops.equal(p, 0), ops.equal(p, 1))
    inside = ops.where(certain, 0.5, p)
    usual = log_ways + special.xlogy(successes, inside) + special.xlog1py(failures, -inside)
    edge = ops.where(certain, p, 1.0)
    ways = ops.exp(ops.minimum(log_ways, LARGEST_EXPONENT))
    powers = ops.power(edge, successes) * ops.power(1 - edge, failures)
    return ops.where(certain, ways * powers, ops.exp(usual))


def _fails(k: Array, p: LawParameter) -> Array:
    """Returns (1 - p)**k, with derivatives at 1 too."""
    certain = ops.equal(p, 1)
    usual = ops.exp(special.xlog1py(k, -ops.where(certain, 0.5, p)))
    return ops.where(certain, ops.power(1 - ops.where(certain, p, 1.0), k), usual)


def _geometric_quantile(level: Array, p: LawParameter) -> Array:
    """Returns 1 where a level is above a probability, else 0; it has no derivative."""
    above = ops.greater(ops.stop_gradient(level), ops.stop_gradient(p))
    return ops.astype(above, p.dtype)


bernoulli = Discrete(
    "bernoulli",
    "Bernoulli",
    {"p": "probability"},
    support=(0.0, 1.0),
    # The logarithm of the likelier value is finite.
    inner=lambda p: ops.astype(ops.greater(p, 0.5), p.dtype),
    logpmf=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    pmf=lambda k, p: k * p + (1 - k) * (1 - p),
    cdf=lambda k, p: 1 - p + 0 * k,
    sf=lambda k, p: p + 0 * k,
    ppf=lambda q, p: _geometric_quantile(q, 1 - p),
    isf=lambda q, p: _geometric_quantile(p, q),
    entropy=lambda p: special.entr(p) + special.entr(1 - p),
    example="pmf([0, 1], 0.25) -> Array([0.75, 0.25], dtype=float64, device='cpu')",
)


def _log_ways(k: Array, n: LawParameter) -> Array:
    """Returns the logarithm of the binomial coefficient, which is one over a beta function."""
    return -ops.log1p(n) - special.betaln(k + 1, n - k + 1)


def _some(rest: Array) -> Array:
    """Returns the number that is left, and 1 for none, where another formula holds."""
    return ops.where(ops.greater(rest, 0), rest, 1.0)


binom = Discrete(
    "binom",
    "binomial",
    {"n": "count", "p": "probability"},
    support=(0.0, lambda n, p: n),
    inner=lambda n, p: n * ops.astype(ops.greater(p, 0.5), p.dtype),
    logpmf=lambda k, n, p: (
        special.xlogy(k, p) + special.xlog1py(n - k, -p) + _log_ways(k, n)
    ),
    pmf=lambda k, n, p: _mass_of(_log_ways(k, n), p, k, n - k),
    cdf=lambda k, n, p: special.betaincc(k + 1, _some(n - k), p),
    sf=lambda k, n, p: special.betainc(k + 1, _some(n - k), p),
    example="pmf(0, 2, 0.5) -> Array(0.25, dtype=float64, device='cpu')",
)
geom = Discrete(
    "geom",
    "geometric",
    {"p": "chance"},
    support=(1.0, inf),
    inner=1.0,
    logpmf=lambda k, p: special.xlog1py(k - 1, -p) + ops.log(p),
    pmf=lambda k, p: p * _fails(k - 1, p),
    cdf=lambda k, p: _geometric_cdf(k, p),
    sf=lambda k, p: _fails(k, p),
    logsf=lambda k, p: _geometric_logsf(k, p),
    example="pmf(2, 0.5) -> Array(0.25, dtype=float64, device='cpu')",
)


def _geometric_cdf(k: Array, p: LawParameter) -> Array:
    certain = ops.equal(p, 1)
    usual = -ops.expm1(special.xlog1py(k, -ops.where(certain, 0.5, p)))
    return ops.where(certain, 1 - _fails(k, p), usual)


def _geometric_logsf(k: Array, p: LawParameter) -> Array:
    certain = ops.equal(p, 1)
    return ops.where(certain, -inf * k, special.xlog1py(k, -ops.where(certain, 0.5, p)))


def _log_orders(k: Array, n: LawParameter) -> Array:
    """Returns the logarithm of the number of orders of k failures before the n-th success."""
    return -ops.log(n + k) - special.betaln(n, k + 1)


nbinom = Discrete(
    "nbinom",
    "negative binomial",
    {"n": "positive", "p": "chance"},
    **COUNTS,
    logpmf=lambda k, n, p: n * ops.log(p) + special.xlog1py(k, -p) + _log_orders(k, n),
    pmf=lambda k, n, p: _mass_of(_log_orders(k, n), p, n, k),
    cdf=lambda k, n, p: special.betainc(n, k + 1, p),
    sf=lambda k, n, p: special.betaincc(n, k + 1, p),
    example="pmf(0, 2, 0.5) -> Array(0.25, dtype=float64, device='cpu')",
)


def _poisson_logpmf(k: Array | Buffer, mu: LawParameter) -> Array:
    return special.xlogy(k, mu) - special.gammaln(k + 1) - mu


def _poisson_pmf(k: Array | Buffer, mu: LawParameter) -> Array:
    none = ops.equal(mu, 0)
    usual = ops.exp(_poisson_logpmf(k, ops.where(none, 1.0, mu)))
    rate = ops.where(none, mu, 0.0)
    return ops.where(none, ops.power(rate, k) * ops.exp(-rate - special.gammaln(k + 1)), usual)


# From this rate on, the entropy of a Poisson distribution is an asymptotic series in 1 / mu with an
# error below 1e-13. Below this rate, the events beyond that number contribute less.
LARGEST_SUMMED_RATE, SUMMED_EVENTS = 60.0, 200
POISSON_ENTROPY = (
    1 / 12, 1 / 24, 19 / 360, 9 / 80, 863 / 2520, 1375 / 1008, 33953 / 5040, 57281 / 1440
)  # fmt: skip


def _poisson_entropy(mu: LawParameter) -> Array:
    """Returns the expectation of ``mu - k log(mu) + log(k!)``, or the series.

    Source: R. J. Evans, J. Boersma, N. M. Blachman and A. A. Jagers, "The entropy of a Poisson
    distribution", SIAM Review 30 (1988).
    """
    few = ops.less(mu, LARGEST_SUMMED_RATE)
    rate, inverse = ops.where(few, mu, 1.0), 1 / ops.where(few, LARGEST_SUMMED_RATE, mu)
    k = np.arange(SUMMED_EVENTS)
    logs = np.array([lgamma(n + 1) for n in k])
    column = ops.expand_dims(rate, -1)
    masses = _poisson_pmf(beside(mu, k.astype(mu.dtype)), column)
    logs = beside(mu, logs.astype(mu.dtype))
    # Sums of small terms keep more digits than two large ones, if log(mu) is finite.
    low = ops.less(rate, 1)
    inside = ops.where(ops.expand_dims(low, -1), 1.0, column)
    levels = logs - special.xlogy(beside(mu, k.astype(mu.dtype)), inside) + inside
    some = ops.sum(masses * levels, -1)
    rare = special.entr(rate) + rate + ops.sum(masses * logs, -1)
    summed = ops.where(low, rare, some)
    series: Array | float = 0.0
    for term in reversed(POISSON_ENTROPY):
        series = (series + term) * inverse
    return ops.where(few, summed, 0.5 * (LOG_2_PI_E - ops.log(inverse)) - series)


poisson = Discrete(
    "poisson",
    "Poisson",
    {"mu": "nonnegative"},
    **COUNTS,
    logpmf=_poisson_logpmf,
    pmf=_poisson_pmf,
    cdf=lambda k, mu: special.gammaincc(k + 1, mu),
    sf=lambda k, mu: special.gammainc(k + 1, mu),
    entropy=_poisson_entropy,
    example="pmf(0, 0.0) -> Array(1., dtype=float64, device='cpu')",
)
