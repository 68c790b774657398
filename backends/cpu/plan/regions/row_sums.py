"""Sums of a block, along its rows, its columns or both.

BLAS adds up many times as fast as NumPy's reductions do. It is called by ``numpy.dot``, which lets
other threads run meanwhile, as ``numpy.matmul`` does not; and only where regions keep it to the
thread that calls it. Each of the lanes of its registers adds up at most ``LONGEST_BLAS_RUN`` terms
one after the other, which bounds the rounding error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_calls import dot
from ....blas_threads import controlled
from ...reductions import LONGEST_BLAS_RUN, ones, softmax

if TYPE_CHECKING:
    from ....annotations import Axes, Buffer

__all__ = [
    "column_product",
    "column_sum",
    "row_dot",
    "row_product",
    "row_reduction",
    "row_softmax",
    "row_sum",
    "total_dot",
    "total_sum",
]

# The elements of a piece of a vector that BLAS multiplies at once.
PIECE_ELEMENTS = 16384

add: Any = np.add.reduce


def row_sum(x: Buffer, axes: Axes) -> Any:
    """Returns the sums over axes, which stay with length 1."""
    length = x.shape[-1]
    if (
        axes == (x.ndim - 1,)
        and length <= LONGEST_BLAS_RUN
        and x.dtype.char in "fd"
        and x.flags.c_contiguous
        and controlled() is not None
    ):
        sums = np.dot(x.reshape(-1, length), ones(length, x.dtype))
        return sums.reshape(*x.shape[:-1], 1)
    return add(x, axes, None, None, True)


def row_reduction(ufunc: Any, x: Buffer, axes: Axes) -> Any:
    """Returns rows reduced by a ufunc, in their dtype; the axes stay with length 1."""
    return ufunc.reduce(x, axes, x.dtype, None, True)


def row_dot(x: Buffer, y: Buffer) -> Any:
    """Returns the sums of products over the last axis, which stays with length 1."""
    if x.shape[-1] > PIECE_ELEMENTS or controlled() is None:
        return add(np.multiply(x, y), (x.ndim - 1,), None, None, True)
    return np.vecdot(x, y)[..., None]


def row_product(x: Buffer, y: Buffer) -> Any:
    """Returns the products of rows (rows, k, 1, ...) with a vector (1, k, 1, ...)."""
    return dot(x.reshape(len(x), -1), y.reshape(-1)).reshape(-1, *(1,) * (x.ndim - 1))


def column_sum(x: Buffer, axes: Axes) -> Any:
    """Returns the sums over axes, the first of which is the axis of blocks."""
    if axes == (0,) and x.ndim == 2 and x.flags.c_contiguous and controlled() is not None:
        return _rows_by(ones(len(x), x.dtype), x)
    return add(x, axes)


def column_product(x: Buffer, y: Buffer) -> Any:
    """Returns the sum of rows of y (rows, k, 1, ...), each times a number of x (rows, 1, ...)."""
    return _rows_by(np.ascontiguousarray(x.reshape(-1)), y.reshape(len(y), -1))


def _rows_by(weights: Buffer, x: Buffer) -> Any:
    """Returns the weighted sum of rows, in runs."""
    if len(x) <= LONGEST_BLAS_RUN:
        return dot(weights, x)
    parts = [
        dot(weights[start : start + LONGEST_BLAS_RUN], x[start : start + LONGEST_BLAS_RUN])
        for start in range(0, len(x), LONGEST_BLAS_RUN)
    ]
    return add(np.stack(parts), 0)


def total_sum(x: Buffer) -> Any:
    """Returns the sum of all elements."""
    return add(x, None)


def total_dot(x: Buffer, y: Buffer) -> Any:
    """Returns the sum of all products."""
    x, y = x.reshape(-1), y.reshape(-1)
    if controlled() is None:
        return add(np.multiply(x, y))
    whole = x.size - x.size % PIECE_ELEMENTS
    rest = np.dot(x[whole:], y[whole:])
    if not whole:
        return rest
    return (
        add(np.vecdot(x[:whole].reshape(-1, PIECE_ELEMENTS), y[:whole].reshape(-1, PIECE_ELEMENTS)))
        + rest
    )


def row_softmax(x: Buffer, out: Buffer) -> None:
    """Puts the softmax of rows into another array."""
    limit = np.finfo(x.dtype)
    if x.max() <= 0.5 * np.log(limit.max):
        # ``exp`` does not overflow, and no row vanishes below. So no maximum is needed.
        np.exp(x, out)
        sums = row_sum(out, (out.ndim - 1,))
        if sums.min() >= np.sqrt(limit.tiny):
            np.divide(out, sums, out)
            return
    np.copyto(out, softmax(x, axis=(x.ndim - 1,)))
