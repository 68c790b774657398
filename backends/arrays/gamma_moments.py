"""Moments of the gamma distribution's part beyond a point, by quadrature and by series.

Derivatives of gamma random numbers by their shape parameter are made of them. They are positive
integrals of smooth functions, so that nothing cancels.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from ..restoring import quiet

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer

__all__ = ["LARGEST_SERIES_ARGUMENT", "gamma_moment", "moment_nodes"]

# A power series converges up to this x for all shape parameters.
LARGEST_SERIES_ARGUMENT = 1.5
MOST_SERIES_TERMS = 26
MOMENT_NODES = 36
# The integrand is cut off where it has fallen to exp(-CUT).
CUT = 40.0


@cache
def moment_nodes() -> tuple[list[float], list[float]]:
    """Returns the nodes and weights of Gauss and Legendre on the interval [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(MOMENT_NODES)
    return ((places + 1) / 2).tolist(), (weights / 2).tolist()


def gamma_moment(xp: ArrayModule, a: Buffer, y: Buffer, *, n: int) -> Buffer:
    """Returns a moment of the part of the gamma distribution below or above a point.

    With ``x = exp(y)``, it is the integral over s from 0 to infinity of

    * ``s**n exp(-a s + x (1 - exp(-s)))`` for 1.5 < x <= a: the lower part, s = log(x / t);
    * ``s**n exp(a s - x (exp(s) - 1))`` for x > max(a, 1.5): the upper part, s = log(t / x);
    * ``s**n exp(-a s) (exp(-x exp(-s)) - 1)`` for x <= 1.5: the lower part again, without the
      factor exp(x), and less its value at x = 0.

    Args:
        xp: the array module.
        a: the shape parameter, positive.
        y: the logarithm of the point, of any shape that broadcasts.
        n: the moment's number, from 0 up.
    """
    dtype = xp.result_type(a, y)
    a, y = xp.broadcast_arrays(xp.asarray(a, "float64"), xp.asarray(y, "float64"))
    with quiet():
        x = xp.exp(y)
        out = xp.empty(x.shape)
        small = x <= LARGEST_SERIES_ARGUMENT
        out[small] = _series(xp, a[small], x[small], n)
        out[~small] = _quadrature(xp, a[~small], x[~small], n)
    return out.astype(dtype)[()]


def _series(xp: ArrayModule, a: Buffer, x: Buffer, n: int) -> Buffer:
    """Sums ``(-x)**k / k! * n! / (a + k)**(n + 1)`` from k = 1 up."""
    total, term = xp.zeros(x.shape), float(factorial(n)) * xp.ones(x.shape)
    for k in range(1, MOST_SERIES_TERMS):
        term *= x
        term /= -k
        total += term / (a + k) ** (n + 1)
    return total


def _quadrature(xp: ArrayModule, a: Buffer, x: Buffer, n: int) -> Buffer:
    """Integrates either part from 0 to where the integrand has vanished."""
    upper = x > a
    side = xp.where(upper, 1.0, -1.0)
    # The exponent is a s + x (exp(-s) - 1) for the lower part, the same with s negated for the
    # upper one. Its first terms, |a - x| s + x s**2 / 2, say roughly where it reaches CUT, for the
    # upper part with x (exp(s) - 1 - s) > 0.35 x exp(s) for s > 1.26 in mind; it is convex, so
    # that steps of Newton end beyond.
    linear = xp.abs(a - x)
    end = 2 * CUT / (linear + xp.sqrt(linear * linear + 2 * CUT * x))
    end = xp.where(upper, xp.minimum(end, xp.maximum(1.26, xp.log(CUT / (0.35 * x)))), end)
    for _ in range(2):
        value = x * xp.expm1(side * end) - side * a * end - CUT
        end = end - value / (side * (x * xp.exp(side * end) - a))
    total = xp.zeros(x.shape)
    for node, weight in zip(*moment_nodes(), strict=True):
        s = end * node
        term = xp.exp(side * a * s - x * xp.expm1(side * s))
        if n:
            term *= s**n
        term *= weight
        total += term
    return total * end
