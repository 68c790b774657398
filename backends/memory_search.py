"""Many arrays of NumPy's, searched for those that share memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

__all__ = ["ManyArrays", "called_apart"]


class ManyArrays(list[Any]):
    """Many arrays, whose memory is sorted at the second question: the others are searches."""

    __slots__ = ("_asked", "_ends", "_starts")

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self._asked = False
        self._starts: list[int] = []
        self._ends: list[int] = []

    def meet(self, buffer: Any) -> bool:
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


def called_apart(function: Callable[[list[Any]], list[Any]], given: list[Any]) -> list[Any]:
    """Calls a function; copies those results that share memory with an operand, or another one."""
    outs = list(function(given))
    operands = ManyArrays([x for x in given if type(x) is np.ndarray])
    arrays = [i for i, x in enumerate(outs) if type(x) is np.ndarray and x.size]
    reached = 0
    for start, end, i in sorted((*byte_bounds(outs[i]), i) for i in arrays):
        if start < reached or operands.meet(outs[i]):
            outs[i] = outs[i].copy()
        reached = max(reached, end)
    return outs
