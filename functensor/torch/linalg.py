"""PyTorch's names of linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named
from ..faces.publish import publish
from ..numpy import linalg
from ..numpy.linalg import LinAlgError
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.errors import ShapeError
from ..primitives.core.registry import registry as ops
from ..tensors.functions import solving
from ..tensors.functions.naming import as_tensor_result
from ..tensors.functions.products import check_is_space, matrix_power, multi_dot
from ..tensors.functions.solving import LU, CholeskyEx, LUFactor, as_hermitian
from .outputs import TAKE_OUT, write_results

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve",
    "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm",
    "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals",
    "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip


def cholesky(A: Array, *, upper: bool = False) -> Any:
    """Returns the triangular factors of positive-definite matrices."""
    return linalg.cholesky(as_hermitian(A), upper=upper)


def det(A: Array) -> Any:
    """Returns the determinants of square matrices."""
    return linalg.det(A)


def slogdet(A: Array) -> Any:
    """Returns the signs of determinants, and the logarithms of their absolute values."""
    return linalg.slogdet(A)


def inv(A: Array) -> Any:
    """Returns the inverses of square matrices."""
    return linalg.inv(A)


def pinv(
    A: Array, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Returns pseudo-inverses.

    Singular values below ``rtol`` times the largest one count as zero, and those below ``atol``.
    """
    if atol is not None:
        rtol = ops.maximum(atol / svdvals(A)[..., 0], tolerance_of_rank(A, atol, rtol))
    matrix = as_hermitian(A) if hermitian else A
    return linalg.pinv(matrix, rtol=rtol, hermitian=hermitian)


def solve(A: Array, B: Array, *, left: bool = True) -> Any:
    """Returns X of ``A @ X = B``, or of ``X @ A = B``; B is a vector, or has columns."""
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    if not left:
        return ops.swapaxes(linalg.solve(ops.swapaxes(A, -1, -2), ops.swapaxes(B, -1, -2)), -1, -2)
    return linalg.solve(A, B[..., None])[..., 0] if vector else linalg.solve(A, B)


def tolerance_of_rank(A: Array, atol: Any, rtol: Any) -> Any:
    """Returns ``rtol``; by default 0 beside an ``atol`` above 0, and else the precision."""
    if rtol is not None:
        return rtol
    return (atol <= 0) * max(A.shape[-2:]) * float(np.finfo(A.dtype).eps)


class LstsqResult(NamedTuple):
    """The solution of least squares, residuals, rank and singular values."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def lstsq(
    A: Array, B: Array, rcond: float | None = None, *, driver: str | None = None
) -> LstsqResult:
    """Returns the solution of least squares, residuals, rank and singular values.

    Singular values below ``rcond`` times the largest count as zero; ``driver`` has no effect.

    >>> import functensor.torch as torch
    >>> A, B = torch.tensor([[1.0], [0.0]]), torch.tensor([[2.0], [1.0]])
    >>> torch.linalg.lstsq(A, B).solution.tolist()
    [[2.0]]
    """
    return LstsqResult(*map(as_tensor_result, linalg.lstsq(A, B, rcond)))


def qr(A: Array, mode: str = "reduced") -> Any:
    """Returns orthogonal and triangular factors: "reduced", "complete" or "r"."""
    return linalg.qr(A, mode)


def householder_product(A: Array, tau: Array) -> Any:
    """Returns the first columns of a product of Householder's reflections.

    Args:
        A: of shape (..., rows, columns); below the diagonal its columns have the reflections'
            vectors, whose first element is 1.
        tau: the scales of the reflections, of shape (..., reflections).

    Returns:
        A tensor of the shape of ``A``.

    >>> import functensor.torch as torch
    >>> A, tau = torch.tensor([[0.0], [1.0]]), torch.tensor([1.0])
    >>> torch.linalg.householder_product(A, tau).tolist()
    [[0.0], [-1.0]]
    """
    if A.ndim < 2 or A.shape[-2] < A.shape[-1] or A.shape[-1] < tau.shape[-1]:
        raise ShapeError(
            f"householder_product: A of shape {A.shape} and tau of shape {tau.shape}; matrices "
            "have at least as many rows as columns, and as many columns as reflections"
        )
    rows, columns = A.shape[-2:]
    one = beside(A, np.eye(rows, columns, dtype=A.dtype))
    vectors = ops.tril(A, -1) + one
    out = ops.broadcast_to(one, A.shape)
    for i in reversed(range(tau.shape[-1])):
        v = vectors[..., :, i : i + 1]
        along = ops.matmul(ops.conj(ops.swapaxes(v, -1, -2)), out)
        out = out - tau[..., i : i + 1, None] * v * along
    return as_tensor_result(out)


def svd(A: Array, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Returns U, S and Vh of matrices ``U @ diag(S) @ Vh``; ``driver`` has no effect."""
    return linalg.svd(A, full_matrices=full_matrices)


def svdvals(A: Array, *, driver: str | None = None) -> Any:
    """Returns singular values, the largest first; ``driver`` has no effect."""
    return linalg.svdvals(A)


def eig(A: Array) -> Any:
    """Returns eigenvalues and eigenvectors of square matrices, as complex numbers."""
    return linalg.eig(A)


def eigvals(A: Array) -> Any:
    """Returns eigenvalues of square matrices, as complex numbers."""
    return linalg.eigvals(A)


def eigh(A: Array, UPLO: str = "L") -> Any:
    """Returns eigenvalues, in order, and eigenvectors of symmetric or Hermitian matrices."""
    return linalg.eigh(as_hermitian(A), UPLO)


def eigvalsh(A: Array, UPLO: str = "L") -> Any:
    """Returns eigenvalues of symmetric or Hermitian matrices, in order."""
    return linalg.eigvalsh(as_hermitian(A), UPLO)


def matrix_rank(
    A: Array, *, tol: Any = None, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Returns how many singular values are not negligible.

    Negligible are those up to ``atol``, or up to ``rtol`` times the largest one. ``tol`` is an
    older name of ``atol``.
    """
    if atol is not None and min(A.shape[-2:]):
        sizes = ops.abs(eigvalsh(A)) if hermitian else svdvals(A)
        relative = tolerance_of_rank(A, atol, rtol) * ops.max(sizes, -1)
        least = ops.expand_dims(ops.maximum(atol, relative), -1)
        return as_tensor_result(ops.count_nonzero(sizes > least, -1))
    return as_tensor_result(linalg.matrix_rank(A, tol, hermitian, rtol=rtol))


def matrix_exp(A: Array) -> Any:
    """Returns the exponentials of square matrices."""
    return linalg.expm(A)


def cond(A: Array, p: Any = None) -> Any:
    """Returns condition numbers, by default by singular values."""
    return linalg.cond(A, p)


def vector_norm(
    x: Array,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """Returns the norms of vectors over axes, by default over all."""
    x = x if dtype is None else ops.astype(x, named(dtype))
    axes = tuple(dim) if isinstance(dim, Sequence) else dim
    return linalg.vector_norm(x, axis=axes, ord=ord, keepdims=keepdim)


def matrix_norm(
    A: Array,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """Returns the norms of matrices: "fro", "nuc", 1, 2, inf and their negatives."""
    A = A if dtype is None else ops.astype(A, named(dtype))
    return linalg.norm(A, ord, tuple(dim), keepdim)


def norm(
    A: Array,
    ord: Any = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """Returns norms of vectors, or of matrices where ``ord`` or ``dim`` asks for them."""
    A = A if dtype is None else ops.astype(A, named(dtype))
    if ord is None:
        return vector_norm(A, 2, dim, keepdim)
    if isinstance(dim, int) or (dim is None and A.ndim == 1):
        return vector_norm(A, ord, dim, keepdim)
    if dim is None and A.ndim != 2:
        raise RuntimeError(f"norm: with ord={ord!r} the tensor has 1 or 2 axes, not {A.ndim}")
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim)


def diagonal(A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Returns views of diagonals of two axes, by default of matrices, as a last axis."""
    return A.diagonal(offset, dim1, dim2)


def matmul(input: Array, other: Array) -> Any:
    """Returns matrix products, broadcast over axes before the last two."""
    return ops.matmul(input, other)


def cross(input: Array, other: Array, *, dim: int = -1) -> Any:
    """Returns cross products of vectors along an axis."""
    check_is_space("cross", input, other, dim)
    return ops.cross(input, other, axis=dim)


def vecdot(x: Array, y: Array, *, dim: int = -1) -> Any:
    """Returns inner products along an axis, the first conjugated."""
    return ops.vecdot(x, y, axis=dim)


def tensorinv(A: Array, ind: int = 2) -> Any:
    """Returns the inverse of ``tensordot(A, x, ind)``."""
    return linalg.tensorinv(A, ind)


def tensorsolve(A: Array, B: Array, dims: Sequence[int] | None = None) -> Any:
    """Returns X of ``tensordot(A, X, X.ndim) = B``."""
    return linalg.tensorsolve(A, B, None if dims is None else tuple(dims))


def vander(x: Array, *, N: int | None = None) -> Any:
    """Returns the matrix of powers of a vector's elements, from the zeroth on."""
    x = ops.astype(x, np.dtype(np.int64)) if x.dtype.kind in "iub" else x
    count = x.shape[-1] if N is None else N
    ones = x[..., None] ** 0
    powers = [ones]
    for _ in range(count - 1):
        powers.append(powers[-1] * x[..., None])
    return ops.concatenate(powers, -1)[..., :count]


class InvEx(NamedTuple):
    """An inverse, and 0 where it is one."""

    inverse: Any
    info: Any


class SolveEx(NamedTuple):
    """A solution, and 0 where it is one."""

    result: Any
    info: Any


class LUFactorEx(NamedTuple):
    """The factors of matrices in one, the rows that were swapped, and 0 where they are some."""

    LU: Any
    pivots: Any
    info: Any


def successes(A: Array) -> Any:
    """Returns a zero for every matrix: what cannot be computed is an error here."""
    return beside(A, np.zeros(A.shape[:-2], np.int32))


def cholesky_ex(A: Array, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """Returns the triangular factors of positive-definite matrices, and zeros.

    Raises:
        LinAlgError: a matrix has none, whatever ``check_errors`` says.
    """
    return CholeskyEx(cholesky(A, upper=upper), successes(A))


def inv_ex(A: Array, *, check_errors: bool = False) -> InvEx:
    """Returns the inverses of square matrices, and zeros.

    Raises:
        LinAlgError: a matrix has none, whatever ``check_errors`` says.
    """
    return InvEx(inv(A), successes(A))


def solve_ex(A: Array, B: Array, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """Returns X of ``A @ X = B``, or of ``X @ A = B``, and zeros.

    Raises:
        LinAlgError: there is no X, whatever ``check_errors`` says.
    """
    return SolveEx(solve(A, B, left=left), successes(A))


def solve_triangular(
    A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Returns X of ``A @ X = B``, or of ``X @ A = B``, for triangular matrices.

    Args:
        A: matrices, of which one triangle is read.
        B: columns, or rows where ``left`` is False.
        upper: whether the upper triangle is meant.
        left: whether A stands on the left.
        unitriangular: whether the diagonal is one, whatever stands there.
    """
    if left:
        return solving.triangular(A, B, not upper, unitriangular)
    turned = ops.swapaxes(A, -1, -2), ops.swapaxes(B, -1, -2)
    rows = solving.triangular(*turned, upper, unitriangular)
    return ops.swapaxes(rows, -1, -2)


def lu_factor(A: Array, *, pivot: bool = True) -> LUFactor:
    """Returns the factors of matrices in one, and the rows that were swapped, counted from 1."""
    return solving.lu(A, pivot)  # type: ignore[no-any-return]


def lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """Returns what `lu_factor` does, and zeros."""
    return LUFactorEx(*solving.lu(A, pivot, get_infos=True))


def lu(A: Array, *, pivot: bool = True) -> LU:
    """Returns P, L and U of matrices ``P @ L @ U``."""
    return solving.lu_unpack(*lu_factor(A, pivot=pivot))


def lu_solve(LU: Any, pivots: Any, B: Array, *, left: bool = True, adjoint: bool = False) -> Any:
    """Returns X of ``A @ X = B``, by the factors of A that `lu_factor` returns.

    Args:
        LU, pivots: the factors.
        B: columns, or rows where ``left`` is False.
        left: whether A stands on the left.
        adjoint: whether A's conjugate transpose is meant.
    """
    if left and not adjoint:
        return solving.lu_solve(B, LU, pivots)
    permutation, low, up = solving.lu_unpack(LU, pivots)
    matrix = ops.matmul(ops.matmul(permutation, low), up)
    matrix = ops.conj(ops.swapaxes(matrix, -1, -2)) if adjoint else matrix
    return solve(matrix, B, left=left)


publish(globals(), outputs=(TAKE_OUT["torch.linalg"], write_results))
