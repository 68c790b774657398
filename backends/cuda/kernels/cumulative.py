"""Running sums, products and linear recurrences along an axis, in one or two launches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, DTypeLike
from ...arrays.cumulative import cumprod as plain_cumprod
from ...arrays.cumulative import cumsum as plain_cumsum
from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel, c_type
from ..strides import common_stride

__all__ = ["CUMULATIVE_FUNCTIONS"]

# A thread for each line is the fastest way where two of these hold: lines lie beside each other,
# are many, are short.
FEWEST_LINES_BESIDE = 32
FEWEST_LINES_FOR_THREADS = 8192
LONGEST_THREAD_LINE = 32
# Fewer lines than these leave most of a GPU idle if they are not cut into chunks.
FEWEST_UNCUT_LINES = 256
MOST_CHUNKS = 256
# The dtypes that kernels compute with as they are.
SCANNED_DTYPES = frozenset(
    {
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int32", "int64",
        "uint32", "uint64",
    }
)  # fmt: skip


# Operations, elements, and how many of these 16 bytes hold.
SCANS = {
    "running_sum, float": 4, "running_sum, half_t": 8, "running_sum, bfloat16_t": 8,
    "running_sum, double": 2, "running_sum, long long": 2, "running_product, float": 4,
    "running_product, complex_t<double>": 1, "recurrence, float": 4,
    "recurrence, complex_t<float>": 2,
}  # fmt: skip
SCAN_TYPES = tuple(
    f"{types}, {items}, {totals}" for totals in ("false", "true") for types, items in SCANS.items()
)
SCAN = Kernel("cumulative", "scan", "pppplllllllll", SCAN_TYPES)
SCAN_LINES = Kernel("cumulative", "scan_lines", "pppllllllll", tuple(SCANS))
BY_BYTES = {
    1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long",
    16: "complex_t<double>",
}  # fmt: skip
SHIFT_KERNEL = Kernel("cumulative", "shifted", "pplllllll", tuple(BY_BYTES.values()))


def _lines(x: ndarray, axis: int) -> tuple[ndarray, tuple[int, int, int]]:
    """Returns an array and its strides, in elements, before, along and after an axis.

    The array is a contiguous copy where the axes before or after do not lie as one.
    """
    before = common_stride(x.shape[:axis], x.strides[:axis])
    after = common_stride(x.shape[axis + 1 :], x.strides[axis + 1 :])
    if before is None or after is None:
        return _lines(cupy.ascontiguousarray(x), axis)
    width = x.dtype.itemsize
    return x, (before // width, x.strides[axis] // width, after // width)


def _scanned(
    op: str, x: ndarray, y: ndarray | int, axis: int, reverse: bool, exclusive: bool = False
) -> ndarray:
    """Returns the combination, by an operation of the source, of the elements up to each.

    In a recurrence y is a contiguous array of x's shape and dtype, elsewhere 0.
    """
    out = cupy.ndarray(x.shape, x.dtype)
    if not out.size:
        return out
    x, strides = _lines(x, axis)
    n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    lines = out.size // n
    element, width = c_type(x.dtype), x.dtype.itemsize
    flags = int(reverse), int(exclusive)
    beside, many = inner >= FEWEST_LINES_BESIDE, lines >= FEWEST_LINES_FOR_THREADS
    if beside + many + (n <= LONGEST_THREAD_LINE) >= 2:
        SCAN_LINES(
            f"{op}, {element}", -(-lines // BLOCK_THREADS), BLOCK_THREADS, x, y, out, lines, n,
            inner, *strides, *flags,
        )  # fmt: skip
        return out
    items = max(WIDEST_LOAD_BYTES // width, 1)
    wide = (
        inner == 1
        and strides[1] == 1
        and n % items == 0
        and strides[0] % items == 0
        and x.data.ptr % WIDEST_LOAD_BYTES == 0
        and (not isinstance(y, cupy.ndarray) or y.data.ptr % WIDEST_LOAD_BYTES == 0)
    )
    threads = min(BLOCK_THREADS, -(-n // (32 * items)) * 32)
    tile = threads * items
    chunks = 1
    if lines < FEWEST_UNCUT_LINES and n > 4 * tile:
        chunks = min(MOST_CHUNKS, -(-n // (2 * tile)), -(-4 * FEWEST_UNCUT_LINES // lines))
    chunk = -(-n // (chunks * tile)) * tile
    chunks = -(-n // chunk)
    totals: ndarray | int = 0
    if chunks > 1:
        totals = cupy.ndarray((lines * chunks * 2,), np.dtype("complex128"))
    for flag in ("true", "false") if chunks > 1 else ("false",):
        SCAN(
            f"{op}, {element}, {items}, {flag}", (lines, chunks), threads, x, y, out, totals, n,
            inner, *strides, *flags, chunk, int(wide),
        )  # fmt: skip
    return out


def _result_dtype(x: ndarray, dtype: DTypeLike | None) -> DType:
    """Returns the dtype in which sums and products are, as NumPy has it."""
    if dtype is not None:
        return np.dtype(dtype)
    if x.dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if x.dtype.kind == "u" else x.dtype


def cumsum(x: ndarray, *, axis: int, dtype: DTypeLike | None, reverse: bool) -> ndarray:
    """Returns the sums of all elements up to each."""
    dtype = _result_dtype(x, dtype)
    if dtype.name not in SCANNED_DTYPES:
        return plain_cumsum(cupy, x, axis=axis, dtype=dtype, reverse=reverse)
    return _scanned("running_sum", x.astype(dtype, copy=False), 0, axis, reverse)


def cumprod(
    x: ndarray, *, axis: int, dtype: DTypeLike | None, reverse: bool, exclusive: bool
) -> ndarray:
    """Returns the products of all elements up to each, or of those before it."""
    dtype = _result_dtype(x, dtype)
    if dtype.name not in SCANNED_DTYPES:
        return plain_cumprod(cupy, x, axis=axis, dtype=dtype, reverse=reverse, exclusive=exclusive)
    return _scanned("running_product", x.astype(dtype, copy=False), 0, axis, reverse, exclusive)


def linear_recurrence(a: ndarray, b: ndarray, *, axis: int, reverse: bool) -> ndarray:
    """Returns the solution of ``h[i] = b[i] + a[i] h[i - 1]``."""
    dtype = cupy.result_type(a, b)
    if dtype.kind not in "fcV":
        dtype = np.dtype(np.float64)
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = [cupy.broadcast_to(z, shape).astype(dtype, order="C", copy=False) for z in (a, b)]
    return _scanned("recurrence", a, cupy.ascontiguousarray(b), axis, reverse)


def shift(x: ndarray, *, by: int, axis: int) -> ndarray:
    """Returns the elements moved along an axis; those that leave it are lost, zeros enter."""
    out = cupy.ndarray(x.shape, x.dtype)
    if out.size:
        x, strides = _lines(x, axis)
        SHIFT_KERNEL(
            BY_BYTES[x.dtype.itemsize], -(-out.size // BLOCK_THREADS), BLOCK_THREADS, x, out,
            out.size, x.shape[axis], prod(x.shape[axis + 1 :]), *strides, by,
        )  # fmt: skip
    return out


CUMULATIVE_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "cumprod": cumprod,
    "cumsum": cumsum,
    "linear_recurrence": linear_recurrence,
    "shift": shift,
}
