"""Random numbers that are proposed until one is accepted, many at once.

Element i of a key's result takes its proposals from blocks of four words of its own: that of round
r is block i of the key's stream 16 + r. So its value depends on the key, its place and its own
parameters alone: not on the other elements, nor on how many there are, nor on the backend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import lgamma, pi, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import quiet
from .philox import numpy_random_bits, random_bits

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer

__all__ = ["FIRST_STREAM", "random_binomial", "random_loggamma", "random_poisson"]

FIRST_STREAM = 16
WORDS_PER_PROPOSAL = 4
# Elements are done in parts that fit into a core's cache.
PART_ELEMENTS = 1 << 14

# Proposes values: from words of shape (elements, 4) and the parameters of these elements, returns
# the values and which are accepted.
Proposal = Callable[..., tuple[Any, Any]]


def _unit(words: Buffer) -> Buffer:
    """Returns floats in the open interval (0, 1) for words of 64 bits."""
    return ((words >> 12).astype("float64") + 0.5) * 2.0**-52


def _sampled(
    xp: ArrayModule, key: Buffer, parameters: list[Any], propose: Proposal, dtype: str
) -> Buffer:
    """Returns the first accepted proposal for every element.

    The key has the shape ``(*batch, 2)``, parameters have ``(*batch, *shape)``.
    """
    shape = parameters[0].shape
    keys = xp.asarray(key).astype("uint64").reshape(-1, 2)
    rows = len(keys)
    count = prod(shape) // rows if rows else 0
    out = xp.empty((rows, count), dtype)
    tables = [xp.broadcast_to(p, shape).reshape(rows, count) for p in parameters]
    together = max(1, PART_ELEMENTS // max(count, 1))
    for row in range(0, rows if count else 0, together):
        for first in range(0, count, PART_ELEMENTS):
            part = slice(row, row + together), slice(first, first + PART_ELEMENTS)
            out[part] = _sampled_part(
                xp, keys[part[0]], first, [t[part] for t in tables], propose, dtype
            )
    return out.reshape(shape)


def _sampled_part(
    xp: ArrayModule, keys: Buffer, first: int, parameters: list[Any], propose: Proposal, dtype: str
) -> Buffer:
    """Returns the results for some keys and consecutive elements."""
    bits = numpy_random_bits if xp is np else partial(random_bits, xp)
    rows, count = parameters[0].shape
    out = xp.empty(rows * count, dtype)
    parameters = [p.reshape(-1) for p in parameters]
    starts = xp.full(rows, first, "uint64")
    words = bits(keys, starts, shape=(count, WORDS_PER_PROPOSAL), bits=64, stream=FIRST_STREAM)
    words, pending = words.reshape(-1, WORDS_PER_PROPOSAL), xp.arange(rows * count)
    stream = FIRST_STREAM
    with quiet():
        while True:
            value, accepted = propose(words, *(p[pending] for p in parameters))
            out[pending[accepted]] = value[accepted]
            pending = pending[~accepted]
            if not pending.size:
                return out.reshape(rows, count)
            stream += 1
            places = (pending % count + first).astype("uint64")
            own = keys[pending // count]
            words = bits(own, places, shape=(WORDS_PER_PROPOSAL,), bits=64, stream=stream)


# -- the gamma distribution


def random_loggamma(xp: ArrayModule, key: Buffer, a: Buffer) -> Buffer:
    """Returns logarithms of random numbers of the gamma distribution.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM Transactions
    on Mathematical Software 26, 2000; a below 1 by their remark, in logarithms.

    The key has the shape ``(*batch, 2)``, the shape parameter and the result ``(*batch, *shape)``.
    NaN comes back where the shape parameter is not positive and finite.
    """
    a = xp.asarray(a)
    wide = a.astype("float64")
    valid = (wide > 0) & xp.isfinite(wide)
    drawn = _sampled(
        xp, key, [xp.where(valid, wide, 1.0)], partial(_loggamma_proposal, xp), "float64"
    )
    return xp.where(valid, drawn, np.nan).astype(a.dtype)[()]


def _loggamma_proposal(xp: ArrayModule, words: Buffer, a: Buffer) -> tuple[Any, Any]:
    unit = _unit(words)
    normal = xp.sqrt(-2 * xp.log(unit[:, 0])) * xp.cos(2 * pi * unit[:, 1])
    low = a < 1
    d = xp.where(low, a + 2 / 3, a - 1 / 3)
    t = normal / xp.sqrt(9 * d)
    log_v = 3 * xp.log1p(t)
    # 1 - v + log(v) for v = (1 + t)**3.
    bound = normal * normal / 2 + d * (log_v - t * (3 + t * (3 + t)))
    accepted = (t > -1) & (xp.log(unit[:, 2]) < bound)
    value = xp.log(d) + log_v
    return xp.where(low, value + xp.log(unit[:, 3]) / a, value), accepted


# -- counts

# log(n!) for small n, and where Stirling's series takes over.
LOG_FACTORIALS = [lgamma(n + 1.0) for n in range(16)]


def _stirling(xp: ArrayModule, n: Buffer) -> Buffer:
    """Returns log(n!) less Stirling's formula, n log(n) - n + log(2 pi n) / 2, for n > 0."""
    small = xp.clip(n, 1, len(LOG_FACTORIALS) - 1)
    exact = xp.asarray(LOG_FACTORIALS)[small.astype("int64")]
    exact = exact - ((small + 0.5) * xp.log(small) - small + 0.5 * np.log(2 * pi))
    r = 1 / xp.maximum(n, len(LOG_FACTORIALS))
    q = r * r
    series = r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q / 1188))))
    return xp.where(n < len(LOG_FACTORIALS), exact, series)


def _deviance(xp: ArrayModule, k: Buffer, mean: Buffer) -> Buffer:
    """Returns ``k log(k / mean) + mean - k``, without losing digits where k is near the mean."""
    e = (mean - k) / xp.maximum(k, 1)
    return xp.where(k > 0, k * (e - xp.log1p(e)), mean)


def _inverted(
    xp: ArrayModule, unit: Buffer, first: Buffer, ratio: Callable[[int], Any], limit: int
) -> Buffer:
    """Returns the smallest k whose cumulative probability exceeds a uniform number.

    Args:
        xp, unit: the array module and the uniform numbers.
        first: the probability of 0.
        ratio: ``ratio(k)``: the probability of k over that of k - 1.
        limit: the largest k.
    """
    term, total, k = first, first, xp.zeros(unit.shape)
    for number in range(1, limit + 1):
        beyond = unit > total
        if not beyond.any():
            break
        k = xp.where(beyond, float(number), k)
        term = term * ratio(number)
        total = total + term
    return k


# A mean of up to ten is drawn by inversion; beyond this count lies less than 2**-64 of it.
INVERTED_MEAN = 10
INVERTED_LIMIT = 64
LARGEST_COUNT = 2.0**62


def random_poisson(xp: ArrayModule, key: Buffer, rate: Buffer) -> Buffer:
    """Returns random numbers of the Poisson distribution.

    Rates below 10 by inversion; others by transformed rejection (PTRS): W. Hörmann, "The
    transformed rejection method for generating Poisson random variables", Insurance: Mathematics
    and Economics 12, 1993.

    The key has the shape ``(*batch, 2)``, the rate and the result ``(*batch, *shape)``. -1 comes
    back where the rate is negative, above 2**62 or NaN.
    """
    rate = xp.asarray(rate).astype("float64")
    valid = (rate >= 0) & (rate <= LARGEST_COUNT)
    drawn = _sampled(xp, key, [xp.where(valid, rate, 1.0)], partial(_poisson_proposal, xp), "int64")
    return xp.where(valid, drawn, -1)[()]


def _poisson_proposal(xp: ArrayModule, words: Buffer, rate: Buffer) -> tuple[Any, Any]:
    unit = _unit(words)
    u, v = unit[:, 0] - 0.5, unit[:, 1]
    b = 0.931 + 2.53 * xp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    us = 0.5 - xp.abs(u)
    k = xp.floor((2 * a / us + b) * u + rate + 0.43)
    near = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    possible = (k >= 0) & ((us >= 0.013) | (v <= us))
    mass = -_deviance(xp, k, rate) - xp.where(
        k > 0, 0.5 * xp.log(2 * pi * xp.maximum(k, 1)) + _stirling(xp, k), 0.0
    )
    accepted = near | (possible & (xp.log(v * inverse_alpha / (a / (us * us) + b)) <= mass))
    low = rate < INVERTED_MEAN
    if low.any():
        mean = rate[low]
        first = xp.exp(-mean)
        k[low] = _inverted(xp, v[low], first, lambda n: mean / n, INVERTED_LIMIT)
        accepted[low] = True
    return k.astype("int64"), accepted


def random_binomial(xp: ArrayModule, key: Buffer, n: Buffer, p: Buffer) -> Buffer:
    """Returns random numbers of the binomial distribution.

    A mean of successes or of failures below 10 by inversion; others by transformed
    rejection (BTRS): W. Hörmann, "The generation of binomial random variates", Journal of
    Statistical Computation and Simulation 46, 1993.

    The key has the shape ``(*batch, 2)``, the trials n, their probability of success p and the
    result ``(*batch, *shape)``. -1 comes back where n is negative, above 2**62 or NaN, or p is not
    a probability.
    """
    n, p = xp.floor(xp.asarray(n).astype("float64")), xp.asarray(p).astype("float64")
    valid = (n >= 0) & (n <= LARGEST_COUNT) & (p >= 0) & (p <= 1)
    parameters = [xp.where(valid, n, 1.0), xp.where(valid, p, 0.5)]
    drawn = _sampled(xp, key, parameters, partial(_binomial_proposal, xp), "int64")
    return xp.where(valid, drawn, -1)[()]


def _binomial_proposal(xp: ArrayModule, words: Buffer, n: Buffer, p: Buffer) -> tuple[Any, Any]:
    unit = _unit(words)
    mirrored = p > 0.5
    p = xp.where(mirrored, 1 - p, p)
    u, v = unit[:, 0] - 0.5, unit[:, 1]
    deviation = xp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation
    us = 0.5 - xp.abs(u)
    k = xp.floor((2 * a / us + b) * u + n * p + 0.5)
    near = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
    possible = (k >= 0) & (k <= n)
    height = _mass(xp, xp.clip(k, 0, n), n, p) - _mass(xp, xp.floor((n + 1) * p), n, p)
    accepted = near | (possible & (xp.log(v * alpha / (a / (us * us) + b)) <= height))
    low = n * p < INVERTED_MEAN
    if low.any():
        trials, odds = n[low], p[low] / (1 - p[low])
        first = xp.exp(trials * xp.log1p(-p[low]))
        k[low] = _inverted(xp, v[low], first, lambda i: (trials - i + 1) / i * odds, INVERTED_LIMIT)
        accepted[low] = True
    return xp.where(mirrored, n - k, k).astype("int64"), accepted


def _mass(xp: ArrayModule, k: Buffer, n: Buffer, p: Buffer) -> Buffer:
    """Returns the logarithm of the probability of k successes of n, for p up to 1/2.

    Source: C. Loader, "Fast and accurate computation of binomial probabilities", 2000.
    """
    rest = n - k
    inner = (k > 0) & (rest > 0)
    spread = xp.log(n / (2 * pi * xp.maximum(k, 1) * xp.maximum(rest, 1)))
    bulk = (
        _stirling(xp, n) - _stirling(xp, k) - _stirling(xp, rest) + 0.5 * spread
        - _deviance(xp, k, n * p) - _deviance(xp, rest, n * (1 - p))
    )
    return xp.where(inner, bulk, xp.where(k > 0, n * xp.log(p), n * xp.log1p(-p)))
