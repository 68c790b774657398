"""Values for the same place combined in their order, so that every run gives the same bits."""

from __future__ import annotations

from math import gcd

import cupy
import numpy as np
from cupy import ndarray

from ..launch import BLOCK_THREADS, Kernel, c_type
from .index_places import IndexedPlaces, Pointer
from .sorting_places import sorted_places

__all__ = ["combined"]

# Longer segments are cut where their numbers are multiples of this.
SPAN = 512
WARPS = BLOCK_THREADS // 32

ORDERED_PLACES_PARAMETERS = "llllllll"
SEGMENT_TYPES = (
    "float, float, plus, 4",
    "half_t, half_t, plus, 8",
    "bfloat16_t, float, plus, 1",
    "double, double, times, 1",
    "complex_t<float>, complex_t<float>, times, 1",
    "long long, long long, smaller, 1",
    "half_t, half_t, larger, 1",
)
SEGMENTS = Kernel(
    "scatter_ordered", "segments", "pppplllll" + ORDERED_PLACES_PARAMETERS, SEGMENT_TYPES
)
JOIN_SEGMENTS = Kernel(
    "scatter_ordered", "joined", "pppplllll" + ORDERED_PLACES_PARAMETERS, SEGMENT_TYPES
)


def combined(
    operation: str, out: ndarray, values: ndarray, places: IndexedPlaces, pointer: Pointer
) -> None:
    """Combines elements of an array, in place, with all values for them.

    Args:
        operation: the name of the functor: ``plus``, ``times``, ``smaller`` or ``larger``.
        out: the array, C-contiguous.
        values: of its dtype; of float16 or bfloat16 also for an array of float32.
        places, pointer: the places of the elements and their values.
    """
    outer, outer_stride, outer_step = places.outer
    columns, column_stride, column_step = places.inner
    if columns == 1:
        # Lanes go along the columns.
        columns, column_stride, column_step = places.outer
        outer, outer_stride, outer_step = 1, 0, 0
    count = places.total
    shift = (count - 1).bit_length()
    wide = 1
    if column_stride == column_step == 1:
        most = 16 // values.dtype.itemsize
        # The output lies on boundaries too, and rows have a whole number of packs.
        fits = gcd(
            most, columns, places.offset, outer_stride, outer_step, places.step, pointer.stride
        )
        if fits == most and not (values.data.ptr % 16 or out.data.ptr % 32):
            wide = max(most, 1)
    tiles, groups, spans = -(-columns // (32 * wide)), -(-count // WARPS), -(-count // SPAN)
    half = values.dtype.itemsize == 2 and values.dtype.kind in "fV"
    partial: ndarray | int = 0
    if spans > 1:
        partial = cupy.empty(outer * spans * 2 * columns, np.float32 if half else out.dtype)
    types = f"{c_type(values.dtype)}, {c_type(out.dtype)}, {operation}, {wide}"
    arguments = out, values, partial, sorted_places(pointer, count, shift), count, shift, SPAN
    form = (
        places.offset, outer_stride, outer_step, places.step, columns, column_stride, column_step,
        pointer.stride,
    )
    SEGMENTS(types, groups * tiles * outer, BLOCK_THREADS, *arguments, groups, tiles, *form)
    if spans > 1:
        blocks = -(-spans * tiles * outer // WARPS)
        JOIN_SEGMENTS(types, blocks, BLOCK_THREADS, *arguments, outer, tiles, *form)
