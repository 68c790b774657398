"""Loops over stacks of matrices that call LAPACK and BLAS themselves.

SciPy's functions of one matrix check, convert and copy it, which takes ten times as long as a small
matrix's system. Here that is done once for a stack: every call works in place, in memory whose
columns lie one behind the other. A function that wants other memory still (some ask for addresses
that are multiples of 8) returns memory of its own, which is then copied.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import lapack_of_numpy
from ..optional_modules import scipy_module

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape

__all__ = [
    "banded_solved", "column_orders", "factorised", "is_lapack_dtype", "schur", "sylvester_solved",
    "triangles_solved",
]  # fmt: skip

# A function of SciPy's takes half the time of one that is called by its address, which needs no
# import.
MOST_CALLS_BY_ADDRESS = 4

LinAlgError = np.linalg.LinAlgError


def is_lapack_dtype(dtype: DType) -> bool:
    """Says whether LAPACK has functions for a dtype."""
    return dtype.char in lapack_of_numpy.PREFIXES


@cache
def _has_scipy() -> bool:
    return find_spec("scipy") is not None


@cache
def _routine(module: str, name: str, kind: str) -> Any:
    """Returns a function of BLAS or LAPACK for a dtype's character."""
    functions = getattr(scipy_module(np, "linalg"), module)
    return getattr(functions, lapack_of_numpy.PREFIXES[kind] + name)


def columns_contiguous(x: Buffer, stack: Shape, dtype: DType, rows_above: int = 0) -> Buffer:
    """Returns a copy of matrices, columns one behind the other, with zero rows above them."""
    m, n = x.shape[-2:]
    memory = np.empty((*stack, n, rows_above + m), dtype)
    memory[..., :rows_above] = 0
    memory[..., rows_above:] = x.mT
    return memory.reshape(prod(stack), n, rows_above + m).mT


def rows_contiguous(x: Buffer, stack: Shape) -> Buffer:
    """Returns matrices behind the stack's axes, rows one behind the other."""
    return np.ascontiguousarray(x).reshape(*stack, *x.shape[-2:])


def triangles_solved(
    a: Buffer, b: Buffer, dtype: DType, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> Buffer:
    """Solves triangular systems.

    Args:
        a: the matrices; one triangle of each is read.
        b: the right-hand sides, not empty; both stacks broadcast.
        dtype: the result's.
        lower, transposed, unit_diagonal: which triangle, what of it, and whether its diagonal is 1.

    Raises:
        LinAlgError: an element of a diagonal is 0.
    """
    if not unit_diagonal:
        diagonal = a.diagonal(0, -2, -1)
        if not diagonal.all():
            place = int((diagonal == 0).nonzero()[-1][0])
            raise LinAlgError(f"singular matrix: resolution failed at diagonal {place}")
    flags = {"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal}
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    few = prod(stack) <= MOST_CALLS_BY_ADDRESS or not _has_scipy()
    if few and lapack_of_numpy.has_lapack(dtype):
        return lapack_of_numpy.triangles_of_stack_solved(
            a.astype(dtype, copy=False), b.astype(dtype, copy=False), **flags
        )
    if not _has_scipy():
        triangle = np.tril(a, -unit_diagonal) if lower else np.triu(a, int(unit_diagonal))
        whole = triangle + unit_diagonal * np.eye(a.shape[-1], dtype=dtype)
        return np.linalg.solve(whole.mT if transposed else whole, b)
    # These may lie in the operand's memory, behind one axis.
    whole = np.broadcast_to(a, (*stack, *a.shape[-2:]))
    matrices = whole.reshape(prod(stack), *a.shape[-2:]).astype(dtype, copy=False)
    found = columns_contiguous(b, stack, dtype)
    if matrices.strides[-1] <= matrices.strides[-2]:
        matrices, lower, transposed = matrices.mT, not lower, not transposed
    if b.shape[-1] == 1:
        solve = _routine("blas", "trsv", dtype.char)
        for matrix, column in zip(matrices, found[..., 0], strict=True):
            x = solve(matrix, column, 1, 0, lower, transposed, unit_diagonal, 1)
            if x is not column:
                column[...] = x
    else:
        solve = _routine("blas", "trsm", dtype.char)
        for matrix, columns in zip(matrices, found, strict=True):
            x = solve(1.0, matrix, columns, 0, lower, transposed, unit_diagonal, 1)
            if x is not columns:
                columns[...] = x
    return rows_contiguous(found, stack)


def factorised(a: Buffer) -> tuple[Any, Any]:
    """Factorises matrices, not empty, by elimination with the largest pivot of each column.

    Returns:
        Both factors in one matrix each, and the pivots: row i was swapped with row ``pivots[i]``.
    """
    stack = a.shape[:-2]
    both = columns_contiguous(a, stack, a.dtype)
    factorise = _routine("lapack", "getrf", a.dtype.char)
    pivots = []
    for matrix in both:
        factors, own, _ = factorise(matrix, 1)
        pivots.append(own)
        if factors is not matrix:
            matrix[...] = factors
    return rows_contiguous(both, stack), np.array(pivots).reshape(*stack, -1)


def schur(a: Buffer) -> tuple[Any, Any]:
    """Returns Schur's form of matrices, not empty, complex ones' triangular, and the vectors.

    Raises:
        LinAlgError: an iteration did not end.
    """
    stack = a.shape[:-2]
    both = columns_contiguous(a, stack, a.dtype)
    decompose = _routine("lapack", "gees", a.dtype.char)
    work = int(decompose(_unsorted, both[0], lwork=-1)[-2][0].real)
    vectors = []
    for matrix in both:
        form, *_, own, _, info = decompose(_unsorted, matrix, 1, 0, work, (), 1)
        if form is not matrix:
            matrix[...] = form
        if info:
            raise LinAlgError("Schur's form was not found: the iteration did not end")
        vectors.append(own)
    return both.reshape(*stack, *a.shape[-2:]), np.array(vectors).reshape(a.shape)


def _unsorted(*eigenvalue: Buffer) -> None:
    """Takes the place of a choice between eigenvalues. LAPACK does not call it."""


def sylvester_solved(s: Buffer, t: Buffer, q: Buffer, *, adjoint: bool = True) -> Buffer:
    """Solves ``s x + x t* = q`` for forms of Schur's, not empty, or ``s x + x t = q``."""
    stack = np.broadcast_shapes(s.shape[:-2], t.shape[:-2], q.shape[:-2])
    found = columns_contiguous(q, stack, q.dtype)
    firsts, seconds = (columns_contiguous(x, stack, q.dtype) for x in (s, t))
    solve = _routine("lapack", "trsyl", q.dtype.char)
    kind = "C" if adjoint else "N"
    scales = []
    for first, second, columns in zip(firsts, seconds, found, strict=True):
        x, scale, _ = solve(first, second, columns, "N", kind, 1, 1)
        scales.append(scale)
        if x is not columns:
            columns[...] = x
    return rows_contiguous(found * np.array(scales, q.real.dtype)[:, None, None], stack)


def banded_solved(bands: Buffer, b: Buffer, dtype: DType, *, lower: int, upper: int) -> Buffer:
    """Solves systems of band matrices, given by their diagonals; right-hand sides are not empty.

    Raises:
        LinAlgError: a matrix is singular.
    """
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    found = columns_contiguous(b, stack, dtype)
    # Swaps of rows fill the rows above.
    rows = columns_contiguous(bands, stack, dtype, lower)
    solve = _routine("lapack", "gbsv", dtype.char)
    for matrix, columns in zip(rows, found, strict=True):
        _, _, x, info = solve(lower, upper, matrix, columns, 1, 1)
        if info > 0:
            raise LinAlgError("singular matrix")
        if x is not columns:
            columns[...] = x
    return rows_contiguous(found, stack)


def column_orders(a: Buffer) -> Buffer:
    """Returns the order in which QR with pivoting takes columns, of matrices that are not empty."""
    both = columns_contiguous(a, a.shape[:-2], a.dtype)
    decompose = _routine("lapack", "geqp3", a.dtype.char)
    work = int(decompose(both[0], -1)[-2][0].real)
    orders = [decompose(matrix, work, 1)[1] for matrix in both]
    return np.array(orders, np.int32).reshape(*a.shape[:-2], a.shape[-1]) - np.int32(1)
