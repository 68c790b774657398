"""Sums over axes in front of others, as the gradients of biases are, for CuPy's buffers.

Lines are added up in an order that their number and length alone decide, so that the result is the
same in every run and on every GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import cupy
import numpy as np

from .launch import C_TYPES, Kernel

__all__ = ["TABLE", "sum"]

# For every dtype: what kernels call it, what it is added up in, and that as a dtype.
KINDS: dict[str, tuple[str, str, Any]] = {
    "e": ("half_t", "float", np.dtype(np.float32)),
    "E": ("bfloat16_t", "float", np.dtype(np.float32)),
    "f": ("float", "float", np.dtype(np.float32)),
    "d": ("double", "double", np.dtype(np.float64)),
}
BYTES = {name: np.dtype(dtype).itemsize for name, dtype in (("float", "f"), ("double", "d"))}
BYTES |= {C_TYPES["float16"]: 2, C_TYPES["bfloat16"]: 2}
WIDE = 16
THREADS = 256
# How many threads abreast read a line's packs.
NARROW, BROAD = 4, 32
# Lines that a thread may have, one after the other, before others take their share in a pass of
# their own; blocks that there should then be, which fill the largest GPUs.
TURNS = 8
BLOCKS = 512
MOST = 65535

PAIRS = ("half_t, float", "half_t, half_t", "bfloat16_t, float", "bfloat16_t, bfloat16_t",
         "float, float", "float, half_t", "float, bfloat16_t", "double, double")
COLUMN_SUMS = Kernel(
    "columns",
    "column_sums",
    "pplllll",
    tuple(f"{pair}, {WIDE // BYTES[pair.partition(',')[0]]}" for pair in PAIRS),
)
ndarray = cupy.ndarray


@lru_cache(maxsize=4096)
def arranged(shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> Any:
    """Returns the lengths before, of, and after a run of axes, and the result's shape.

    None where the axes are no run, or nothing comes after them.
    """
    if not axis or axis[-1] - axis[0] != len(axis) - 1:
        return None
    before, after = prod(shape[: axis[0]]), prod(shape[axis[-1] + 1 :])
    if after < 2 or before > MOST or 0 in shape:
        return None
    out = tuple([
        1 if i in axis else n for i, n in enumerate(shape) if keepdims or i not in axis
    ])
    return before, prod([shape[i] for i in axis]), after, out


@lru_cache(maxsize=4096)
def planned(
    before: int, length: int, after: int, n: int, aligned: bool
) -> tuple[tuple[int, int, int], int, int, int]:
    """Returns the grid, the lines of a run, the threads abreast, and the columns of a tile.

    Args:
        before, length, after: the lengths of the axes.
        n: the elements of a pack.
        aligned: whether every line begins on a boundary of packs.
    """
    packs = -(-after // n) + (not aligned)
    width = min(BROAD, 1 << (packs - 1).bit_length())
    run = length
    if before * -(-packs // width) < BLOCKS // 2 and length > TURNS * (THREADS // width):
        narrow = width
        while narrow > NARROW and length > TURNS * (THREADS // narrow):
            narrow //= 2
        if length <= TURNS * (THREADS // narrow):
            width = narrow
        else:
            lines = THREADS // width
            runs = min(BLOCKS // (before * -(-packs // width)), -(-length // (4 * lines)))
            run = -(-length // runs)
    tile = (width if aligned else width - 1) * n
    return (-(-after // tile), -(-length // run), before), run, width, tile


def sum(x: Any, *, axis: tuple[int, ...], keepdims: bool, dtype: Any = None) -> Any:
    """Returns the sum over axes, which are sorted and counted from the front."""
    if type(x) is ndarray and (dtype is None or dtype == x.dtype) and x.flags.c_contiguous:
        kind = KINDS.get(x.dtype.char)
        found = arranged(x.shape, axis, keepdims) if kind is not None else None
        if found is not None:
            return of_columns(x, kind, *found)
    return cupy.sum(x, axis=axis, keepdims=keepdims, dtype=dtype)


def of_columns(
    x: Any, kind: Any, before: int, length: int, after: int, shape: tuple[int, ...]
) -> Any:
    """Returns the sums over the middle one of three axes: in two passes, if there are many lines.

    Args:
        x: a contiguous array.
        kind: what there is of its dtype in ``KINDS``.
        before, length, after: the lengths of the three axes.
        shape: the result's.
    """
    name, between, wider = kind
    dtype = x.dtype
    out = ndarray(shape, dtype)
    n = WIDE // dtype.itemsize
    grid, run, width, tile = planned(before, length, after, n, not (x.data.ptr % WIDE or after % n))
    if grid[1] > 1:
        length = grid[1]
        some = ndarray((before, length, after), wider)
        COLUMN_SUMS(f"{name}, {between}, {n}", grid, THREADS, x, some, x.size // (before * after),
                    after, run, width, tile)
        n = WIDE // wider.itemsize
        grid, run, width, tile = planned(before, length, after, n, not after % n)
        COLUMN_SUMS(f"{between}, {name}, {n}", grid, THREADS, some, out, length, after, run, width,
                    tile)
        return out
    COLUMN_SUMS(f"{name}, {name}, {n}", grid, THREADS, x, out, length, after, run, width, tile)
    return out


TABLE: dict[str, Callable[..., Any]] = {"sum": sum}
