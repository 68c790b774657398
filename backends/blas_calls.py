"""Products and factorisations that BLAS is to compute on the calling thread alone.

BLAS shares what takes a few dozen microseconds among threads of its own, and waits for them without
letting go of its core. If other processes want the cores too, it waits for milliseconds: on two
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
    from .annotations import ArrayModule, Buffer, Shape

__all__ = [
    "READING_WORK", "SHORTEST_BLAS_THREADED_VECTOR", "SMALLEST_BLAS_THREADED_WORK",
    "SMALLEST_EXAMINED_WORK", "SMALLEST_SHARED_WORK", "added_up", "by_blas", "calmly", "dot",
    "of_turned", "product", "work_of",
]  # fmt: skip

# Work counts multiplications. If the elements of the first operand times the columns of the second
# are fewer, BLAS computes the product on the calling thread, and nothing else is examined.
SMALLEST_EXAMINED_WORK = 1 << 18
# Products of matrices of less work are computed on the calling thread too.
SMALLEST_BLAS_THREADED_WORK = 1 << 19
# Products of more work are worth the threads of a plan.
SMALLEST_SHARED_WORK = 1 << 23
# What two matrices take that machine code of our own may multiply.
WORK_BY_CODE = range(1 << 18, 1 << 27)
# Reading an element of a matrix for a product with a vector takes as long as this work.
READING_WORK = 4
# BLAS shares a product of two vectors among its threads from this length on.
SHORTEST_BLAS_THREADED_VECTOR = 8192
# Matrices of fewer elements are added up in less time than it takes to keep BLAS to one thread.
FEWEST_BLAS_THREADED_TERMS = 1 << 18
# BLAS factorises smaller matrices on the calling thread by itself. Larger ones are worth several
# threads. Matrices between are made calm: they get one thread.
FEWEST_CALM_ROWS, MOST_CALM_ROWS = 32, 256
# Work on fewer elements takes less time than a thread may have to wait.
FEWEST_PARALLEL_ELEMENTS = 1 << 18
BLAS_DTYPES = "fdFD"


def dot(x: Buffer, y: Buffer, out: Buffer | None = None) -> Any:
    """Returns the product of vectors and matrices; other threads run meanwhile.

    NumPy's ``matmul`` holds the interpreter's lock while it computes. Its ``dot`` multiplies
    nothing by a single number of zero: NaN and infinity beside that would be lost.
    """
    if min(x.size, y.size) > 1:
        return np.dot(x, y, out)
    return np.matmul(x, y) if out is None else np.matmul(x, y, out)


def added_up(x: Buffer, y: Buffer) -> Any:
    """Returns ``x @ y``, one of them a vector of ones, on the calling thread."""
    if max(x.size, y.size) >= FEWEST_BLAS_THREADED_TERMS:
        control = controlled()
        if control is not None and control.several():
            with alone():
                return np.matmul(x, y)
    return np.matmul(x, y)


def work_of(x: Shape, y: Shape) -> int:
    """Returns how many multiplications the largest single product of two (stacks of) arrays takes,
    as long as they take in products of matrices.
    """
    if len(x) == 1 or len(y) == 1:
        return READING_WORK * max(prod(x[-2:]), prod(y[-2:]))
    return prod(x[-2:]) * y[-1]


# Multiplies matrices in parts, side by side; the CPU's backend says how.
IN_PARTS: list[Callable[[Any, Any], Any]] = []
# Multiplies two matrices by machine code, and adds a row to each row of their product.
BY_CODE: list[Callable[..., Any]] = []


def product(x: Buffer, y: Buffer) -> Any:
    """Returns ``x @ y`` of NumPy's arrays with axes, with the bits of BLAS."""
    if x.ndim == y.ndim == 2 and x.size * y.shape[1] in WORK_BY_CODE:
        turned = layout_by_code(x, y)
        if turned is not None:
            x, y = x.T if turned[0] else x, y.T if turned[1] else y
            return BY_CODE[0](x, y, turned=turned)
    return by_blas(x, y)


def biased_product(x: Buffer, y: Buffer, bias: Buffer) -> Any:
    """Returns ``x @ y + bias`` of two matrices and a row, with the bits of BLAS and NumPy."""
    if x.size * y.shape[1] in WORK_BY_CODE:
        turned = layout_by_code(x, y)
        if turned is not None:
            x, y = x.T if turned[0] else x, y.T if turned[1] else y
            return BY_CODE[1](x, y, bias, turned=turned)
    out = by_blas(x, y)
    return np.add(out, bias, out)


def layout_by_code(x: Buffer, y: Buffer) -> tuple[bool, bool] | None:
    """Returns which of two matrices machine code takes transposed; None where it takes neither."""
    turned = x.flags.f_contiguous, y.flags.f_contiguous
    if not (turned[1] or y.flags.c_contiguous):
        return None
    if turned[0]:
        return turned
    return (False, turned[1]) if x.flags.c_contiguous else None


def of_turned(x: Buffer, y: Buffer, *, turned: tuple[bool, bool]) -> Any:
    """Returns the product by BLAS of two matrices, or of transposed ones."""
    return by_blas(x.T if turned[0] else x, y.T if turned[1] else y)


def of_turned_and_biased(x: Buffer, y: Buffer, bias: Buffer, *, turned: tuple[bool, bool]) -> Any:
    """Returns such a product with a row added to each of its rows."""
    out = of_turned(x, y, turned=turned)
    return np.add(out, bias, out)


def by_blas(x: Buffer, y: Buffer) -> Any:
    """Returns ``x @ y`` of NumPy's arrays with axes, by the number of threads that it is worth."""
    if x.dtype != y.dtype or x.dtype.char not in BLAS_DTYPES:
        return np.matmul(x, y)
    work = work_of(x.shape, y.shape)
    vectors = x.ndim == y.ndim == 1
    least = READING_WORK * SHORTEST_BLAS_THREADED_VECTOR if vectors else SMALLEST_BLAS_THREADED_WORK
    control = controlled()
    if work < least or control is None or not control.several():
        return np.matmul(x, y)
    stacks = x.ndim > 2 or y.ndim > 2
    in_parts = is_stack_in_parts(x.shape, y.shape, work) if stacks else not vectors
    shared = work >= SMALLEST_SHARED_WORK
    if shared and not in_parts:
        return np.matmul(x, y)
    with alone():
        return IN_PARTS[0](x, y) if in_parts and (shared or stacks) else np.matmul(x, y)


def is_stack_in_parts(x: Shape, y: Shape, work: int) -> bool:
    """Says whether threads share the products of two stacks, each of which takes so much work."""
    number = prod(x[:-2])
    return len(x) > 2 and x[:-2] == y[:-2] and number > 1 and work * number >= SMALLEST_SHARED_WORK


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
