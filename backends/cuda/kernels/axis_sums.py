"""Sums and means over neighbouring axes, or over the outer axes around those that stay.

Losses are such sums, and gradients of biases, of rows and of channels. Elements are added up in an
order that their places alone decide, so that the result is the same in every run and on every GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import NamedTuple, TypeAlias

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Axes, DType, Shape
from ..launch import BLOCK_THREADS, C_TYPES, WIDEST_LOAD_BYTES, Kernel, is_contiguous
from ..strides import common_stride

__all__ = ["AXIS_SUM_FUNCTIONS", "sum_of_padded"]

# The name of a dtype in kernels, the name and the dtype of its sums.
SumType: TypeAlias = tuple[str, str, DType]
# The shape and dtype of an intermediate result.
Between: TypeAlias = tuple[Shape, DType]

SUM_TYPES: dict[str, SumType] = {
    "e": ("half_t", "float", np.dtype(np.float32)),
    "E": ("bfloat16_t", "float", np.dtype(np.float32)),
    "f": ("float", "float", np.dtype(np.float32)),
    "d": ("double", "double", np.dtype(np.float64)),
}
C_TYPE_BYTES = {name: np.dtype(dtype).itemsize for name, dtype in (("float", "f"), ("double", "d"))}
C_TYPE_BYTES |= {C_TYPES["float16"]: 2, C_TYPES["bfloat16"]: 2}
# Threads abreast that read a line's packs.
FEWEST_THREADS_ABREAST, MOST_THREADS_ABREAST = 4, 32
# A thread may have so many lines, one after the other. Beyond that there are two passes, the first
# one of so many blocks, which fill the largest GPUs.
MOST_COLUMN_TURNS = 8
FILLING_COLUMN_BLOCKS = 512
# The same for packs of rows, the fewest packs that a thread is then left with, and the most that it
# may have in a block of usual size.
MOST_ROW_TURNS, FILLING_ROW_BLOCKS, FEWEST_THREAD_PACKS, MOST_SMALL_BLOCK_PACKS = 32, 1024, 8, 8
LARGE_BLOCK_THREADS = 1024
MOST_GRID_LAYERS = 65535

PAIRS = (
    "half_t, float", "half_t, half_t", "bfloat16_t, float", "bfloat16_t, bfloat16_t",
    "float, float", "float, half_t", "float, bfloat16_t", "double, double",
)  # fmt: skip
PACKED_PAIRS = tuple(
    f"{pair}, {WIDEST_LOAD_BYTES // C_TYPE_BYTES[pair.partition(',')[0]]}" for pair in PAIRS
)
COLUMN_SUMS = Kernel("axis_sums", "column_sums", "ppdlllll", PACKED_PAIRS)
ROW_SUM_TYPES = tuple(
    f"{kind}, {apart}"
    for kind in (*PACKED_PAIRS, "float, float, 1", "bfloat16_t, float, 4")
    for apart in ("true", "false")
)
ROW_SUMS = Kernel("axis_sums", "row_sums", "ppdllllll", ROW_SUM_TYPES)
SUM_KERNELS = {"columns": COLUMN_SUMS, "rows": ROW_SUMS}


class Pass(NamedTuple):
    """A launch: its kernel, the template's arguments, blocks, threads, and lengths."""

    sums: str
    types: str
    grid: tuple[int, int, int]
    block: int
    lengths: tuple[int, ...]


class SumLaunches(NamedTuple):
    """The launches that reduce a contiguous array.

    Attributes:
        shape: the result's.
        elements: how many each of its elements is made of.
        passes: the launches, one or two.
        between: the shape and dtype of the first result of two.
    """

    shape: Shape
    elements: float
    passes: tuple[Pass, ...]
    between: Between | None


@lru_cache(maxsize=4096)
def sum_launches(
    shape: Shape, axis: Axes, keepdims: bool, letter: str, skew: int
) -> SumLaunches | None:
    """Returns the launches; None where the axes lie otherwise, or there are none or no elements.

    Axes are sorted and counted from the front. The dtype is known by its letter. ``skew`` is how
    far the array begins behind a boundary of packs, in bytes.
    """
    # Neighbours of one kind make one axis; those of length 1 do not count.
    axes = [i for i, n in enumerate(shape) if n != 1]
    runs = [
        (reduced, prod([shape[i] for i in run]))
        for reduced, run in groupby(axes, key=axis.__contains__)
    ]
    kinds = [reduced for reduced, _ in runs]
    if not axis or 0 in shape or len(runs) > 3:
        return None
    lengths = [length for _, length in runs]
    kind = SUM_TYPES[letter]
    if True not in kinds:
        count = 1
        passes, between = by_columns(kind, 1, 1, prod(shape), skew)
    elif kinds[-1]:
        before, middle, after = [1] * (3 - len(runs)) + lengths
        count = before * after
        passes, between = by_rows(kind, before, middle, after, skew)
    else:
        before, count, after = [1] * (3 - len(runs)) + lengths
        if before > MOST_GRID_LAYERS:
            return None
        passes, between = by_columns(kind, before, count, after, skew)
    out = tuple([1 if i in axis else n for i, n in enumerate(shape) if keepdims or i not in axis])
    return SumLaunches(out, float(count), passes, between)


def by_rows(
    kind: SumType, before: int, middle: int, after: int, skew: int
) -> tuple[tuple[Pass, ...], Between | None]:
    """Returns the passes over the outer two of three axes, and the result between them."""
    name, between, wider = kind
    grid, block, lengths, n = striped(
        before, middle, after, C_TYPE_BYTES[name], skew, MOST_ROW_TURNS
    )
    parts = grid[1] * grid[2]
    kept = "true" if before == 1 else "false"
    if parts == 1:
        return (Pass("rows", f"{name}, {name}, {n}, {kept}", grid, block, lengths),), None
    first = Pass("rows", f"{name}, {between}, {n}, {kept}", grid, block, lengths)
    grid, block, lengths, n = striped(1, middle, parts, wider.itemsize, 0, parts)
    second = Pass("rows", f"{between}, {name}, {n}, true", grid, block, lengths)
    return (first, second), ((middle, parts), wider)


def striped(
    before: int, middle: int, after: int, itemsize: int, skew: int, turns: int
) -> tuple[tuple[int, int, int], int, tuple[int, ...], int]:
    """Returns the grid, the block, the lengths for `row_sums`, and a pack's elements.

    A thread may have so many turns of packs before others take their share.
    """
    n = WIDEST_LOAD_BYTES // itemsize
    # A pack may begin where every row does.
    while n > 1 and (skew % (n * itemsize) or (before * middle > 1 and after % n)):
        n //= 2
    packs = -(-after // n)
    apart = before == 1

    def taken(threads: int) -> tuple[int, int, int, int]:
        """Returns the threads abreast, the lines, and in how many turns these take all there is."""
        width = min(threads if apart else MOST_THREADS_ABREAST, 1 << (packs - 1).bit_length())
        lines = threads // width
        return width, lines, -(-packs // width), 1 if apart else -(-before // lines)

    block = BLOCK_THREADS
    width, lines, across, down = taken(block)
    if across * down > MOST_SMALL_BLOCK_PACKS:
        block = LARGE_BLOCK_THREADS
        width, lines, across, down = taken(block)
    blocks = -(-middle // lines) if apart else middle
    run, strip = down, across
    if across * down > turns and blocks < FILLING_COLUMN_BLOCKS:
        parts = min(-(-FILLING_ROW_BLOCKS // blocks), -(-across * down // FEWEST_THREAD_PACKS))
        run = -(-down // min(parts, down))
        strip = -(-across // max(parts // down, 1))
    grid = blocks, -(-down // run), -(-across // strip)
    run *= 1 if apart else lines
    return grid, block, (before, middle, after, run, strip * width, width), n


def by_columns(
    kind: SumType, before: int, length: int, after: int, skew: int
) -> tuple[tuple[Pass, ...], Between | None]:
    """Returns the passes over the middle one of three axes, and the result between them."""
    name, between, wider = kind
    n = WIDEST_LOAD_BYTES // C_TYPE_BYTES[name]
    grid, run, width, tile = tiled(before, length, after, n, not (skew or after % n))
    lengths = length, after, run, width, tile
    if grid[1] == 1:
        return (Pass("columns", f"{name}, {name}, {n}", grid, BLOCK_THREADS, lengths),), None
    first = Pass("columns", f"{name}, {between}, {n}", grid, BLOCK_THREADS, lengths)
    length, n = grid[1], WIDEST_LOAD_BYTES // wider.itemsize
    grid, run, width, tile = tiled(before, length, after, n, not after % n)
    lengths = length, after, run, width, tile
    second = Pass("columns", f"{between}, {name}, {n}", grid, BLOCK_THREADS, lengths)
    return (first, second), ((before, length, after), wider)


def tiled(
    before: int, length: int, after: int, n: int, aligned: bool
) -> tuple[tuple[int, int, int], int, int, int]:
    """Returns the grid, the lines of a run, the threads abreast, and the columns of a tile.

    Packs have n elements. Lines that are aligned begin on a boundary of packs.
    """
    packs = -(-after // n) + (not aligned)
    width = min(MOST_THREADS_ABREAST, 1 << (packs - 1).bit_length())
    run = length
    if before * -(-packs // width) < FILLING_COLUMN_BLOCKS // 2 and length > MOST_COLUMN_TURNS * (
        BLOCK_THREADS // width
    ):
        narrow = width
        while narrow > FEWEST_THREADS_ABREAST and length > MOST_COLUMN_TURNS * (
            BLOCK_THREADS // narrow
        ):
            narrow //= 2
        if length <= MOST_COLUMN_TURNS * (BLOCK_THREADS // narrow):
            width = narrow
        else:
            lines = BLOCK_THREADS // width
            runs = min(
                FILLING_COLUMN_BLOCKS // (before * -(-packs // width)), -(-length // (4 * lines))
            )
            run = -(-length // runs)
    tile = (width if aligned else width - 1) * n
    return (-(-after // tile), -(-length // run), before), run, width, tile


def launches_for(x: ndarray, axis: Axes, keepdims: bool, dtype: DType | None) -> SumLaunches | None:
    """Returns the launches for an operand; None where CuPy computes it."""
    if type(x) is not ndarray or not (dtype is None or dtype == x.dtype) or not is_contiguous(x):
        return None
    letter = x.dtype.char
    if letter not in SUM_TYPES:
        return None
    return sum_launches(x.shape, axis, keepdims, letter, x.data.ptr % WIDEST_LOAD_BYTES)


def launch_sums(launches: SumLaunches, x: ndarray, divisor: float) -> ndarray:
    """Returns the sums of a contiguous array, divided by a number."""
    out = ndarray(launches.shape, x.dtype)
    name, types, grid, block, lengths = launches.passes[-1]
    if launches.between is not None:
        first = launches.passes[0]
        some = ndarray(*launches.between)
        SUM_KERNELS[first.sums](first.types, first.grid, first.block, x, some, 1.0, *first.lengths)
        x = some
    SUM_KERNELS[name](types, grid, block, x, out, divisor, *lengths)
    return out


def sum(x: ndarray, *, axis: Axes, keepdims: bool, dtype: DType | None = None) -> ndarray:
    """Returns the sum over axes, which are sorted and counted from the front."""
    launches = launches_for(x, axis, keepdims, dtype)
    if launches is None:
        return cupy.sum(x, axis=axis, keepdims=keepdims, dtype=dtype)
    return launch_sums(launches, x, 1.0)


def sum_of_padded(
    x: ndarray, *, axis: Axes, keepdims: bool, dtype: DType | None = None
) -> ndarray:
    """Returns the sum over other axes than the last, of an array with zeros between its rows.

    What lies between rows is added up too, so that rows are read by wide loads.
    """
    *outer, length = x.shape
    step = common_stride(outer, x.strides[:-1])
    if is_contiguous(x) or step is None:
        return sum(x, axis=axis, keepdims=keepdims, dtype=dtype)
    whole = ndarray((*outer, step // x.itemsize), x.dtype, x.data)
    sums = sum(whole, axis=axis, keepdims=keepdims, dtype=dtype)[..., :length]
    # Of several rows of sums nobody knows that they are padded.
    return sums if is_contiguous(sums) else cupy.ascontiguousarray(sums)


def mean(x: ndarray, *, axis: Axes, keepdims: bool, dtype: DType | None = None) -> ndarray:
    """Returns the mean over axes; of integers as ``float64``, of half precision by single."""
    launches = launches_for(x, axis, keepdims, dtype)
    if launches is not None:
        return launch_sums(launches, x, launches.elements)
    if type(x) is ndarray and x.dtype.char == "E" and dtype is None:
        wide = cupy.mean(x.astype(np.float32), axis=axis, keepdims=keepdims)
        return wide.astype(x.dtype)
    return cupy.mean(x, axis=axis, keepdims=keepdims, dtype=dtype)


AXIS_SUM_FUNCTIONS: dict[str, Callable[..., ndarray]] = {"mean": mean, "sum": sum}
