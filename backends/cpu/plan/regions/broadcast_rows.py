"""A row beside all rows of a matrix: copies of it meet several of them at once.

NumPy goes over one row of the matrix after the other. Where they are shorter than its buffers, it
first fills a buffer with copies of the row beside them, or of numbers beside them, for every buffer
anew: that takes as long as what is computed then.
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

# Rows of so many numbers are quicker gone over one by one than with copies in buffers, which NumPy
# only makes if its buffers are longer than they are.
SHORTEST_DIRECT_ROW, DIRECT_BUFFER_ELEMENTS = 384, 256
# How many numbers long rows are made, of copies: as long as NumPy's usual buffers, or, where those
# are small, as is enough. Rows of more bytes than LONG are long enough as they are.
BUFFERED_RUN, UNBUFFERED_RUN, LONGEST_COPIED_ROW_BYTES = 8192, 2048, 2560
# Smaller matrices are not worth the copies.
SMALLEST_ROWWISE_ELEMENTS = 65536


def row_by_row(length: int) -> AbstractContextManager[Any]:
    """Returns a block in which NumPy's functions go over rows of a length as is quickest."""
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
        out: where to, without gaps; it may be x.
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
