"""Products of matrices, in parts that the plan's own threads share.

BLAS would share them among its own threads. These look for more work for milliseconds after a
product. The plan's threads do not get their cores in that time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays.column_times_row import widened
from ....blas_calls import dot
from ....blas_threads import controlled
from .pool import share, threads

if TYPE_CHECKING:
    from ....annotations import Buffer, Shape

__all__ = ["SharedProduct", "threaded_matmul"]


# The rows of BLAS's tiles, and the fewest tiles of a part that begins with a whole one.
BLAS_TILE_ROWS, FEWEST_TILES = 16, 2


def threaded_matmul(
    x: Buffer,
    y: Buffer,
    out: Buffer | None = None,
    sharing: Callable[[Callable[[], Any], int], None] = share,
) -> Any:
    """Returns ``x @ y``, in the memory of ``out`` or in new memory.

    x is an array (rows, k) or (k,) and y one (k, columns) or (k,), or both are stacks of as many.

    Every thread computes one part. BLAS may add up in another order for another shape, so that the
    last bits may depend on the number of threads. A vector times a matrix is a sum of parts. They
    do not depend on whether ``sharing`` uses that number.
    """
    number = threads.number
    if number < 2 or controlled() is None:
        if x.shape[-1] == 1 < y.ndim:
            x, y = widened(np, x, y)
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    if x.ndim == 1:
        sums = np.empty((number, *y.shape[1:]), x.dtype)
        parts = [(x[cut], y[cut], sums[i, ...]) for i, cut in enumerate(cuts(len(x), number))]
        sharing(partial(multiply_each, iter(parts)), len(parts))
        return np.add.reduce(sums, axis=0, out=out)
    out, parts = cut_up(x, y, out)
    sharing(partial(multiply_each, iter(parts)), len(parts))
    return out


def cut_up(x: Buffer, y: Buffer, out: Buffer | None = None) -> tuple[Any, list[Any]]:
    """Returns the memory for ``x @ y``, and the operands and memory of every part."""
    number = threads.number
    if out is None:
        shape = x.shape[:-1] if y.ndim == 1 else (*x.shape[:-1], y.shape[-1])
        out = np.empty(shape, x.dtype)
    if x.shape[-1] == 1 < y.ndim:
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
    """The run of ``x @ y`` in a group that threads share: see `run_side_by_side`.

    If ``rows``, x is a stack of which all rows are multiplied at once by one matrix.
    """

    def __init__(self, rows: bool, shape: Shape) -> None:
        self.rows = rows
        self.shape = shape

    def __repr__(self) -> str:
        return f"<a product of shape {self.shape} in parts>"

    def begun(self, operands: Any, into: Any) -> tuple[Any, Callable[[], None]]:
        """Returns the memory of the result, and the function that every thread calls to fill it."""
        x, y = operands
        if self.rows:
            x = x.reshape(-1, x.shape[-1])
            into = into if into is None else into.reshape(-1, y.shape[-1])
        out, parts = cut_up(x, y, into)
        return out, partial(multiply_each, iter(parts))

    def finished(self, out: Buffer) -> Buffer:
        """Returns the result."""
        return out.reshape(self.shape)


def cuts(length: int, number: int) -> list[slice]:
    """Returns slices of about one length, which begin at multiples of BLAS's tiles."""
    tile = BLAS_TILE_ROWS if length >= FEWEST_TILES * BLAS_TILE_ROWS * number else 1
    edges = [length * i // number // tile * tile for i in range(number)]
    return [slice(low, high) for low, high in zip(edges, [*edges[1:], length])]


def multiply_each(parts: Any) -> None:
    """Multiplies one part after the other."""
    for x, y, out in parts:
        if x.ndim == 1:
            # ``matmul`` would hold the interpreter's lock here.
            dot(x, y, out)
        else:
            np.matmul(x, y, out)
