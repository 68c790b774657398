"""Triangular systems and elimination for many small matrices at once.

LAPACK's functions take one matrix a call, and a call takes as long as thousands of multiplications.
Here every step of the algorithm is done for all matrices of a stack, which is the last axis.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import quiet

if TYPE_CHECKING:
    from ..annotations import Buffer, DType

__all__ = ["eliminated", "is_eliminated", "is_substituted", "solve_by_substitution"]

# Times in nanoseconds: of a step for a stack of any length; of moving an element to its place
# beside those of other matrices; of one multiplication, in steps and in LAPACK.
STEP_NANOSECONDS, COPY_NANOSECONDS = 3000.0, 1.5
IN_STEPS, IN_CALLS = 0.9, 0.4
# Times of a call of BLAS for one system, and of LAPACK for the factors of one matrix.
SYSTEM_CALL_NANOSECONDS, FACTORS_CALL_NANOSECONDS = 350.0, 700.0
# The time of a step of elimination over that of a step of substitution.
ELIMINATION = 4


def is_substituted(stack: int, n: int, columns: int) -> bool:
    """Says whether a number of triangular systems is solved more quickly all at once."""
    return _is_quicker(stack, n, n * n, n * n * columns // 2, SYSTEM_CALL_NANOSECONDS)


def is_eliminated(stack: int, m: int, n: int) -> bool:
    """Says whether a number of matrices is factorised more quickly all at once."""
    steps = min(m, n)
    return _is_quicker(
        stack, ELIMINATION * steps, m * n, m * n * steps // 2, FACTORS_CALL_NANOSECONDS
    )


def _is_quicker(stack: int, steps: int, size: int, work: int, call: float) -> bool:
    """Says whether an algorithm is quicker for all matrices at once than one after the other.

    All ``stack`` matrices at once take ``steps`` steps. A matrix has ``size`` elements and takes
    ``work`` multiplications, beside which a call for it alone takes ``call`` nanoseconds.
    """
    at_once = steps * STEP_NANOSECONDS + stack * (size * COPY_NANOSECONDS + work * IN_STEPS)
    return at_once < stack * (call + work * IN_CALLS)


def _stack_last(x: Buffer, dtype: DType) -> Buffer:
    """Returns matrices with their own axes in front of those of the stack."""
    axes = x.ndim - 2, x.ndim - 1, *range(x.ndim - 2)
    return np.ascontiguousarray(x.transpose(axes), dtype)


def _stack_first(x: Buffer) -> Buffer:
    """Returns matrices with the axes of the stack in front of their own."""
    return np.ascontiguousarray(x.transpose(*range(2, x.ndim), 0, 1))


def solve_by_substitution(
    a: Buffer, b: Buffer, dtype: DType, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> Buffer | None:
    """Solves triangular systems column by column; arguments as for `lapack.triangles_solved`.

    None stands for a 0 in a diagonal.
    """
    n = a.shape[-1]
    if transposed:
        a, lower = a.mT, not lower
    if not unit_diagonal and not a.diagonal(0, -2, -1).all():
        return None
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    ones = (1,) * (len(stack) + 2 - a.ndim)
    columns = _stack_last(a.reshape(*ones, *a.shape), dtype)
    rest = _stack_last(np.broadcast_to(b, (*stack, *b.shape[-2:])), dtype)
    if np.may_share_memory(rest, b):
        rest = rest.copy()
    with quiet():
        for i in range(n) if lower else range(n - 1, -1, -1):
            found = rest[i]
            if not unit_diagonal:
                found /= columns[i, i]
            below = slice(i + 1, None) if lower else slice(i)
            rest[below] -= columns[below, i, None] * found
    return _stack_first(rest)


def eliminated(a: Buffer) -> tuple[Any, Any]:
    """Factorises matrices by elimination with the largest pivot of each column.

    Returns:
        Both factors in one matrix each, and the pivots: row i was swapped with row ``pivots[i]``.
    """
    stack, (m, n) = a.shape[:-2], a.shape[-2:]
    count = prod(stack)
    both = _stack_last(a.reshape(count, m, n), a.dtype)
    if np.may_share_memory(both, a):
        both = both.copy()
    pivots = np.empty((min(m, n), count), np.intp)
    every = np.arange(count)
    with quiet():
        for i in range(min(m, n)):
            column = both[i:, i]
            sizes = np.abs(column.real) + np.abs(column.imag) if a.dtype.kind == "c" else None
            pivot = np.argmax(np.abs(column) if sizes is None else sizes, axis=0) + i
            pivots[i] = pivot
            if (pivot != i).any():
                first = both[i].copy()
                both[i] = both[pivot, :, every].T
                both[pivot, :, every] = first.T
            # LAPACK leaves columns of zeros as they are.
            divisor = both[i, i]
            below = both[i + 1 :]
            np.divide(below[:, i], divisor, out=below[:, i], where=divisor != 0)
            below[:, i + 1 :] -= below[:, i, None] * both[i, i + 1 :]
    factors = _stack_first(both).reshape(*stack, m, n)
    return factors, pivots.T.reshape(*stack, min(m, n))
