"""Ufuncs of a matrix and a row: copies of the row meet several rows of the matrix at once.

NumPy goes over one row of the matrix after the other. If rows are shorter than its buffers, it
fills a buffer with copies of the row, again for every buffer. That takes as long as the ufunc.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ....restoring import errstate
from .grid import Grid

if TYPE_CHECKING:
    from ....annotations import Buffer

__all__ = ["is_rowwise", "row_by_row", "rowwise"]

# Rows of this length and more are quicker one by one than with copies in buffers. NumPy makes no
# copies if its buffers are shorter than rows, as buffers of the second length are.
SHORTEST_DIRECT_ROW, DIRECT_BUFFER_ELEMENTS = 384, 256
# The lengths of rows that are made of copies: that of NumPy's usual buffers, and one for small
# buffers. Rows of more bytes than the third number are long enough as they are.
BUFFERED_RUN, UNBUFFERED_RUN, LONGEST_COPIED_ROW_BYTES = 8192, 2048, 2560
# Smaller matrices are not worth the copies.
SMALLEST_ROWWISE_ELEMENTS = 65536


def row_by_row(length: int) -> AbstractContextManager[Any]:
    """Returns a context in which NumPy's buffers are the quickest for rows of a length."""
    return (
        nullcontext() if length < SHORTEST_DIRECT_ROW else errstate(bufsize=DIRECT_BUFFER_ELEMENTS)
    )


def is_rowwise(grid: Grid, x: frozenset[int], y: frozenset[int], itemsize: int) -> bool:
    """Says whether two values with some axes of a grid are a matrix and a row, in this order."""
    return (
        x == {0, 1} == {*range(len(grid.shape))}
        and y == {1}
        and 1 < grid.inner <= min(LONGEST_COPIED_ROW_BYTES // itemsize, UNBUFFERED_RUN // 2)
        and grid.rows * grid.inner >= SMALLEST_ROWWISE_ELEMENTS
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
        copies = np.empty((times, length), y.dtype)
        np.copyto(copies, y)
        copies = copies.reshape(1, -1)
        rows = x[:whole].reshape(-1, times * length)
        into = out[:whole].reshape(-1, times * length)
        ufunc(*((rows, copies) if first else (copies, rows)), out=into)
    if whole < many:
        rows = x[whole:]
        ufunc(*((rows, y) if first else (y, rows)), out=out[whole:])
