"""Special functions that CuPy's module for SciPy lacks, or lacks for some arguments.

They are made of CuPy's functions, but for the complex ones of ``special.cu``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import ArrayModule, Buffer
from ...arrays import special_gamma
from ...arrays.special_beta import betaincc
from ...arrays.special_error import log_ndtr_grad
from ...arrays.special_remainders import (
    DROP,
    as_arrays,
    elementwise_in_doubles,
    integrate,
    loop_dtype,
    special,
)
from ...dtypes import result_type
from ..annotations import GpuOperand
from ..launch import SMALL_BLOCK_THREADS, Kernel
from . import remainders as remainders  # which enters its kernels

__all__ = ["SPECIAL_FUNCTIONS"]

NDTRI_NEWTON_STEPS = 4
# Below this exp(y) has lost digits or vanished.
VANISHING_LOGARITHM = -600.0
# B(k) / (k + 1)! of Bernoulli numbers, k even from 2 up: the dilogarithm's series in u, where
# Li2(1 - exp(-u)) is u - u^2 / 4 + u times the sum of these times u^k; L. Lewin, "Polylogarithms
# and associated functions" (1981).
DILOGARITHM = (
    1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760, -691 / 16999766784000,
    1 / 1120863744000, -3617 / 181400588328960000, 43867 / 97072790126247936000,
)


def from_elements(kernel: Callable[..., Buffer]) -> Callable[..., ndarray]:
    """Returns a kernel of double-precision elements, named as SciPy's, as a function of buffers."""
    run = elementwise_in_doubles(kernel)

    def compute(*operands: GpuOperand) -> ndarray:
        return run(cupy, *as_arrays(cupy, loop_dtype(kernel.__name__, *operands), *operands))

    return compute


def erfi(xp: ArrayModule, x: ndarray) -> ndarray:
    """Returns ``2 / sqrt(pi)`` times the integral of ``exp(t^2)`` from 0 to x."""
    # With t = z - s the integrand is exp(z^2) exp(-s (2 z - s)), which falls from s = 0 on.
    z = xp.minimum(xp.abs(x), 30.0)
    length = xp.where(z * z > DROP, DROP / (z + xp.sqrt(xp.maximum(z * z - DROP, 0.0))), z)

    def integrand(s: ndarray) -> ndarray:
        return xp.exp(-s * (2.0 * z[:, None] - s))

    area = integrate(xp, integrand, length, logarithmic=False)
    # z^2 loses digits; a part of z whose square is exact does not.
    head = xp.rint(z * 16.0) * 0.0625
    growth = xp.exp(head * head) * xp.exp((z - head) * (z + head))
    out = xp.copysign(2.0 / math.sqrt(math.pi) * growth * area, x)
    return xp.where(xp.isnan(x), x, out)


def spence(xp: ArrayModule, x: ndarray) -> ndarray:
    """Returns the dilogarithm of 1 - x."""
    # Above 2 and below 1/2 by the functional equations, DLMF 25.12.4 and 25.12.6.
    above = x > 2.0
    w = xp.where(above, 1.0 / x, x)
    below = w < 0.5
    t = xp.where(below, 1.0 - w, w)
    u = -xp.log(t)
    square = u * u
    total = xp.zeros_like(u)
    for c in reversed(DILOGARITHM):
        total = (total + c) * square
    out = u * (1.0 - 0.25 * u + total)
    logarithm = xp.log(w)
    cross = xp.where(w == 0, 0.0, logarithm * xp.log1p(-xp.where(below, w, 0.0)))
    out = xp.where(below, math.pi**2 / 6.0 - cross - out, out)
    out = xp.where(above, -0.5 * logarithm * logarithm - out, out)
    return xp.where(x >= 0, out, xp.nan)


def ndtri_exp(xp: ArrayModule, y: ndarray) -> ndarray:
    """Returns that x for which the normal distribution's integral up to x is exp(y)."""
    functions = special(xp)
    upper = -functions.ndtri(-xp.expm1(y))
    far = y < VANISHING_LOGARITHM
    z = xp.minimum(y, VANISHING_LOGARITHM)
    start = -xp.sqrt(-2.0 * z - math.log(2.0 * math.pi) - xp.log(-2.0 * z))
    x = xp.where(far, start, functions.ndtri(xp.exp(xp.maximum(y, VANISHING_LOGARITHM))))
    # The logarithm is concave, so that steps come up from the left.
    for _ in range(NDTRI_NEWTON_STEPS):
        x = x - (functions.log_ndtr(x) - y) / log_ndtr_grad(xp, x)
    x = xp.where(xp.isneginf(y), y, x)
    return xp.where(y > -1.0, upper, x)


def riemann_zeta(x: GpuOperand) -> ndarray:
    """Returns Riemann's zeta function."""
    dtype = loop_dtype("zeta", x)
    (wide,) = as_arrays(cupy, dtype, x)
    return special(cupy).zetac(wide) + dtype.type(1)


complex_polygamma = Kernel("special", "complex_polygamma", "pppl")


def polygamma(n: GpuOperand, x: GpuOperand) -> ndarray:
    """Returns the n-th derivative of digamma."""
    dtype = result_type(n, x)
    if dtype.kind != "c":
        return special_gamma.polygamma(cupy, n, x)
    spread = cupy.broadcast_arrays(*as_arrays(cupy, np.complex128, n, x))
    orders = cupy.ascontiguousarray(spread[0].real)
    places = cupy.ascontiguousarray(spread[1])
    out = cupy.empty(spread[1].shape, np.complex128)
    if out.size:
        blocks = -(-out.size // SMALL_BLOCK_THREADS)
        complex_polygamma("", blocks, SMALL_BLOCK_THREADS, orders, places, out, out.size)
    return cupy.where(orders == 0, special(cupy).psi(places), out).reshape(out.shape).astype(dtype)


def incomplete_beta(a: GpuOperand, b: GpuOperand, x: GpuOperand) -> ndarray:
    """Returns 1 minus the regularised incomplete beta function."""
    return betaincc(cupy, *as_arrays(cupy, loop_dtype("betaincc", a, b, x), a, b, x))


SPECIAL_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "betaincc": incomplete_beta,
    "erfi": from_elements(erfi),
    "ndtri_exp": from_elements(ndtri_exp),
    "polygamma": polygamma,
    "riemann_zeta": riemann_zeta,
    "spence": from_elements(spence),
}
