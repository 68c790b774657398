"""What the kernels of incomplete gamma and beta functions share: remainders without cancellation.

Sums are arranged so that the leading terms, which cancel, are never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from .extras import scipy_module

__all__ = [
    "DROP",
    "digamma_gap",
    "elements",
    "exp_remainder",
    "integrate",
    "log_remainder",
    "special",
    "stirling_error",
]

# An integrand is followed until it has fallen by this factor's logarithm: 3e-20.
DROP = 45.0
# Nodes of a panel, and elements that are done at a time, so that a block stays in the cache.
NODES = 64
BLOCK = 1024
# Bernoulli numbers over 2k (2k - 1), k from 1, of the series of log gamma: DLMF 5.11.1.
STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)
# Bernoulli numbers over 2k, k from 1, of the series of digamma: DLMF 5.11.2.
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
LARGE = 12.0


def special() -> Any:
    """Returns SciPy's module of special functions."""
    return scipy_module(np, "special")


def elements(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of operands that broadcast from one of flat double-precision arrays.

    The kernel gets as many elements at a time as fit into the cache, with keywords as they are.
    The result has the dtype to which the operands promote; integers become double precision.
    """

    @wraps(kernel)
    def run(*operands: Any, **params: Any) -> Any:
        dtype = np.result_type(*operands)
        if dtype.kind == "c":
            raise TypeError(f"{kernel.__name__} is defined for real numbers only, got {dtype}")
        if dtype.kind != "f":
            dtype = np.dtype(np.float64)
        spread = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in operands))
        flat = [x.reshape(-1) for x in spread]
        out = np.empty(spread[0].shape, np.float64)
        target = out.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, target.size, BLOCK):
                part = slice(start, start + BLOCK)
                target[part] = kernel(*(x[part] for x in flat), **params)
            return out.astype(dtype)[()]

    return run


@cache
def _nodes() -> tuple[Any, Any]:
    """Returns the nodes and weights of Gauss and Legendre on the interval from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    return 0.5 * (places + 1.0), 0.5 * weights


def integrate(integrand: Callable[[Any], Any], length: Any, *, logarithmic: bool) -> Any:
    """Integrates from 0 to a length, for every element at once.

    Args:
        integrand: takes distances, an axis of nodes behind that of the elements.
        length: of every element's interval.
        logarithmic: whether to integrate over ``log(1 + distance)``: for what changes both within
            a distance of 1 and over the whole of a long interval.
    """
    places, weights = _nodes()
    if logarithmic:
        span = np.log1p(length)
        steps = span[:, None] * places
        values = integrand(np.expm1(steps)) * np.exp(steps)
    else:
        span = length
        values = integrand(span[:, None] * places)
    return span * (values @ weights)


def log_remainder(u: Any) -> Any:
    """Returns ``log(1 + u) - u`` without cancellation."""
    # With r = u / (2 + u), log(1 + u) is 2 artanh(r), and u is 2 r / (1 - r).
    near = np.abs(u) < 0.5
    v = np.where(near, u, 0.0)
    r = v / (2.0 + v)
    square = r * r
    total = np.zeros_like(r)
    for k in range(37, 1, -2):
        total = total * square + 1.0 / k
    return np.where(near, r * (2.0 * square * total - v), np.log1p(np.where(near, 0.0, u)) - u)


def exp_remainder(u: Any) -> Any:
    """Returns ``exp(u) - 1 - u`` without cancellation."""
    near = np.abs(u) < 0.5
    v = np.where(near, u, 0.0)
    total = np.ones_like(v)
    for k in range(15, 2, -1):
        total = 1.0 + total * v / k
    return np.where(near, 0.5 * v * v * total, np.expm1(np.where(near, 0.0, u)) - u)


def _descending(z: Any, coefficients: tuple[float, ...]) -> Any:
    """Returns ``c[0] + c[1] / z^2 + c[2] / z^4 + ...``."""
    w = 1.0 / (z * z)
    total = np.zeros_like(w)
    for c in reversed(coefficients):
        total = total * w + c
    return total


def stirling_error(z: Any) -> Any:
    """Returns ``log gamma(z) - ((z - 1/2) log(z) - z + log(2 pi) / 2)`` for z > 0."""
    far = np.maximum(z, LARGE)
    near = np.minimum(z, LARGE)
    direct = special().gammaln(near) - (near - 0.5) * np.log(near) + near
    direct -= 0.5 * math.log(2.0 * math.pi)
    return np.where(z < LARGE, direct, _descending(far, STIRLING) / far)


def digamma_gap(z: Any) -> Any:
    """Returns ``log(z) - digamma(z)`` for z > 0."""
    far = np.maximum(z, LARGE)
    near = np.minimum(z, LARGE)
    direct = np.log(near) - special().psi(near)
    return np.where(z < LARGE, direct, 0.5 / far + _descending(far, DIGAMMA) / (far * far))
