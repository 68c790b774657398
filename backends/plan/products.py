"""Products of matrices, in parts that the plan's own threads share.

BLAS would share them among threads of its own. After a product those look for more work for
milliseconds, on cores that the plan's threads then do not get.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from .blas import alone, controlled
from .pool import share, threads

__all__ = ["SHARED", "multiplied", "work_of"]

# For fewer multiplications BLAS is quicker by itself, with threads of its own if nothing else in a
# plan is shared.
SHARED = 1 << 23


def work_of(x: tuple[int, ...], y: tuple[int, ...]) -> int:
    """Returns how many multiplications the product of arrays of two shapes takes."""
    return prod(x) * (y[-1] if len(y) > 1 else 1)


def multiplied(x: Any, y: Any, out: Any = None) -> Any:
    """Returns ``x @ y``.

    Args:
        x: an array (rows, k) or (k,), or a stack of them.
        y: an array (k, columns) or (k,), or a stack of as many as there are in x.
        out: where to, if that is told.
    """
    number = threads.number
    if number < 2 or controlled() is None:
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    if x.ndim == 1:
        sums = np.empty((number, y.shape[1]), x.dtype)
        parts = [(x[cut], y[cut], part) for cut, part in zip(cuts(len(x), number), sums)]
        shared(parts)
        return np.add.reduce(sums, 0, None, out)
    if out is None:
        shape = x.shape[:-1] if y.ndim == 1 else (*x.shape[:-1], y.shape[-1])
        out = np.empty(shape, x.dtype)
    if y.ndim > 2:
        number = min(number, len(x))
        parts = [(x[cut], y[cut], out[cut]) for cut in cuts(len(x), number)]
    elif y.ndim == 1 or len(x) >= y.shape[1]:
        parts = [(x[cut], y, out[cut]) for cut in cuts(len(x), number)]
    else:
        parts = [(x, y[:, cut], out[:, cut]) for cut in cuts(y.shape[1], number)]
    shared(parts)
    return out


def shared(parts: list[Any]) -> None:
    """Multiplies parts side by side."""
    with alone():
        share(partial(work, iter(parts)), len(parts))


def cuts(length: int, number: int) -> list[slice]:
    """Returns slices of about the same length, which begin where BLAS has whole tiles."""
    tile = 16 if length >= 32 * number else 1
    edges = [length * i // number // tile * tile for i in range(number)]
    return [slice(low, high) for low, high in zip(edges, [*edges[1:], length])]


def work(parts: Any) -> None:
    """Multiplies one part after the other."""
    for x, y, out in parts:
        np.matmul(x, y, out)
