"""Products and factorisations that BLAS is to compute on the calling thread alone.

BLAS shares what takes a few dozen microseconds among threads of its own, and waits for them without
letting go of its core. Where other processes want the cores too, it waits for milliseconds: on two
busy cores a product of (32, 256) and (256, 128) took 13 ms in place of 24 us, and the eigenvectors
of one matrix of 200 rows 600 ms in place of 1.3. On idle cores two threads save a third of the
time of such products, and of such factorisations nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .blas_threads import alone, controlled

if TYPE_CHECKING:
    from .annotations import ArrayModule, Buffer

__all__ = [
    "READING_WORK",
    "SHORTEST_BLAS_THREADED_VECTOR",
    "SMALLEST_BLAS_THREADED_WORK",
    "SMALLEST_EXAMINED_WORK",
    "SMALLEST_SHARED_WORK",
    "calmly",
    "product",
    "work_of",
]

# No product is looked at for which the first operand's elements times the second's columns, or
# elements, are no more: whatever its operands are, it is done by BLAS on the calling thread.
SMALLEST_EXAMINED_WORK = 1 << 18
# So are products of matrices of fewer multiplications.
SMALLEST_BLAS_THREADED_WORK = 1 << 19
# Those of more are worth the threads of a plan, which do not wait for one that has not begun.
SMALLEST_SHARED_WORK = 1 << 23
# An element of a matrix that meets one of a vector takes as long to be read as so many of these.
READING_WORK = 4
# Sums of products of two vectors are shared by BLAS from so many elements on.
SHORTEST_BLAS_THREADED_VECTOR = 8192
# Matrices with fewer rows and columns are factorised on the calling thread in any case; of those
# with more, several threads are worth their trouble.
FEWEST_CALM_ROWS, MOST_CALM_ROWS = 32, 256
# What has fewer elements takes less time than a thread may be kept waiting.
FEWEST_PARALLEL_ELEMENTS = 1 << 18
BLAS_DTYPES = "fdFD"


def work_of(x: tuple[int, ...], y: tuple[int, ...]) -> int:
    """Returns how many multiplications the largest single product of two (stacks of) arrays takes,
    as long as they take in products of matrices.
    """
    if len(x) == 1 or len(y) == 1:
        return READING_WORK * max(prod(x[-2:]), prod(y[-2:]))
    return prod(x[-2:]) * y[-1]


# Multiplies matrices in parts, side by side; the CPU's backend says how.
IN_PARTS: list[Callable[[Any, Any], Any]] = []


def product(x: Buffer, y: Buffer) -> Any:
    """Returns ``x @ y`` of NumPy's arrays that have axes, by as many threads as it is worth."""
    if x.dtype != y.dtype or x.dtype.char not in BLAS_DTYPES:
        return np.matmul(x, y)
    work = work_of(x.shape, y.shape)
    vectors = x.ndim == y.ndim == 1
    control = controlled()
    if (
        work
        < (READING_WORK * SHORTEST_BLAS_THREADED_VECTOR if vectors else SMALLEST_BLAS_THREADED_WORK)
        or control is None
        or not control.several()
    ):
        return np.matmul(x, y)
    if work >= SMALLEST_SHARED_WORK and not vectors and y.ndim <= 2 and x.ndim <= 2:
        with alone():
            return IN_PARTS[0](x, y)
    if work >= SMALLEST_SHARED_WORK:
        return np.matmul(x, y)
    with alone():
        return np.matmul(x, y)


def calmly(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of an array module and (stacks of) matrices that does the same.

    Of matrices of a size at which several threads are only in each other's way, BLAS computes it
    with one.
    """

    @wraps(compute)
    def calm(xp: ArrayModule, *matrices: Buffer, **params: Any) -> Any:
        if xp is np and FEWEST_CALM_ROWS <= max(matrices[0].shape[-2:]) <= MOST_CALM_ROWS:
            control = controlled()
            if control is not None and control.several():
                with alone():
                    return compute(xp, *matrices, **params)
        return compute(xp, *matrices, **params)

    return calm
