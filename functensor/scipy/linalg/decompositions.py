"""Eigenvalues, singular values and the factors QR under SciPy's signatures.

Where eigenvalues or singular values coincide, see ``functensor.numpy.linalg.decompositions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...numpy.linalg import decompositions
from ...numpy.linalg.arguments import as_matrices, in_common_dtype, mirrored
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.linalg import solving, triangular
from ...primitives.linalg.column_pivots import qr_pivots
from ...primitives.linalg.stacks import adjoint

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """Returns singular values and vectors, as `functensor.numpy.linalg.svd`.

    Args:
        a: an array of shape (..., m, n).
        full_matrices, compute_uv: as there.
        overwrite_a, check_finite, lapack_driver: of no effect.

    Returns:
        A tuple (U, s, Vh), or s alone.

    >>> from functensor.scipy import linalg
    >>> linalg.svd([[0.0, 2.0], [1.0, 0.0]])[1].tolist()
    [2.0, 1.0]
    """
    return decompositions.svd(a, full_matrices, compute_uv)


def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Returns singular values, as `functensor.numpy.linalg.svdvals`.

    Args:
        a: an array of shape (..., m, n).
        overwrite_a, check_finite: of no effect.

    >>> from functensor.scipy import linalg
    >>> linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    return decompositions.svdvals(a)


def _reduced(name: str, a: ArrayLike, b: ArrayLike, lower: bool, kind: int) -> tuple[Array, Array]:
    """Returns the standard problem for a generalised one, and b's lower factor."""
    if kind not in (1, 2, 3):
        raise ValueError(f"{name}: type is 1 (a v = w b v), 2 (a b v = w v) or 3, not {kind!r}")
    a = mirrored(as_matrices(name, a, square=True), lower=lower)
    b = mirrored(as_matrices(name, b, square=True), lower=lower)
    a, b = in_common_dtype(a, b)
    factor = solving.cholesky(b)
    if kind > 1:
        return ops.matmul(adjoint(factor), ops.matmul(a, factor)), factor
    inner = _solved_from_right(factor, a, False)
    return adjoint(_solved_from_right(factor, adjoint(inner), False)), factor


def _solved_from_right(factor: Array, b: Array, transposed: bool) -> Array:
    """Returns the solution of a system with a lower factor, or with its transpose."""
    params = {"lower": True, "transposed": transposed, "unit_diagonal": False}
    return triangular.triangular_solve.bind((factor, b), params)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: ArrayLike | None = None,
    driver: str | None = None,
) -> Array | tuple[Array, Array]:
    """Returns the eigenvalues and eigenvectors of Hermitian matrices, or of pairs of them.

    Args:
        a: an array of shape (..., n, n).
        b: positive definite matrices of the same shape, for ``a @ v = b @ v * w``; None for the
            identity.
        lower: which triangle is read, of both a and b; gradients lie there too.
        eigvals_only: whether to return the eigenvalues alone.
        type: 1; 2 for ``a @ b @ v = v * w``, 3 for ``b @ a @ v = v * w``.
        subset_by_index: a pair: the first and the last index of the returned values.
        overwrite_a, overwrite_b, check_finite, driver: of no effect.

    Returns:
        A pair of the eigenvalues, of shape (..., n), real and rising, and vectors as columns, with
        ``v.mT.conj() @ b @ v`` (of type 3 with b's inverse) the identity; or the values alone.

    Raises:
        NotImplementedError: ``subset_by_value``, whose number depends on values.
        LinAlgError: b is not positive definite.
        MatrixShapeError: the matrices are not square.

    >>> from functensor.scipy import linalg
    >>> w, _ = linalg.eigh([[2.0, 0.0], [0.0, 9.0]], [[1.0, 0.0], [0.0, 3.0]])
    >>> w.round(12).tolist()
    [2.0, 3.0]
    """
    if subset_by_value is not None:
        raise NotImplementedError("eigh: subset_by_value; w[(w > low) & (w <= high)] picks values")
    factor = None
    if b is not None:
        a, factor = _reduced("eigh", a, b, lower, type)
    which = slice(None)
    if subset_by_index is not None:
        first, last = subset_by_index
        which = slice(int(first), int(last) + 1)
    triangle = "L" if lower or factor is not None else "U"
    if eigvals_only:
        return ops.index(decompositions.eigvalsh(a, triangle), (Ellipsis, which))
    w, v = decompositions.eigh(a, triangle)
    if factor is not None:
        # The adjoint of b's lower factor is its conjugate, transposed.
        v = ops.matmul(factor, v) if type == 3 else _solved_from_right(ops.conj(factor), v, True)
    return ops.index(w, (Ellipsis, which)), ops.index(v, (Ellipsis, which))


def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: ArrayLike | None = None,
    driver: str | None = None,
) -> Array:
    """Returns the eigenvalues of Hermitian matrices, or of pairs of them.

    Args:
        a, b, lower, type, subset_by_index, subset_by_value: as for `eigh`.
        overwrite_a, overwrite_b, check_finite, driver: of no effect.

    Returns:
        A real array of shape (..., n), rising.

    >>> from functensor.scipy import linalg
    >>> linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    values = eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )
    return cast("Array", values)


def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array | tuple[Array, ...]:
    """Returns the eigenvalues and eigenvectors of square matrices, or of pairs of them.

    Args:
        a: an array of shape (..., n, n).
        b: regular matrices of the same shape, for ``a @ v = b @ v * w``; None for the identity.
        left: whether to return left eigenvectors, ``vl.mT.conj() @ a = w * vl.mT.conj() @ b``.
        right: whether to return right ones.
        overwrite_a, overwrite_b, check_finite: of no effect.
        homogeneous_eigvals: False.

    Returns:
        The eigenvalues, of shape (..., n), then left and right vectors as columns of length 1, as
        asked for; all complex. The derivative is that for distinct eigenvalues.

    Raises:
        NotImplementedError: ``homogeneous_eigvals``.
        LinAlgError: b is singular, or with ``left`` a lacks vectors.
        MatrixShapeError: the matrices are not square.

    >>> from functensor.scipy import linalg
    >>> linalg.eig([[0.0, 1.0], [-1.0, 0.0]], right=False).tolist()
    [1j, -1j]
    """
    if homogeneous_eigvals:
        raise NotImplementedError("eig: homogeneous_eigvals; eig(b, a) gives reciprocals")
    a = as_matrices("eig", a, square=True)
    if b is not None:
        a, b = in_common_dtype(a, as_matrices("eig", b, square=True))
        a = solving.solve(b, a)
    if not (left or right):
        return decompositions.eigvals(a)
    w, v = decompositions.eig(a)
    out = [w]
    if left:
        # The rows of the inverse are left eigenvectors of inv(b) a.
        rows = solving.inv.bind((v,), {"strict": True})
        if b is not None:
            rows = ops.matmul(rows, solving.inv.bind((ops.astype(b, v.dtype),), {"strict": True}))
        columns = adjoint(rows)
        out.append(columns / ops.euclidean_norm(columns, -2, keepdims=True))
    if right:
        out.append(v)
    return tuple(out)


def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array:
    """Returns the eigenvalues of square matrices, or of pairs of them.

    Args:
        a, b, overwrite_a, check_finite, homogeneous_eigvals: as for `eig`.

    Returns:
        A complex array of shape (..., n), in no order.

    >>> from functensor.scipy import linalg
    >>> linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).tolist()
    [1j, -1j]
    """
    return cast("Array", eig(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals))


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, ...]:
    """Returns factors with orthonormal columns and upper triangular ones.

    Args:
        a: an array of shape (..., m, n).
        overwrite_a, lwork, check_finite: of no effect.
        mode: ``"full"``: m columns in Q; ``"economic"``: min(m, n); ``"r"``: R alone, of m rows.
        pivoting: whether to reorder columns, so that the diagonal of R falls in size.

    Returns:
        The pair (Q, R), or a tuple of R alone; with ``pivoting`` also the order P of the columns,
        integers of shape (..., n) with ``a[..., P] = Q @ R``. The derivative is that of
        `functensor.numpy.linalg.qr` for that order.

    Raises:
        ValueError: there is no such mode.

    >>> from functensor.scipy import linalg
    >>> [x.shape for x in linalg.qr([[3.0], [4.0]])]
    [(2, 2), (2, 1)]
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"qr: mode is 'full', 'economic' or 'r', not {mode!r}")
    order: tuple[Array, ...] = ()
    if pivoting:
        a = as_matrices("qr", a)
        order = (qr_pivots.bind((ops.stop_gradient(a),), {}),)
        a = ops.take_along_axis(a, ops.expand_dims(order[0], -2), axis=-1)
    q, r = decompositions.qr(a, "reduced" if mode == "economic" else "complete")
    return (r, *order) if mode == "r" else (q, r, *order)
