"""Columns times rows: products of matrices whose sums have one term.

NumPy does not call BLAS for these, and its own loop takes up to ten times as long.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import errstate

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer, DType, Shape

__all__ = ["columns_by_rows", "is_widened", "widened", "without_signs"]

# BLAS is quicker from so many results on, of all matrices and of one.
FEWEST_RESULTS, FEWEST_RESULTS_OF_ONE = 4096, 256
# It is slower with fewer rows or columns, and with this many columns or more.
FEWEST_ROWS_OR_COLUMNS, FEWEST_COLUMNS_TOO_MANY = 4, 1024


def is_widened(x: Shape, y: Shape, dtype: DType) -> bool:
    """Says whether (stacks of) columns and rows of these shapes are for BLAS."""
    rows, columns = rows_of_one_product(x, y), y[-1]
    if (
        dtype.char not in "fd"
        or rows < FEWEST_ROWS_OR_COLUMNS
        or not FEWEST_ROWS_OR_COLUMNS <= columns < FEWEST_COLUMNS_TOO_MANY
    ):
        return False
    return rows * columns >= FEWEST_RESULTS_OF_ONE and is_past_numpys_loop(x, y)


def is_past_numpys_loop(x: Shape, y: Shape) -> bool:
    """Says whether NumPy's loop for matrices is not the quickest for columns and rows."""
    return max(prod(x[:-2]), prod(y[:-2])) * x[-2] * y[-1] >= FEWEST_RESULTS


def rows_of_one_product(x: Shape, y: Shape) -> int:
    """Returns the rows of one product; stacks are joined where one matrix multiplies them all."""
    return prod(x[:-1]) if len(y) == 2 else x[-2]


def is_multiplied(x: Shape, y: Shape) -> bool:
    """Says whether columns and rows that are not for BLAS are quickest multiplied as they are."""
    return (
        y[-1] >= FEWEST_ROWS_OR_COLUMNS
        and rows_of_one_product(x, y) * y[-1] >= FEWEST_RESULTS_OF_ONE
        and is_past_numpys_loop(x, y)
    )


def widened(xp: ArrayModule, x: Buffer, y: Buffer) -> tuple[Any, Any]:
    """Returns columns and rows with a second one of zeros beside them."""
    columns = xp.zeros((*x.shape[:-1], 2), x.dtype)
    columns[..., :1] = x
    rows = xp.zeros((*y.shape[:-2], 2, y.shape[-1]), y.dtype)
    rows[..., :1, :] = y
    return columns, rows


def columns_by_rows(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    """Returns ``x @ y`` of columns (..., rows, 1) and rows (..., 1, columns) of one dtype."""
    if is_widened(x.shape, y.shape, x.dtype):
        # BLAS fills its tiles with zeros, beside which infinities are none of the user's making.
        with errstate(invalid="ignore"):
            return xp.matmul(*widened(xp, x, y))
    if x.dtype.kind == "c" or not is_multiplied(x.shape, y.shape):
        return xp.matmul(x, y)
    return without_signs(xp.multiply(x, y))


def without_signs(products: Buffer) -> Buffer:
    """Returns sums of one term each: a sum begins with zero, to which -0.0 adds nothing."""
    if products.dtype.kind not in "fc":
        return products
    return np.add(products, 0, products if products.shape else None)
