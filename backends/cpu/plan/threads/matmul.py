"""Products of matrices, in parts that the plan's own threads share.

BLAS would share them among threads of its own. After a product those look for more work for
milliseconds, on cores that the plan's threads then do not get.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays.column_times_row import widened
from ....blas_threads import controlled
from .pool import share, threads

if TYPE_CHECKING:
    from ....annotations import Buffer

__all__ = ["SharedProduct", "threaded_matmul"]


def threaded_matmul(x: Buffer, y: Buffer, out: Buffer | None = None) -> Any:
    """Returns ``x @ y``.

    There is a part for every thread, and BLAS adds up in an order that may depend on the shape: so
    the last bits may depend on the number of threads. A vector times a matrix is a sum of as many
    parts.

    Args:
        x: an array (rows, k) or (k,), or a stack of them.
        y: an array (k, columns) or (k,), or a stack of as many as there are in x.
        out: where to, if that is told.
    """
    number = threads.number
    if number < 2 or controlled() is None:
        if x.shape[-1] == 1:
            x, y = widened(np, x, y)
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    if x.ndim == 1:
        sums = np.empty((number, y.shape[1]), x.dtype)
        parts = [(x[cut], y[cut], part) for cut, part in zip(cuts(len(x), number), sums)]
        multiply_parts(parts)
        return np.add.reduce(sums, axis=0, out=out)
    out, parts = cut_up(x, y, out)
    multiply_parts(parts)
    return out


def cut_up(x: Buffer, y: Buffer, out: Buffer | None = None) -> tuple[Any, list[Any]]:
    """Returns the memory for ``x @ y``, and the products that fill it."""
    number = threads.number
    if out is None:
        shape = x.shape[:-1] if y.ndim == 1 else (*x.shape[:-1], y.shape[-1])
        out = np.empty(shape, x.dtype)
    if x.shape[-1] == 1:
        x, y = widened(np, x, y)
    if y.ndim > 2:
        number = min(number, len(x))
        parts = [(x[cut], y[cut], out[cut]) for cut in cuts(len(x), number)]
    elif y.ndim == 1 or len(x) >= y.shape[1]:
        parts = [(x[cut], y, out[cut]) for cut in cuts(len(x), number)]
    else:
        parts = [(x, y[:, cut], out[:, cut]) for cut in cuts(y.shape[1], number)]
    return out, parts


class SharedProduct:
    """``x @ y`` as one of several things that threads share: see `together`.

    Args:
        rows: whether x is a stack whose rows are multiplied all at once, by one matrix.
        shape: that of the result.
    """

    def __init__(self, rows: bool, shape: tuple[int, ...]) -> None:
        self.rows = rows
        self.shape = shape

    def __repr__(self) -> str:
        return f"<a product of shape {self.shape} in parts>"

    def begun(self, operands: Any, into: Any) -> tuple[Any, Callable[[], None]]:
        """Returns the result's memory, and what each thread calls to fill it."""
        x, y = operands
        if self.rows:
            x = x.reshape(-1, x.shape[-1])
            into = into if into is None else into.reshape(-1, y.shape[-1])
        out, parts = cut_up(x, y, into)
        return out, partial(multiply_each, iter(parts))

    def finished(self, out: Buffer) -> Buffer:
        """Returns the result."""
        return out.reshape(self.shape)


def multiply_parts(parts: list[Any]) -> None:
    """Multiplies parts side by side."""
    share(partial(multiply_each, iter(parts)), len(parts))


def cuts(length: int, number: int) -> list[slice]:
    """Returns slices of about the same length, which begin where BLAS has whole tiles."""
    tile = 16 if length >= 32 * number else 1
    edges = [length * i // number // tile * tile for i in range(number)]
    return [slice(low, high) for low, high in zip(edges, [*edges[1:], length])]


def multiply_each(parts: Any) -> None:
    """Multiplies one part after the other."""
    for x, y, out in parts:
        if x.ndim == 1:
            # Here ``matmul`` lets no other thread run meanwhile.
            np.dot(x, y, out)
        else:
            np.matmul(x, y, out)
