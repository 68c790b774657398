"""NumPy's arrays among arguments: their owner may change them, so results share none of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ...backends.annotations import Buffer

__all__ = ["ManyArrays", "plain_arrays"]

# Of fewer arrays each is asked.
MANY = 16


class ManyArrays(list[Any]):
    """Many arrays, whose memory is sorted at the second question: the others are searches."""

    __slots__ = ("_asked", "_ends", "_starts")

    def __init__(self, arrays: Sequence[Buffer]) -> None:
        super().__init__(arrays)
        self._asked = False
        self._starts: list[int] = []
        self._ends: list[int] = []

    def meet(self, buffer: Buffer) -> bool:
        """Says whether an array may share memory with one of these."""
        if not self._asked or not buffer.size:
            self._asked = True
            return any(x is buffer or np.may_share_memory(x, buffer) for x in self)
        if not self._starts:
            bounds = sorted(byte_bounds(x) for x in self if x.size)
            self._starts = [start for start, _ in bounds]
            # Of all that begin before a place the last end decides.
            self._ends = list(accumulate((end for _, end in bounds), max))
        start, end = byte_bounds(buffer)
        begun = bisect_left(self._starts, end)
        return begun > 0 and self._ends[begun - 1] > start


def plain_arrays(leaves: Iterable[Any]) -> list[Buffer]:
    """Returns those leaves of arguments that are NumPy's arrays."""
    found = [x for x in leaves if type(x) is np.ndarray]
    return found if len(found) < MANY else ManyArrays(found)
