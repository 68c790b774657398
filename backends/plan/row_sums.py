"""Sums of a block, along its rows, its columns or both, without BLAS's own threads.

BLAS adds up many times as fast as NumPy's reductions do, but takes to threads of its own where a
matrix or vector is large; it is given pieces that it does alone. In each of them it adds up a few
hundred terms one after the other, in as many lanes as its registers have.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

__all__ = [
    "column_product",
    "column_sum",
    "row_dot",
    "row_extremum",
    "row_product",
    "row_sum",
    "total_dot",
    "total_sum",
]

# Up to this many elements of a matrix, or of a vector, BLAS takes no threads.
ALONE = 8192
# Terms that are added up one after the other: rounding errors grow with them.
RUN = 1024

add: Any = np.add.reduce


@lru_cache(maxsize=64)
def _ones(length: int, dtype: Any) -> Any:
    ones = np.ones(length, dtype)
    ones.flags.writeable = False
    return ones


def row_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """Returns the sums over axes, which stay with length 1."""
    length = x.shape[-1]
    if (
        axes == (x.ndim - 1,)
        and length <= RUN
        and x.dtype.char in "fd"
        and x.flags.c_contiguous
    ):
        return _by_blas(x.reshape(-1, length)).reshape(*x.shape[:-1], 1)
    return add(x, axes, None, None, True)


def _by_blas(x: Any) -> Any:
    out = np.empty(len(x), x.dtype)
    _pieces(x, _ones(x.shape[1], x.dtype), out)
    return out


def _pieces(x: Any, y: Any, out: Any) -> None:
    """Fills an array with the products of a matrix's rows and a vector."""
    rows, length = x.shape
    together = max(ALONE // length, 1)
    whole = rows - rows % together
    flat = out.reshape(-1)
    if whole:
        np.matmul(x[:whole].reshape(-1, together, length), y, flat[:whole].reshape(-1, together))
    if whole < rows:
        np.matmul(x[whole:], y, flat[whole:])


def row_dot(x: Any, y: Any) -> Any:
    """Returns the sums of products over the last axis, which stays with length 1."""
    if x.shape[-1] > ALONE:
        return add(np.multiply(x, y), (x.ndim - 1,), None, None, True)
    return np.vecdot(x, y)[..., None]


def column_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """Returns the sums over axes, the first of them the blocks' own."""
    if axes == (0,) and x.ndim == 2 and x.flags.c_contiguous:
        rows, length = x.shape
        together = min(ALONE // length, RUN, rows)
        if together > 7:
            whole = rows - rows % together
            ones = _ones(together, x.dtype)
            out = add(np.matmul(ones, x[:whole].reshape(-1, together, length)), 0)
            if whole < rows:
                out += add(x[whole:], 0)
            return out
    return add(x, axes)


def row_product(x: Any, y: Any) -> Any:
    """Returns the products of rows with a vector, which has an axis of length 1 in front."""
    out = np.empty((len(x), 1), x.dtype)
    _pieces(x, y.reshape(-1), out)
    return out


def column_product(x: Any, y: Any) -> Any:
    """Returns the sum of rows of y, each times a number of x, which has an axis of length 1."""
    rows, length = y.shape
    together = max(min(ALONE // length, RUN, rows), 1)
    whole = rows - rows % together
    pieces = y[:whole].reshape(-1, together, length)
    out = add(np.matmul(x[:whole].reshape(-1, 1, together), pieces), (0, 1))
    if whole < rows:
        out += np.matmul(x[whole:, 0], y[whole:])
    return out


def total_sum(x: Any) -> Any:
    """Returns the sum of all elements."""
    return add(x, None)


def total_dot(x: Any, y: Any) -> Any:
    """Returns the sum of all products."""
    x, y = x.reshape(-1), y.reshape(-1)
    whole = x.size - x.size % ALONE
    total = np.vecdot(x[whole:], y[whole:])
    if whole:
        parts = np.vecdot(x[:whole].reshape(-1, ALONE), y[:whole].reshape(-1, ALONE))
        total = add(parts) + total
    return total


def row_extremum(x: Any, axes: tuple[int, ...], ufunc: Any) -> Any:
    """Returns maxima or minima over axes, which stay with length 1."""
    if axes == (x.ndim - 1,) and x.shape[-1] <= 32 and x.size > 512:
        columns = x.reshape(prod(x.shape[:-1]), x.shape[-1]).T.copy()
        return ufunc.reduce(columns, 0).reshape(*x.shape[:-1], 1)
    return ufunc.reduce(x, axes, None, None, True)
