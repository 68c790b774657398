"""Functions of PyTorch that solve linear systems by factors of matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...custom.rules import custom_jvp
from ...numpy import linalg
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...primitives.linalg.stacks import hermitian_part
from ..grad_mode import mode
from ..tape import TAPE
from .naming import copied

__all__ = [
    "LU", "CholeskyEx", "LUFactor", "TriangularSolve", "cholesky_inverse", "cholesky_solve", "lu",
    "lu_solve", "lu_unpack", "matrix_exp", "triangular_solve",
]  # fmt: skip


class LUFactor(NamedTuple):
    """The factors of matrices in one, and the rows that were swapped, counted from 1."""

    LU: Any
    pivots: Any


class LU(NamedTuple):
    """A permutation and two triangular factors: ``A = P @ L @ U``."""

    P: Any
    L: Any
    U: Any


class TriangularSolve(NamedTuple):
    """A solution, and the matrix that it is of."""

    solution: Any
    cloned_coefficient: Any


class CholeskyEx(NamedTuple):
    """A factor, and 0 where it is one."""

    L: Any
    info: Any


def lower_part(A: Any, upper: bool) -> Any:
    """Returns the lower one of Cholesky's factors."""
    return ops.conj(ops.swapaxes(A, -1, -2)) if upper else A


@custom_jvp
def _in_both_triangles(A: Any) -> Any:
    """Returns Hermitian matrices, whose change is the Hermitian part of what they change by."""
    return A


@_in_both_triangles.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return primals[0], hermitian_part(tangents[0])


def as_hermitian(A: Any) -> Any:
    """Returns Hermitian matrices, of which others read one triangle, with gradients for both alike.

    Values stay as they are: NaN in the triangle that is not read has no influence.
    """
    outside = isinstance(A, TAPE.tracer) and A.home is None
    constant = outside and (A.node is None or not mode.enabled)
    if constant or A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        return A
    return _in_both_triangles(A)


def triangular(A: Any, B: Any, lower: bool, unit: bool = False) -> Any:
    """Returns X of ``A @ X = B`` for triangular matrices; B has columns."""
    from ...scipy import linalg as factors

    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    wide = ops.broadcast_to(A, (*batch, *A.shape[-2:]))
    columns = ops.broadcast_to(B, (*batch, *B.shape[-2:]))
    return factors.solve_triangular(wide, columns, lower=lower, unit_diagonal=unit)


def matrix_exp(input: Array) -> Any:
    """Returns the exponentials of square matrices."""
    return linalg.expm(input)


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """Returns X of ``A @ X = B``, by Cholesky's factor of A.

    >>> import functensor.torch as torch
    >>> torch.cholesky_solve(torch.tensor([[8.0]]), torch.tensor([[2.0]])).item()
    2.0
    """
    low = lower_part(L, upper)
    return triangular(lower_part(low, True), triangular(low, B, True), False)


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """Returns the inverse of a matrix, by Cholesky's factor of it."""
    eye = beside(L, np.eye(L.shape[-1], dtype=L.dtype))
    return cholesky_solve(eye, L, upper)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """Returns X of ``A @ X = b`` for triangular matrices, and A."""
    matrix = ops.swapaxes(A, -1, -2) if transpose else A
    return TriangularSolve(triangular(matrix, b, upper == transpose, unitriangular), copied(A))


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Returns the factors of matrices in one, and the rows that were swapped, counted from 1.

    Args:
        A: matrices.
        pivot: whether rows may be swapped, which they must here.
        get_infos: whether to return a tensor of zeros too.

    Raises:
        ValueError: ``pivot`` is False.
    """
    from ...scipy import linalg as factors

    if not pivot:
        raise ValueError("lu: rows are swapped; there are no factors without pivots here")
    found, rows = factors.lu_factor(A)
    pivots = ops.astype(rows, np.dtype(np.int32)) + np.int32(1)
    if not get_infos:
        return LUFactor(found, pivots)
    return found, pivots, beside(A, np.zeros(A.shape[:-2], np.int32))


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Returns X of ``A @ X = b``, by the factors of A that `lu` returns."""
    from ...scipy import linalg as factors

    return factors.lu_solve((LU_data, LU_pivots - 1), b)


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> LU:
    """Returns P, L and U of the factors that `lu` returns; empty ones where they are not wanted."""
    rows, columns = LU_data.shape[-2:]
    n = min(rows, columns)
    none = beside(LU_data, np.zeros(0, LU_data.dtype))
    low = up = permutation = none
    if unpack_data:
        eye = np.eye(rows, n, dtype=LU_data.dtype)
        low, up = ops.tril(LU_data[..., :n], -1) + eye, ops.triu(LU_data[..., :n, :])
    if unpack_pivots:
        # Swaps one after the other, of the rows of a unit matrix for every matrix.
        eye = np.broadcast_to(np.eye(rows, dtype=LU_data.dtype), (*LU_data.shape[:-2], rows, rows))
        swapped = beside(LU_data, np.array(eye))
        for i in range(LU_pivots.shape[-1]):
            place = LU_pivots[..., i : i + 1, None] - 1
            numbers = np.arange(rows)[:, None]
            own = ops.equal(numbers, place)
            other = ops.take_along_axis(swapped, ops.astype(place, np.dtype(np.int64)), -2)
            first = swapped[..., i : i + 1, :]
            swapped = ops.where(own, first, ops.where(ops.equal(numbers, i), other, swapped))
        permutation = ops.swapaxes(swapped, -1, -2)
    return LU(permutation, low, up)
