"""Columns times rows: products of matrices of which every sum has one term.

NumPy does not ask BLAS for these, and its own loop takes ten times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_widened", "product", "widened"]

# Of fewer products NumPy's loop is quick enough. For so few rows or columns, or for rows so long,
# its multiplication is.
SMALL, FEW, LONG = 256, 4, 1024


def is_widened(x: tuple[int, ...], y: tuple[int, ...], dtype: Any) -> bool:
    """Says whether (stacks of) columns and rows of these shapes are for BLAS."""
    rows, columns = x[-2], y[-1]
    return dtype.char in "fd" and rows >= FEW and FEW <= columns < LONG and rows * columns >= SMALL


def widened(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Returns columns and rows with a second one of zeros beside them."""
    columns = xp.zeros((*x.shape[:-1], 2), x.dtype)
    columns[..., :1] = x
    rows = xp.zeros((*y.shape[:-2], 2, y.shape[-1]), y.dtype)
    rows[..., :1, :] = y
    return columns, rows


def product(xp: Any, x: Any, y: Any) -> Any:
    """Returns ``x @ y`` of columns (..., rows, 1) and rows (..., 1, columns) of one dtype."""
    if is_widened(x.shape, y.shape, x.dtype):
        # BLAS fills its tiles with zeros, beside which infinities are none of the user's making.
        with np.errstate(invalid="ignore"):
            return xp.matmul(*widened(xp, x, y))
    return (xp.matmul if x.shape[-2] * y.shape[-1] < SMALL else xp.multiply)(x, y)
