"""Places in order, equal ones as they came: sorted without waiting for the device."""

from __future__ import annotations

import cupy
import numpy as np
from cupy import ndarray

from ..launch import BLOCK_THREADS, Kernel
from .index_places import Pointer

__all__ = ["MOST_RANKED_PLACES", "sorted_places"]

# Up to so many are sorted by counting, in one launch, whose time grows with the square.
MOST_RANKED_PLACES = 16384
# Places are sorted by so many bits at a time; the fewest places of a block, and the most blocks.
DIGIT_BITS, FEWEST_SPAN_PLACES, MOST_SPANS = 8, 4096, 1024
# The places of which a block counts the smaller ones.
PLACES_PER_BLOCK = BLOCK_THREADS // 8

SORTS = "pll" + "pllll"
RANK_PLACES = Kernel("sorting_places", "rank_places", SORTS, ("unsigned int", "unsigned long long"))
TAG = Kernel("sorting_places", "tag_places", SORTS)
COUNT = Kernel("sorting_places", "count_digits", "pplll")
SUM = Kernel("sorting_places", "sums_before", "pl")
MOVE = Kernel("sorting_places", "move_digits", "ppplll")


def sorted_places(pointer: Pointer, count: int, shift: int) -> ndarray:
    """Returns so many places, each with its number in the lower ``shift`` bits, sorted."""
    out = cupy.empty(count, np.uint64)
    bits = (pointer.limit - 1).bit_length()
    if count <= MOST_RANKED_PLACES:
        kind = "unsigned int" if bits + shift <= 32 else "unsigned long long"
        RANK_PLACES(
            kind, -(-count // PLACES_PER_BLOCK), BLOCK_THREADS, out, count, shift, *pointer[:5]
        )
        return out
    TAG("", -(-count // BLOCK_THREADS), BLOCK_THREADS, out, count, shift, *pointer[:5])
    spans = min(-(-count // FEWEST_SPAN_PLACES), MOST_SPANS)
    span = -(-count // spans)
    spans = -(-count // span)
    counts = cupy.empty((1 << DIGIT_BITS) * spans, np.int64)
    other = cupy.empty_like(out)
    for low in range(shift, shift + bits, DIGIT_BITS):
        COUNT("", spans, BLOCK_THREADS, counts, out, count, span, low)
        SUM("", 1, 1024, counts, counts.size)
        MOVE("", spans, BLOCK_THREADS, other, out, counts, count, span, low)
        out, other = other, out
    return out
