"""Ufuncs of which one operand is a row for many: copies of the row meet several rows at once.

NumPy goes over one row of the result after the other. Of a matrix and a row, it fills a buffer with
copies of the row for every buffer of the matrix, which takes as long as the ufunc. Of a column and
a row, it begins its inner loop for every row, which costs twice as much as a row of some dozen
numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ....restoring import errstate
from .grid import Grid, Groups

if TYPE_CHECKING:
    from ....annotations import Buffer, Shape

__all__ = ["LONGEST_COPIED_ROW", "is_outer", "is_rowwise", "outer", "row_by_row", "rowwise"]

# Rows of at least this many elements are quicker one by one than with copies in buffers.
SHORTEST_DIRECT_ROW = 384
# NumPy makes no copies if its buffers are shorter than rows, as buffers of this length are.
DIRECT_BUFFER_ELEMENTS = 256
# The elements of rows that are made of copies: for NumPy's usual buffers, and for small ones.
BUFFERED_RUN, UNBUFFERED_RUN = 8192, 2048
# Rows of more bytes are long enough as they are.
LONGEST_COPIED_ROW_BYTES = 2560
# Smaller matrices, and smaller results of columns and rows, are not worth the copies.
SMALLEST_ROWWISE_ELEMENTS, SMALLEST_OUTER_ELEMENTS = 65536, 32768
# Beside columns, rows of fewer or more elements are not copied.
SHORTEST_COPIED_ROW, LONGEST_COPIED_ROW = 4, 128
# Beside columns, the most elements of a row of copies, and the most copies.
LONGEST_RUN_OF_COPIES, MOST_COPIES = 512, 8


def row_by_row(length: int) -> AbstractContextManager[Any]:
    """Returns a context in which NumPy's buffers are the quickest for rows of a length."""
    return (
        nullcontext() if length < SHORTEST_DIRECT_ROW else errstate(bufsize=DIRECT_BUFFER_ELEMENTS)
    )


def is_rowwise(grid: Grid, x: Groups, y: Groups, itemsize: int) -> bool:
    """Says whether two values with some axes of a grid are a matrix and a row, in this order."""
    return (
        x == {0, 1} == {*range(len(grid.shape))}
        and y == {1}
        and 1 < grid.inner <= min(LONGEST_COPIED_ROW_BYTES // itemsize, UNBUFFERED_RUN // 2)
        and grid.rows * grid.inner >= SMALLEST_ROWWISE_ELEMENTS
    )


def is_outer(shape: Shape, x: Groups, y: Groups) -> bool:
    """Says whether two values with some axes of a grid are columns and rows, in this order."""
    last = len(shape) - 1
    return (
        last > 0
        and SHORTEST_COPIED_ROW <= shape[last] <= LONGEST_COPIED_ROW
        and x | y == frozenset(range(len(shape)))
        and last - 1 in x
        and last not in x
        and last in y
        and last - 1 not in y
    )


def rowwise(ufunc: np.ufunc, x: Buffer, y: Buffer, out: Buffer, first: bool) -> None:
    """Computes ``ufunc(x, y, out)``, or ``ufunc(y, x, out)``, with the same bits.

    Args:
        ufunc: of two operands.
        x: a matrix.
        y: a row, with an axis of length 1 in front.
        out: the memory of the result, without gaps; it may be x.
        first: whether x is the first operand.
    """
    many, length = out.shape
    times = (UNBUFFERED_RUN if length >= SHORTEST_DIRECT_ROW else BUFFERED_RUN) // length
    whole = many - many % times if x.flags.c_contiguous else 0
    if whole:
        rows, into = (v[:whole].reshape(-1, times * length) for v in (x, out))
        in_order(ufunc, rows, row_of_copies(y, times), into, first)
    if whole < many:
        in_order(ufunc, x[whole:], y, out[whole:], first)


def outer(ufunc: np.ufunc, x: Buffer, y: Buffer, out: Buffer, first: bool) -> None:
    """Does the same for numbers x (..., rows, 1) and rows y (..., 1, length)."""
    *before, many, length = out.shape
    times = min(LONGEST_RUN_OF_COPIES // length, MOST_COPIES)
    while times > 1 and many % times:
        times -= 1
    if times < 2 or out.size < SMALLEST_OUTER_ELEMENTS:
        in_order(ufunc, x, y, out, first)
        return
    np.copyto(out, x)
    rows = out.reshape(*before, many // times, times * length)
    in_order(ufunc, rows, row_of_copies(y, times), rows, first)


def row_of_copies(y: Buffer, times: int) -> Buffer:
    """Returns rows (..., 1, length) that are repeated along their last axis."""
    copies = np.empty((*y.shape[:-2], times, y.shape[-1]), y.dtype)
    np.copyto(copies, y)
    return copies.reshape(*y.shape[:-2], 1, times * y.shape[-1])


def in_order(ufunc: np.ufunc, x: Buffer, y: Buffer, out: Buffer, first: bool) -> None:
    """Calls a ufunc of two operands, of which x is the first or the second one."""
    ufunc(*((x, y) if first else (y, x)), out=out)
