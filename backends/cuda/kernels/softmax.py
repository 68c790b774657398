"""Softmax over axes, for CuPy's buffers: one launch, which reads rows of usual length once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...dtypes import result_type
from ..launch import BLOCK_THREADS, C_FLOATS, Kernel, c_type
from ..row_layout import ROW_INSTANCES, geometry, inexact, row_strides, shared_out, wide, width

__all__ = ["SOFTMAX_FUNCTIONS"]

OPERATIONS = ("SOFTMAX", "LOG_SOFTMAX", "LOGSUMEXP")
SOFTMAX_ROWS = Kernel(
    "softmax", "rows", "pplllll", tuple(f"{f}, {op}" for f in ROW_INSTANCES for op in OPERATIONS)
)
SOFTMAX_COLUMNS = Kernel(
    "softmax", "columns", "pplll",
    tuple(f"{t}, {op}" for t in C_FLOATS.values() for op in OPERATIONS),
)
# Lanes of a warp that have a row between them, and the packs of each.
SHARES = ("1, 1", "4, 1", "4, 4", "32, 4")
SHORT_ROW_TYPES = (
    *(f"float, 4, {share}, SOFTMAX" for share in (*SHARES, "32, 8")),
    *(f"{f}, 32, 4, {op}" for f in ROW_INSTANCES for op in OPERATIONS if f != "float, 4"),
    "float, 1, 32, 32, SOFTMAX", "double, 2, 32, 8, LOG_SOFTMAX", "double, 1, 32, 16, LOG_SOFTMAX",
)  # fmt: skip
GRAD_SHORT_ROW_TYPES = (
    *(f"float, 4, {share}" for share in SHARES), *(f"{f}, 4, 2" for f in ROW_INSTANCES),
)  # fmt: skip
SHORT_ROWS = Kernel("softmax", "short_rows", "ppllll", SHORT_ROW_TYPES)
GRAD_SHORT_ROWS = Kernel("softmax", "grad_short_rows", "pppllllll", GRAD_SHORT_ROW_TYPES)
GRAD_ROWS = Kernel("softmax", "grad_rows", "ppplllllll", ROW_INSTANCES)
GRAD_COLUMNS = Kernel("softmax", "grad_columns", "ppplll", tuple(C_FLOATS.values()))
# The neighbours on the last axis that a block computes, and the threads of a block of short rows.
SOFTMAX_TILE_COLUMNS = 32
SHORT_ROW_BLOCK_THREADS = 128
# Bytes of a row's values, as they are computed with, that a lane keeps; of two rows' values each.
KEPT_LANE_BYTES, KEPT_LANE_BYTES_OF_TWO = 128, 64
# Rows of so many elements, if they are few, need more blocks than one for each.
SHORTEST_SPLIT_ROW = 1 << 18
FEWEST_UNSPLIT_ROWS = 64


def arrangement(x: ndarray, axis: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Returns the lengths of the axes before, of, and after a run of axes; None if they are none.

    The last is 1 where the axes come last, for which an array need not be contiguous.
    """
    shape = x.shape
    if not axis:
        return x.size, 1, 1
    first, last = axis[0], axis[-1] + 1
    if last - first != len(axis):
        return None
    after = prod(shape[last:])
    if after > 1 and not x.flags.c_contiguous:
        return None
    return prod(shape[:first]), prod(shape[first:last]), after


def turned(axis: tuple[int, ...], rank: int) -> tuple[list[int], list[int]]:
    """Returns the order of axes that brings those to be reduced to the end, and the way back."""
    order = [i for i in range(rank) if i not in axis] + list(axis)
    return order, sorted(range(rank), key=order.__getitem__)


def softmax_over_axes(operation: int, x: ndarray, axis: tuple[int, ...]) -> ndarray:
    """Computes one of the operations; the axes that ``logsumexp`` reduces are left out."""
    x = inexact(x)
    rank = x.ndim
    found = arrangement(x, axis)
    if found is None:
        order, back = turned(axis, rank)
        x = cupy.ascontiguousarray(x.transpose(order))
        out = softmax_over_axes(operation, x, tuple(range(rank - len(axis), rank)))
        return out if operation == 2 else out.transpose(back)
    before, length, after = found
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axis) if operation == 2 else x.shape
    if before * after < FEWEST_UNSPLIT_ROWS and length >= SHORTEST_SPLIT_ROW:
        return softmax_by_cupy(operation, x, axis)
    out = cupy.empty(kept, x.dtype)
    if out.size == 0:
        return out
    name = OPERATIONS[operation]
    if after > 1:
        tiles = -(-after // SOFTMAX_TILE_COLUMNS)
        types = f"{c_type(x.dtype)}, {name}"
        SOFTMAX_COLUMNS(types, before * tiles, BLOCK_THREADS, x, out, length, after, tiles)
        return out
    x, row, stride = row_strides(x, rank - axis[0] if axis else 0)
    types, n = width(x.dtype, wide(x, row, stride, length))
    share = shared_out(length, n, KEPT_LANE_BYTES // (n * max(x.dtype.itemsize, 4)))
    if share is not None:
        lanes, items = share
        types = f"{types}, {lanes}, {items}, {name}"
        grid = -(-before * lanes // SHORT_ROW_BLOCK_THREADS)
        SHORT_ROWS(types, grid, SHORT_ROW_BLOCK_THREADS, x, out, before, length, row, stride)
        return out
    grid, block, single = geometry(x.dtype, before, length, n)
    SOFTMAX_ROWS(f"{types}, {name}", grid, block, x, out, before, length, row, stride, single)
    return out


def softmax_by_cupy(operation: int, x: ndarray, axis: tuple[int, ...]) -> ndarray:
    """Does the same with the array module's functions, which split long rows among blocks."""
    dtype = x.dtype
    if dtype.itemsize == 2:
        x = x.astype(np.float32)
    top = x.max(axis=axis, keepdims=True)
    infinite = top == np.inf
    x = cupy.where(infinite & ~cupy.isnan(x), cupy.where(x == np.inf, 0, -np.inf), x)
    shift = cupy.where(cupy.isinf(top), 0, top)
    x = (x - shift).astype(x.dtype, copy=False)
    powers = cupy.exp(x)
    sums = powers.sum(axis=axis, keepdims=True)
    if operation == 0:
        out = powers / sums
    elif operation == 1:
        out = x - cupy.log(sums)
    else:
        out = cupy.where(infinite & ~cupy.isnan(sums), top, cupy.log(sums) + shift)
        out = out.reshape([n for i, n in enumerate(x.shape) if i not in axis])
    return out.astype(dtype, copy=False)


def softmax(x: ndarray, *, axis: tuple[int, ...]) -> ndarray:
    """Returns ``exp(x)`` over its sum along axes."""
    return softmax_over_axes(0, x, axis)


def log_softmax(x: ndarray, *, axis: tuple[int, ...]) -> ndarray:
    """Returns ``x - logsumexp(x)``."""
    return softmax_over_axes(1, x, axis)


def logsumexp(x: ndarray, *, axis: tuple[int, ...], keepdims: bool) -> ndarray:
    """Returns the logarithm of the sum of ``exp(x)``."""
    out = softmax_over_axes(2, x, axis)
    if keepdims:
        out = out.reshape(tuple([1 if i in axis else n for i, n in enumerate(x.shape)]))
    return out


def softmax_grad(g: ndarray, ans: ndarray, *, axis: tuple[int, ...]) -> ndarray:
    """Returns ``ans * (g - sum(g * ans))``."""
    g, y = cupy.asarray(g), cupy.asarray(ans)
    dtype = result_type(g.dtype, y.dtype)
    if g.shape != y.shape:
        g, y = cupy.broadcast_arrays(g, y)
    g, y = inexact(g.astype(dtype, copy=False)), inexact(y.astype(dtype, copy=False))
    rank = y.ndim
    found, other = arrangement(y, axis), arrangement(g, axis)
    if found is None or other is None:
        order, back = turned(axis, rank)
        g, y = (cupy.ascontiguousarray(v.transpose(order)) for v in (g, y))
        return softmax_grad(g, y, axis=tuple(range(rank - len(axis), rank))).transpose(back)
    before, length, after = found
    if before * after < FEWEST_UNSPLIT_ROWS and length >= SHORTEST_SPLIT_ROW:
        out = g * y
        return y * (g - out.sum(axis=axis, keepdims=True))
    out = cupy.empty(y.shape, y.dtype)
    if out.size == 0:
        return out
    if after > 1:
        tiles = -(-after // SOFTMAX_TILE_COLUMNS)
        grid = before * tiles
        GRAD_COLUMNS(c_type(y.dtype), grid, BLOCK_THREADS, g, y, out, length, after, tiles)
        return out
    axes = rank - axis[0] if axis else 0
    g, g_row, g_stride = row_strides(g, axes)
    y, y_row, y_stride = row_strides(y, axes)
    steps = g_row, g_stride, y_row, y_stride
    packed = wide(g, g_row, g_stride, length) and wide(y, y_row, y_stride, length)
    types, n = width(y.dtype, packed)
    share = shared_out(length, n, KEPT_LANE_BYTES_OF_TWO // (n * max(y.dtype.itemsize, 4)))
    if share is not None:
        lanes, items = share
        types = f"{types}, {lanes}, {items}"
        grid = -(-before * lanes // SHORT_ROW_BLOCK_THREADS)
        GRAD_SHORT_ROWS(types, grid, SHORT_ROW_BLOCK_THREADS, g, y, out, before, length, *steps)
        return out
    grid, block, single = geometry(y.dtype, before, length, n)
    GRAD_ROWS(types, grid, block, g, y, out, before, length, *steps, single)
    return out


SOFTMAX_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "softmax_grad": softmax_grad,
}
