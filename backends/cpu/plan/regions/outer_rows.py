"""Ufuncs of columns and rows: in every row of the result one number meets a whole row.

NumPy begins its inner loop for every row, which costs twice as much as a row of some dozen numbers.
Here the numbers are first written into the result, and then meet several copies of the row at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ....annotations import Buffer

__all__ = ["LONGEST_COPIED_ROW", "is_outer", "outer"]

# Longer rows need no copies.
LONGEST_COPIED_ROW = 128
# The greatest length of a row of copies, and number of copies. Smaller results are not worth them.
LONGEST_RUN_OF_COPIES, MOST_COPIES, SMALLEST_OUTER_ELEMENTS = 512, 8, 32768


def is_outer(shape: tuple[int, ...], x: frozenset[int], y: frozenset[int]) -> bool:
    """Says whether two values with some axes of a grid are columns and rows, in this order."""
    last = len(shape) - 1
    return (
        last > 0
        and 4 <= shape[last] <= LONGEST_COPIED_ROW
        and x | y == frozenset(range(len(shape)))
        and last - 1 in x
        and last not in x
        and last in y
        and last - 1 not in y
    )


def outer(ufunc: np.ufunc, x: Buffer, y: Buffer, out: Buffer, first: bool) -> None:
    """Computes ``ufunc(x, y, out)``, or ``ufunc(y, x, out)``, with the same bits.

    Args:
        ufunc: a ufunc of two operands.
        x: numbers, of which the last axis has length 1.
        y: rows, of which the last axis but one has length 1.
        out: the memory of the result, without gaps.
        first: whether x is the first operand.
    """
    *before, many, length = out.shape
    times = min(LONGEST_RUN_OF_COPIES // length, MOST_COPIES)
    while times > 1 and many % times:
        times -= 1
    if times < 2 or out.size < SMALLEST_OUTER_ELEMENTS:
        ufunc(*((x, y) if first else (y, x)), out=out)
        return
    np.copyto(out, x)
    copies = np.empty((*y.shape[:-2], times, length), y.dtype)
    np.copyto(copies, y)
    copies = copies.reshape(*y.shape[:-2], 1, times * length)
    rows = out.reshape(*before, many // times, times * length)
    ufunc(*((rows, copies) if first else (copies, rows)), out=rows)
