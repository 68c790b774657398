"""Elements in order, without waiting for the device: stable, NaN last, as NumPy has it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ..launch import BLOCK_THREADS, Kernel, c_type

__all__ = ["SORTING_FUNCTIONS"]

# The longest row that one block sorts, and the fewest elements that a block should have.
LARGEST_TILE_ELEMENTS, FEWEST_BLOCK_ELEMENTS = 1024, 512

SORT_TYPES = tuple(
    f"{name}, {down}"
    for name in ("float", "half_t", "long long", "complex_t<double>")
    for down in ("false", "true")
)
SORT_TILES = Kernel("sorting", "sort_tiles", "ppp" + "llllll", SORT_TYPES)
MERGE_RUNS = Kernel("sorting", "merge_runs", "pppp" + "lllll", SORT_TYPES)


def sort(x: ndarray, *, axis: int, stable: bool, descending: bool) -> ndarray:
    """Returns an array sorted along an axis; NaN last, or first where the largest come first."""
    out = cupy.empty(x.shape, x.dtype)
    ordered(x, axis, descending, out, None)
    return out


def argsort(x: ndarray, *, axis: int, stable: bool, descending: bool) -> ndarray:
    """Returns the indices that sort an array along an axis; equal elements keep their order."""
    out = cupy.empty(x.shape, np.intp)
    ordered(x, axis, descending, None, out)
    return out


def argpartition(x: ndarray, *, kth: tuple[int, ...], axis: int) -> ndarray:
    """Returns indices that put elements where sorting would: all of them."""
    return argsort(x, axis=axis, stable=True, descending=False)


def ordered(
    x: ndarray, axis: int, descending: bool, values: ndarray | None, places: ndarray | None
) -> None:
    """Writes sorted elements into values, or their indices into places; the other is None."""
    if not x.size:
        return
    x = cupy.ascontiguousarray(x)
    length = x.shape[axis]
    rows, inner = x.size // length, prod(x.shape[axis + 1 :])
    types = f"{c_type(x.dtype)}, {'true' if descending else 'false'}"
    run = tile = min(LARGEST_TILE_ELEMENTS, 1 << max((length - 1).bit_length(), 1))
    abreast = max(FEWEST_BLOCK_ELEMENTS // tile, 1)
    blocks = -(-rows * -(-length // tile) // abreast)
    shared = tile * abreast * (x.dtype.itemsize + 4)
    to = (values, 0) if places is None else (0, places)
    if length <= tile:
        SORT_TILES(
            types, blocks, BLOCK_THREADS, *to, x, rows, length, inner, tile, abreast, 1,
            shared=shared,
        )  # fmt: skip
        return
    # Merges need the elements too; both are written to and fro between two arrays.
    pair = [cupy.empty(x.size, x.dtype) for _ in range(2)]
    names = [0 if places is None else cupy.empty(x.size, np.int64) for _ in range(2)]
    SORT_TILES(
        types, blocks, BLOCK_THREADS, pair[0], names[0], x, rows, length, inner, tile,
        abreast, 0, shared=shared,
    )
    while run < length:
        last = 2 * run >= length
        MERGE_RUNS(
            types, -(-x.size // BLOCK_THREADS), BLOCK_THREADS,
            *(to if last else (pair[1], names[1])), pair[0], names[0], rows, length, inner, run,
            last,
        )
        pair.reverse()
        names.reverse()
        run *= 2


SORTING_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "argpartition": argpartition,
    "argsort": argsort,
    "sort": sort,
}
