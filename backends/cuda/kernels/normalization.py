"""Layer norm and RMS norm, for CuPy's buffers: one launch forward, two backward.

In the backward pass, every block works through many rows and adds up its share of the weight's and
the bias's cotangents in registers; a second launch adds up the blocks' shares, always in the same
order. Rows that are too long for that take a third launch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ...dtypes import result_type
from ..launch import BLOCK_THREADS, C_FLOATS, WIDEST_LOAD_BYTES, Kernel, c_type
from ..row_layout import ROW_INSTANCES, geometry, inexact, limit, row_strides, wide, width

__all__ = ["NORMALIZATION_FUNCTIONS"]

NORMALIZE_FORWARD = Kernel("normalization", "forward", "ppppllllllllldl", ROW_INSTANCES)
NORMALIZE_BACKWARD = Kernel(
    "normalization", "backward", "pppppllllllllldl",
    tuple(f"{f}, {affine}" for f in ROW_INSTANCES for affine in ("true", "false")),
)
BACKWARD_LONG = Kernel(
    "normalization", "backward_long", "pppppllllllllldl", tuple(C_FLOATS.values())
)
TOTALS_OF_LONG = Kernel(
    "normalization", "totals_of_long", "pppplllllllll", tuple(C_FLOATS.values())
)
FINISH = Kernel("normalization", "finish", "pplllll", tuple(C_FLOATS.values()))
# The longest rows that the threads of a block keep in registers, by the accumulator's size.
LONGEST_HELD_ROW = {4: 8192, 8: 4096}
# Columns whose totals a block adds up, and how many of its warps share them.
TOTALS_TILE_COLUMNS, TOTALS_WARPS = 32, 32
# Threads of a processor that work on rows of their blocks at the same time.
RESIDENT_THREADS = 512


def group_sizes(x: ndarray, weight: ndarray) -> tuple[int, int]:
    """Returns the number of groups of rows that share a weight, and of rows in each."""
    groups = weight.ndim - 1
    return prod(x.shape[:groups]), prod(x.shape[groups:-1])


def by_group(weight: ndarray, dtype: DType) -> tuple[ndarray, int]:
    """Returns weights in a dtype, and the step from group to group."""
    if weight.dtype != dtype:
        weight = weight.astype(dtype)
    weight, between, within = row_strides(weight, 1)
    if within != 1 and weight.shape[-1] > 1:
        weight, between = cupy.ascontiguousarray(weight), weight.shape[-1]
    return weight, between


def weights_aligned(weight: ndarray, between: int) -> bool:
    """Says whether the weights of every group begin where a row in a new array would."""
    return bool(
        weight.data.ptr % WIDEST_LOAD_BYTES == 0
        and between * weight.itemsize % WIDEST_LOAD_BYTES == 0
    )


def launch_forward(
    x: ndarray, affine: list[ndarray], eps: float, center: bool, dtype: DType
) -> ndarray:
    """Launches the one kernel."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    out = cupy.empty(x.shape, dtype)
    if out.size == 0:
        return out
    length = x.shape[-1]
    count = out.size // length
    x, row, stride = row_strides(x, 1)
    weights = [by_group(v, dtype) for v in affine]
    share = group_sizes(x, affine[0])[1] if affine else 1
    # Weights are read at the same places of packs as rows.
    whole = not affine or length * dtype.itemsize % WIDEST_LOAD_BYTES == 0
    packed = whole and wide(x, row, stride, length) and all(starmap(weights_aligned, weights))
    types, n = width(dtype, packed)
    grid, block, single = geometry(dtype, count, length, n)
    (weight, weight_step), (bias, bias_step) = [*weights, (x, 0), (x, 0)][:2]
    NORMALIZE_FORWARD(
        types, grid, block, x, weight, bias, out, count, length, row, stride, share,
        weight_step, bias_step, len(affine), int(center), float(eps), single,
    )  # fmt: skip
    return out


def launch_backward(
    g: ndarray, x: ndarray, weight: ndarray, eps: float, center: bool, totals: int, dtype: DType
) -> ndarray:
    """Launches the kernels for the cotangents of rows and, if asked for, of their weights."""
    x, g = (v if v.dtype == dtype else v.astype(dtype) for v in (x, g))
    length = x.shape[-1]
    groups, rows = group_sizes(x, weight) if totals else (1, prod(x.shape[:-1]))
    out = cupy.empty((groups, rows + totals, length), dtype)
    if out.size == 0:
        return out
    x, x_row, x_stride = row_strides(x, 1)
    g, g_row, g_stride = row_strides(g, 1)
    weight, weight_step = by_group(weight, dtype) if totals else (x, 0)
    size = 8 if dtype.char == "d" else 4
    accumulators = np.dtype(f"f{size}")
    if length > LONGEST_HELD_ROW[size]:
        parts = launch_long_rows(
            g, x, weight, out, (g_row, g_stride, x_row, x_stride), weight_step,
            (groups, rows, length, totals), accumulators, eps, center,
        )  # fmt: skip
    else:
        packed = (
            length * dtype.itemsize % WIDEST_LOAD_BYTES == 0
            and wide(x, x_row, x_stride, length)
            and wide(g, g_row, g_stride, length)
            and (not totals or weights_aligned(weight, weight_step))
        )
        types, _ = width(dtype, packed)
        threads = max(32, 1 << (-(-length * size // 64) - 1).bit_length())
        processors = limit("processors", x.data.device_id)
        most = max(1, processors * (RESIDENT_THREADS // threads) // groups)
        # As few blocks as take no longer: rows that are left over would be a round of their own.
        each = -(-rows // -(-rows // most)) if rows else 1
        # Without weights these have no elements, and are not touched.
        parts = cupy.empty((groups * each, totals, length), accumulators)
        NORMALIZE_BACKWARD(
            f"{types}, {'true' if totals else 'false'}", groups * each, threads,
            g, x, weight, out, parts, rows, length, g_row, g_stride,
            x_row, x_stride, weight_step, totals, int(center), float(eps), each,
            shared=2 * length * dtype.itemsize if packed else 0,
        )  # fmt: skip
    if totals:
        tiles = -(-length // TOTALS_TILE_COLUMNS)
        FINISH(
            c_type(dtype), groups * totals * tiles, TOTALS_WARPS * TOTALS_TILE_COLUMNS,
            parts, out, rows, length, totals, tiles, parts.shape[0] // groups,
        )  # fmt: skip
    return out


def launch_long_rows(
    g: ndarray, x: ndarray, weight: ndarray, out: ndarray, steps: tuple[int, ...],
    weight_step: int, sizes: tuple[int, ...], accumulators: DType, eps: float, center: bool,
) -> ndarray:
    """Does rows that are too long for registers; returns the blocks' shares of the totals."""
    groups, rows, length, totals = sizes
    name = c_type(x.dtype)
    kept = cupy.empty((groups * rows if totals else 0, 2), accumulators)
    if rows:
        BACKWARD_LONG(
            name, groups * rows, 1024, g, x, weight, out, kept, rows, length, *steps, weight_step,
            totals, int(center), float(eps), int(totals > 0),
        )  # fmt: skip
    if not totals:
        return None
    tiles = -(-length // BLOCK_THREADS)
    processors = limit("processors", x.data.device_id)
    each = max(1, min(rows, 8 * processors // (groups * tiles)))
    parts = cupy.empty((groups * each, totals, length), accumulators)
    TOTALS_OF_LONG(
        name, groups * each * tiles, BLOCK_THREADS, g, x, kept, parts, rows, length, *steps,
        totals, tiles, each,
    )  # fmt: skip
    return parts


def normalize(x: ndarray, *, eps: float, center: bool) -> ndarray:
    """Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis."""
    x = inexact(x)
    return launch_forward(x, [], eps, center, x.dtype)


def normalize_grad(g: ndarray, x: ndarray, *, eps: float, center: bool) -> ndarray:
    """Returns the derivative of ``normalize`` at x in the direction g."""
    x = inexact(x)
    return launch_backward(cupy.asarray(g), x, x, eps, center, 0, x.dtype).reshape(x.shape)


def affine_normalize(
    x: ndarray, weight: ndarray, *bias: ndarray, eps: float, center: bool
) -> ndarray:
    """Returns ``normalize(x) * weight + bias``."""
    x = inexact(x)
    affine = [cupy.asarray(v) for v in (weight, *bias)]
    return launch_forward(x, affine, eps, center, result_type(x.dtype, *(v.dtype for v in affine)))


def affine_normalize_grad(
    g: ndarray, x: ndarray, weight: ndarray, *, eps: float, center: bool, bias: bool
) -> ndarray:
    """Returns the cotangents of x's rows, and behind them those of the weight and the bias."""
    x = inexact(x)
    dtype = result_type(x.dtype, weight.dtype)
    out = launch_backward(cupy.asarray(g), x, weight, eps, center, 1 + bias, dtype)
    return out.reshape(*weight.shape[:-1], *out.shape[1:])


NORMALIZATION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "affine_normalize": affine_normalize,
    "affine_normalize_grad": affine_normalize_grad,
    "normalize": normalize,
    "normalize_grad": normalize_grad,
}
