"""Colours for columns: those that meet in a row get different ones."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import Buffer

__all__ = ["coloured"]


def coloured(rows: Buffer, cols: Buffer, width: int) -> Buffer:
    """Returns a colour for every column, greedily, the first that no row of the column has yet.

    Args:
        rows, cols: the places that may differ from zero.
        width: how many columns there are.

    Returns:
        An array of integers from 0 up, one for each column.

    The idea is due to A. Curtis, M. Powell and J. Reid, "On the estimation of sparse Jacobian
    matrices", IMA Journal of Applied Mathematics 13 (1974).

    >>> coloured(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), 3)
    array([0, 1, 0])
    """
    order = np.argsort(cols, kind="stable")
    ends = np.searchsorted(cols[order], np.arange(width), side="right")
    colours = np.zeros(width, np.int64)
    taken: dict[int, int] = {}  # of each row the colours that occur in it, as bits
    start = 0
    for column, end in enumerate(ends.tolist()):
        places = rows[order[start:end]].tolist()
        start = end
        forbidden = 0
        for row in places:
            forbidden |= taken.get(row, 0)
        free = ~forbidden & (forbidden + 1)  # the lowest bit that is not set
        colours[column] = free.bit_length() - 1
        for row in places:
            taken[row] = taken.get(row, 0) | free
    return colours
