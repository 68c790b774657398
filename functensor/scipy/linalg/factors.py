"""Cholesky's factors and the factors LU, and the systems that they solve."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...backends.annotations import Buffer
from ...numpy.creation import asarray
from ...numpy.linalg import solving as numpy_solving
from ...numpy.linalg.arguments import as_matrices, right_hand_side
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.shape_dtype import finfo
from ...primitives.linalg import triangular
from ...primitives.linalg.stacks import conjugate, unpacked

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "lu", "lu_factor", "lu_solve", "solved_by_triangle",
    "system", "vector_as_given",
]  # fmt: skip

TRANSPOSITIONS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def system(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array, bool]:
    """Returns a system's square matrices and its columns, and whether they were one vector."""
    return right_hand_side(name, as_matrices(name, a, square=True), b)


def vector_as_given(x: Array, vector: bool) -> Array:
    """Returns a solution as a vector where the right-hand side was one."""
    return ops.index(x, (Ellipsis, 0)) if vector else x


def _transposition(name: str, trans: int | str) -> int:
    """Returns 0 for matrices as they are, 1 for their transposes, 2 for their adjoints."""
    trans = trans if isinstance(trans, str) else operator.index(trans)
    if trans not in TRANSPOSITIONS:
        raise ValueError(f"{name} is 0 or 'N', 1 or 'T', 2 or 'C', not {trans!r}")
    return TRANSPOSITIONS[trans]


def solved_by_triangle(
    a: Array, b: Array | Buffer, trans: int | str, lower: bool, unit_diagonal: bool
) -> Array:
    """Returns the solution of a triangular system, with the matrices, or these transposed."""
    kind = _transposition("trans", trans)
    params = {"lower": bool(lower), "transposed": kind > 0, "unit_diagonal": bool(unit_diagonal)}
    return triangular.triangular_solve.bind((conjugate(a) if kind == 2 else a, b), params)


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Returns the Cholesky factors of positive definite matrices.

    Args:
        a: an array of shape (..., n, n), of which the triangle that is asked for is read; gradients
            lie there too.
        lower: whether to return L with ``L @ L.mT.conj() = a`` rather than its adjoint.
        overwrite_a, check_finite: of no effect.

    Returns:
        An array of a's shape.

    Raises:
        LinAlgError: a matrix is not positive definite.

    >>> from functensor.scipy import linalg
    >>> linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    return numpy_solving.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Returns the Cholesky factors of positive definite matrices, for `cho_solve`.

    Args:
        a, lower, overwrite_a, check_finite: as for `cholesky`.

    Returns:
        A pair of the factor, the other triangle of which is 0, and ``lower``.

    Raises:
        LinAlgError: a matrix is not positive definite.

    >>> from functensor.scipy import linalg
    >>> factor = linalg.cho_factor([[4.0, 0.0], [0.0, 1.0]])
    >>> linalg.cho_solve(factor, [4.0, 3.0]).tolist()
    [1.0, 3.0]
    """
    return cholesky(a, lower), lower


def _factor_pair(name: str, given: tuple[Any, Any], source: str) -> tuple[Any, Any]:
    """Returns a factor and its companion, refusing everything but such a pair."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"{name}: the first argument is the pair that {source} returns")
    return given[0], given[1]


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns x with ``a @ x = b``, for the Cholesky factor of a.

    Args:
        c_and_lower: the result of `cho_factor`.
        b: one vector of shape (n,), or an array of shape (..., n, k).
        overwrite_b, check_finite: of no effect.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        ShapeError: b has not as many rows.

    >>> from functensor.scipy import linalg
    >>> linalg.cho_solve(([[2.0, 0.0], [0.0, 1.0]], True), [4.0, 3.0]).tolist()
    [1.0, 3.0]
    """
    c, lower = _factor_pair("cho_solve", c_and_lower, "cho_factor(a)")
    c, b, vector = system("cho_solve", c, b)
    inner = solved_by_triangle(c, b, 0 if lower else 2, lower, False)
    return vector_as_given(solved_by_triangle(c, inner, 2 if lower else 0, lower, False), vector)


def _factorised(name: str, a: ArrayLike) -> tuple[Array, Array]:
    """Returns both factors in one matrix, and LAPACK's pivots."""
    a = as_matrices(name, a)
    both, pivots = unpacked(triangular.lu(a), triangular.lu_shapes(*a.shape[-2:]))
    return both, ops.astype(ops.real(pivots), np.int32)


def _row_order(pivots: Array, rows: int) -> Array:
    """Returns which row of a matrix every row of the factorised one is."""
    return triangular.pivots_to_permutation.bind((pivots,), {"rows": rows})


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:
    """Returns a permutation, a lower and an upper triangular factor: ``a = P @ L @ U``.

    Args:
        a: an array of shape (..., m, n).
        permute_l: whether to return ``P @ L`` and U alone.
        overwrite_a, check_finite: of no effect.
        p_indices: whether to return P as indices p with ``a = L[p] @ U``.

    Returns:
        P of shape (..., m, m), or (..., m) as indices, L of shape (..., m, k) with ones on its
        diagonal, and U of shape (..., k, n), for k = min(m, n). The derivative is that for a fixed
        permutation.

    Raises:
        MatrixShapeError: a has fewer than two axes.

    >>> from functensor.scipy import linalg
    >>> _, l, u = linalg.lu([[1.0, 2.0], [2.0, 2.0]])
    >>> l.tolist(), u.tolist()
    ([[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]])
    """
    both, pivots = _factorised("lu", a)
    m, n = both.shape[-2:]
    k = min(m, n)
    below = ops.tril(ops.index(both, (Ellipsis, slice(None, k))), -1)
    lower = below + beside(both, np.eye(m, k, dtype=both.dtype))
    upper = ops.triu(ops.index(both, (Ellipsis, slice(None, k), slice(None))))
    rows = ops.argsort(_row_order(pivots, m), axis=-1)
    if permute_l:
        return _rows_in_order(lower, rows), upper
    if p_indices:
        return rows, lower, upper
    permutation = ops.expand_dims(rows, -1) == beside(rows, np.arange(m))
    return ops.astype(permutation, finfo(both.dtype).dtype), lower, upper


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Returns the factors of matrices for `lu_solve`.

    Args:
        a: an array of shape (..., m, n).
        overwrite_a, check_finite: of no effect.

    Returns:
        Both factors in one array of a's shape, without L's diagonal of ones, and the pivots, of
        shape (..., min(m, n)): row i was swapped with row ``piv[i]``.

    Raises:
        MatrixShapeError: a has fewer than two axes.

    >>> from functensor.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor([[0.0, 2.0], [1.0, 0.0]]), [4.0, 3.0]).tolist()
    [3.0, 2.0]
    """
    return _factorised("lu_factor", a)


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int | str = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns x with ``a @ x = b``, for the factors of a.

    Args:
        lu_and_piv: the result of `lu_factor`.
        b: one vector of shape (n,), or an array of shape (..., n, k).
        trans: 0 for a, 1 for its transpose, 2 for its adjoint.
        overwrite_b, check_finite: of no effect.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        LinAlgError: a is singular.
        ShapeError: b has not as many rows.

    >>> from functensor.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor([[0.0, 2.0], [1.0, 0.0]]), [4.0, 3.0], trans=1).tolist()
    [1.5, 4.0]
    """
    both, pivots = _factor_pair("lu_solve", lu_and_piv, "lu_factor(a)")
    both, b, vector = system("lu_solve", both, b)
    kind = _transposition("lu_solve: trans", trans)
    order = _row_order(asarray(pivots), both.shape[-1])
    stack = np.broadcast_shapes(both.shape[:-2], b.shape[:-2])
    b = ops.broadcast_to(b, (*stack, *b.shape[-2:]))
    if kind:
        inner = solved_by_triangle(both, b, kind, False, False)
        x = solved_by_triangle(both, inner, kind, True, True)
        x = _rows_in_order(x, ops.argsort(order, axis=-1))
    else:
        inner = solved_by_triangle(both, _rows_in_order(b, order), 0, True, True)
        x = solved_by_triangle(both, inner, 0, False, False)
    return vector_as_given(x, vector)


def _rows_in_order(x: Array, order: Array) -> Array:
    """Returns matrices with their rows in another order."""
    places = ops.broadcast_to(ops.expand_dims(order, -1), x.shape)
    return ops.take_along_axis(x, places, axis=-2)
