"""Arrays as rows, as the launches of all kernels that work on rows see them."""

from __future__ import annotations

from functools import cache
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ..annotations import DType, Shape
from .launch import WIDEST_LOAD_BYTES, c_type
from .strides import common_stride

__all__ = [
    "ROW_INSTANCES", "geometry", "has_units", "inexact", "limit", "padded_length", "padded_rows",
    "row_strides", "shared_out", "wide", "width",
]  # fmt: skip

# The template arguments that kernels over real dtypes are compiled for, with and without packs.
ROW_INSTANCES = tuple(
    f"{name}, {n}"
    for name, packed in (("float", 4), ("double", 2), ("half_t", 8), ("bfloat16_t", 8))
    for n in (packed, 1)
)
# Bytes of a row's values that a thread keeps in registers.
KEPT_ROW_BYTES = 64
LIMITS = {"processors": 16, "shared": 97, "shared_of_processor": 81, "generation": 75}
# Older GPUs have no units for matrices of float32.
FIRST_WITH_UNITS = 8


@cache
def limit(name: str, device: int) -> int:
    """Returns a GPU's number of processors, its generation, or its bytes of shared memory.

    These are the bytes of a block, or of a processor.
    """
    return int(cupy.cuda.runtime.deviceGetAttribute(LIMITS[name], device))


def has_units(device: int) -> bool:
    """Says whether a GPU has units that multiply matrices of float32, with factors rounded."""
    return limit("generation", device) >= FIRST_WITH_UNITS


def inexact(x: ndarray) -> ndarray:
    """Returns a real floating-point array as it is, of integers one of ``float64``."""
    dtype = x.dtype
    if dtype.char in "efd" or dtype.kind == "V":
        return x
    if dtype.kind == "c":
        raise TypeError(f"defined for real numbers only, got dtype {dtype}")
    return x.astype(np.float64)


def row_strides(x: ndarray, axes: int) -> tuple[ndarray, int, int]:
    """Returns an array whose last axes are rows, and the steps from row to row and in a row.

    They are counted in elements. The array is copied if it has no such steps.
    """
    shape = x.shape
    first = len(shape) - axes
    if not x.flags.c_contiguous:
        size = x.itemsize
        between = common_stride(shape[:first], x.strides[:first])
        within = common_stride(shape[first:], x.strides[first:])
        if between is not None and within is not None:
            return x, between // size, within // size
        x = cupy.ascontiguousarray(x)
    return x, prod(shape[first:]), 1


def padded_length(length: int, itemsize: int) -> int:
    """Returns the elements from row to row where all begin at multiples of 16 bytes."""
    unit = WIDEST_LOAD_BYTES // itemsize
    return -(-length // unit) * unit


def padded_rows(shape: Shape, dtype: DType) -> ndarray:
    """Returns a new array whose rows begin at multiples of 16 bytes.

    Who makes it writes zeros between them.
    """
    *outer, length = shape
    whole = ndarray((*outer, padded_length(length, dtype.itemsize)), dtype)
    return whole[..., :length]


def wide(x: ndarray, row_stride: int, stride: int, length: int) -> bool:
    """Says whether every row starts as far behind a boundary of packs as in a new array."""
    size = x.itemsize
    return (
        stride == 1
        and x.data.ptr % WIDEST_LOAD_BYTES == 0
        and (row_stride - length) * size % WIDEST_LOAD_BYTES == 0
        and length * size >= WIDEST_LOAD_BYTES
    )


def width(dtype: DType, packed: bool) -> tuple[str, int]:
    """Returns the template arguments for a dtype, and how many elements a pack has."""
    n = WIDEST_LOAD_BYTES // dtype.itemsize if packed else 1
    return f"{c_type(dtype)}, {n}", n


def packs_of(length: int, n: int) -> int:
    """Returns how many packs of n elements a row has at most; it may start within a pack."""
    return (length + 2 * n - 2) // n if length % n else length // n


def shared_out(length: int, n: int, most: int) -> tuple[int, int] | None:
    """Returns how many lanes of a warp share a row of packs of n, and how many packs each has.

    Both are powers of two. Four lanes read a whole sector of memory, if there are packs at all.
    None stands for rows of more packs than a warp's lanes have at most.
    """
    packs = 1 << max(packs_of(length, n) - 1, 0).bit_length()
    least = WIDEST_LOAD_BYTES // 4 if n > 1 else 32
    lanes = packs if packs <= least else max(least, min(32, packs // 4))
    return (lanes, packs // lanes) if packs <= lanes * most else None


def geometry(dtype: DType, count: int, length: int, n: int) -> tuple[int, int, int]:
    """Returns the numbers of blocks and of threads, and whether every warp has a row of its own.

    Rows of whole packs are taken to begin on boundaries. One that does not has a pack more. If the
    threads' registers are full, it is read again instead of being kept.
    """
    packs = packs_of(length, n)
    mates = -(-packs * n * max(dtype.itemsize, 4) // KEPT_ROW_BYTES)
    if mates <= 32:
        return -(-count // 4), 128, 1
    # In double precision a thread needs twice the registers.
    most = 1024 if dtype.itemsize < 8 else 512
    return count, min(most, 1 << (mates - 1).bit_length()), 0
