"""Derivatives of incomplete gamma and beta functions by their parameters, each in one launch."""

from __future__ import annotations

from collections.abc import Callable

import cupy
import numpy as np
from cupy import ndarray

from ...arrays import special_beta, special_gamma
from ...arrays.special_remainders import as_arrays, dtype_of_reals, panel_nodes
from ..annotations import GpuOperand
from ..launch import Kernel

__all__ = ["INCOMPLETE_FUNCTIONS"]

INCOMPLETE_BLOCK_THREADS = 64
# Kernels compute derivatives up to this order; higher ones are made of CuPy's operations.
HIGHEST_KERNEL_ORDER = 6

INCOMPLETE_KERNELS = {
    "gammainc_grad": Kernel("incomplete", "gamma_grads", "pppppl", ("1", "2", "6")),
    "betainc_grad": Kernel("incomplete", "beta_grads", "ppppppl", ("1, 0", "0, 1", "2, 1", "3, 3")),
}


def launched(name: str, orders: str, *operands: GpuOperand) -> ndarray:
    """Returns derivatives of orders, computed by a kernel in double precision."""
    dtype = dtype_of_reals(name, *operands)
    spread = cupy.broadcast_arrays(*as_arrays(cupy, np.float64, *operands))
    out = cupy.empty(spread[0].shape, np.float64)
    if out.size:
        blocks = -(-out.size // INCOMPLETE_BLOCK_THREADS)
        places, weights = panel_nodes(f"cuda:{out.data.device_id}")
        arrays = map(cupy.ascontiguousarray, spread)
        INCOMPLETE_KERNELS[name](
            orders, blocks, INCOMPLETE_BLOCK_THREADS, *arrays, out, places, weights, out.size
        )
    return out.astype(dtype, copy=False)


def gammainc_grad(a: GpuOperand, x: GpuOperand, *, order: int) -> ndarray:
    """Returns the derivative of P(a, x) by a, of an order from 1 up."""
    if order > HIGHEST_KERNEL_ORDER:
        return special_gamma.gammainc_grad(cupy, a, x, order=order)
    return launched("gammainc_grad", f"{order}", a, x)


def betainc_grad(a: GpuOperand, b: GpuOperand, x: GpuOperand, *, by_a: int, by_b: int) -> ndarray:
    """Returns a derivative of I_x(a, b) by a and b, of orders of which one is not 0."""
    if by_a + by_b > HIGHEST_KERNEL_ORDER:
        return special_beta.betainc_grad(cupy, a, b, x, by_a=by_a, by_b=by_b)
    return launched("betainc_grad", f"{by_a}, {by_b}", a, b, x)


INCOMPLETE_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "betainc_grad": betainc_grad,
    "gammainc_grad": gammainc_grad,
}
