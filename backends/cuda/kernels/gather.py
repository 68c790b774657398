"""``x[key]`` on a GPU: a view where it can be one, otherwise one launch for one index array."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING

import cupy
from cupy import ndarray

from ..annotations import GpuOperand
from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel
from ..strides import strides_of
from .index_places import broadcast, key_on_device, located, pointed, rows_grid

if TYPE_CHECKING:
    from ...annotations import KeyLike

__all__ = ["GATHER_FUNCTIONS"]

GATHER = Kernel(
    "gather", "gather", "pp" + "lllllll" + "pllll", tuple(map(str, (1, 2, 4, 8, WIDEST_LOAD_BYTES)))
)


def index(x: GpuOperand, *indices: ndarray, key: KeyLike) -> ndarray:
    """Returns ``x[key]``.

    Index arrays on the device wrap around where they are out of bounds: to raise, the host would
    have to wait.
    """
    array: ndarray = x if type(x) is ndarray else cupy.asarray(x)
    if indices:
        key, arrays = key_on_device(key, indices, array.shape)
        if arrays:
            return picked(array, key, arrays)
    return array[key.native]


def picked(x: ndarray, key: KeyLike, arrays: list[ndarray]) -> ndarray:
    """Returns the elements that index arrays name."""
    places = located(key, x.shape, strides_of(x), broadcast(arrays))
    if places is None:
        return x[key.fill(arrays)]
    out = cupy.empty(places.shape, x.dtype)
    if not out.size:
        return out
    pointer = pointed(places, arrays)
    outer, outer_stride, _ = places.outer
    columns, column_stride, _ = places.inner
    size = word = x.dtype.itemsize
    if columns == 1 or column_stride == 1:
        starts = x.data.ptr, places.offset * size, outer_stride * size, pointer.stride * size
        word = gcd(WIDEST_LOAD_BYTES, columns * size, *starts)
        columns, column_stride = columns * size // word, 1
    grid, log = rows_grid(outer * places.total, columns)
    GATHER(
        str(word), grid, BLOCK_THREADS, out, x, places.offset * size // word, outer,
        outer_stride * size // word, places.total, columns, column_stride, log, *pointer[:4],
        pointer.stride * size // word,
    )
    return out


GATHER_FUNCTIONS: dict[str, Callable[..., ndarray]] = {"index": index}
