"""Gamma, Poisson and binomial numbers, the same as NumPy's backend draws: one launch each.

A thread proposes for one element until it accepts, so that nothing asks how many are left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Buffer, Shape
from ...arrays.gamma_moments import moment_nodes
from ..annotations import GpuOperand
from ..launch import SMALL_BLOCK_THREADS, Kernel
from .philox import key_words

__all__ = ["REJECTION_FUNCTIONS"]

DOUBLE = np.dtype(np.float64)

SAMPLED = Kernel("rejection", "sampled", "ppllplplll", ("loggamma", "poisson", "binomial"))
MOMENT = Kernel("rejection", "moment", "pplplllt")


def random_loggamma(key: ndarray | Buffer, a: GpuOperand) -> ndarray:
    """Returns logarithms of gamma numbers: see ``backends/arrays/rejection.py``."""
    a = cupy.asarray(a)
    return _drawn("loggamma", np.float64, key, a).astype(a.dtype, copy=False)


def random_poisson(key: ndarray | Buffer, rate: GpuOperand) -> ndarray:
    """Returns Poisson numbers: see ``backends/arrays/rejection.py``."""
    return _drawn("poisson", np.int64, key, cupy.asarray(rate))


def random_binomial(key: ndarray | Buffer, n: GpuOperand, p: GpuOperand) -> ndarray:
    """Returns binomial numbers: see ``backends/arrays/rejection.py``."""
    return _drawn("binomial", np.int64, key, cupy.asarray(n), cupy.asarray(p))


def _drawn(law: str, dtype: type, key: ndarray | Buffer, *parameters: ndarray) -> ndarray:
    """Returns the first accepted proposal of a law for every element."""
    shape = parameters[0].shape
    out = cupy.ndarray(shape, dtype)
    if out.size:
        rows = prod(key.shape[:-1])
        keys, low, high = key_words(key, 2)
        x, x_step = _read(parameters[0], shape)
        y, y_step = _read(parameters[1], shape) if len(parameters) > 1 else (0, 0)
        SAMPLED(
            law, -(-out.size // SMALL_BLOCK_THREADS), SMALL_BLOCK_THREADS, out, keys, low, high,
            x, x_step, y, y_step, rows, out.size // rows,
        )  # fmt: skip
    return out


def gamma_moment(a: GpuOperand, y: GpuOperand, *, n: int) -> ndarray:
    """Returns a moment of a part of the gamma distribution, as ``arrays/gamma_moments.py`` does."""
    dtype = cupy.result_type(a, y)
    a, y = cupy.asarray(a), cupy.asarray(y)
    shape = np.broadcast_shapes(a.shape, y.shape)
    out = cupy.ndarray(shape, DOUBLE)
    if out.size:
        MOMENT(
            "", -(-out.size // SMALL_BLOCK_THREADS), SMALL_BLOCK_THREADS, out, *_read(a, shape),
            *_read(y, shape), out.size, n, _quadrature_table(),
        )  # fmt: skip
    return out.astype(dtype, copy=False)


@cache
def _quadrature_table() -> Buffer:
    """Returns the nodes and weights of the quadrature as the kernel takes them."""
    numbers = np.array(moment_nodes()).reshape(-1)
    return numbers.view(f"V{numbers.nbytes}")


def _read(x: ndarray, shape: Shape) -> tuple[ndarray, int]:
    """Returns an array, which broadcasts to a shape, as a kernel reads it.

    That is contiguous doubles or the only one of them, and how far apart they are: 1 or 0.
    """
    if not any(step for step, length in zip(x.strides, x.shape, strict=True) if length > 1):
        # One number, repeated or not.
        return (x if x.dtype == DOUBLE else x[(0,) * x.ndim].astype(DOUBLE)), 0
    if x.shape != shape:
        x = cupy.broadcast_to(x, shape)
    if x.dtype != DOUBLE:
        return x.astype(DOUBLE, order="C"), 1
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x), 1


REJECTION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "gamma_moment": gamma_moment,
    "random_binomial": random_binomial,
    "random_loggamma": random_loggamma,
    "random_poisson": random_poisson,
}
