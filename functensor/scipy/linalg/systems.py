"""Linear systems, inverses, least squares, and matrix equations."""

from __future__ import annotations

import operator

import numpy as np

from ...backends.annotations import Axis, Buffer
from ...numpy.creation import asarray
from ...numpy.linalg import decompositions, norms
from ...numpy.linalg import solving as numpy_solving
from ...numpy.linalg.arguments import as_matrices, in_common_dtype, mirrored, right_hand_side
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside, wrap
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import finfo
from ...primitives.linalg import matrix_functions, solving
from ...primitives.linalg.banded import banded_solve
from ...primitives.linalg.stacks import adjoint, conjugate
from .factors import cho_factor, cho_solve, solved_by_triangle, system, vector_as_given

__all__ = [
    "det", "inv", "lstsq", "norm", "pinv", "solve", "solve_banded", "solve_continuous_lyapunov",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_triangular",
]  # fmt: skip

STRUCTURES = {
    "gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite",
    "general": "general", "symmetric": "symmetric", "hermitian": "hermitian",
    "positive definite": "positive definite", "diagonal": "diagonal",
    "tridiagonal": "tridiagonal", "banded": "general", "upper triangular": "upper triangular",
    "lower triangular": "lower triangular",
}  # fmt: skip
TRANSPOSED = {"upper triangular": "lower triangular", "lower triangular": "upper triangular"}


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns x with ``a @ x = b`` for triangular matrices.

    Args:
        a: an array of shape (..., n, n), of which only the triangle is read, and has a gradient.
        b: one vector of shape (n,), or an array of shape (..., n, k).
        trans: 0 or ``"N"`` for a, 1 or ``"T"`` for its transpose, 2 or ``"C"`` for its adjoint.
        lower: which triangle.
        unit_diagonal: whether the diagonal counts as ones and is not read.
        overwrite_b, check_finite: of no effect.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        LinAlgError: a diagonal holds 0.
        ShapeError: a is not square, or b has not as many rows.

    >>> from functensor.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 0.0], [1.0, 1.0]], [2.0, 3.0], lower=True).tolist()
    [1.0, 2.0]
    """
    a, b, vector = system("solve_triangular", a, b)
    return vector_as_given(solved_by_triangle(a, b, trans, lower, unit_diagonal), vector)


def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns x with ``a @ x = b`` for matrices with few diagonals that are not zero.

    Args:
        l_and_u: how many diagonals there are below the main one, and above it.
        ab: an array of shape (..., l + u + 1, n), the diagonals, uppermost first:
            ``ab[u + i - j, j] = a[i, j]``. Elements without a place in the matrix are not read.
        b: one vector of shape (n,), or an array of shape (..., n, k).
        overwrite_ab, overwrite_b, check_finite: of no effect.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: ab has not as many diagonals, or b not as many rows.

    >>> from functensor.scipy import linalg
    >>> linalg.solve_banded((0, 1), [[0.0, 1.0], [2.0, 2.0]], [3.0, 2.0]).tolist()
    [1.0, 1.0]
    """
    lower, upper = (operator.index(count) for count in l_and_u)
    # The transpose of ab has as many rows as the matrix.
    columns = ops.swapaxes(as_matrices("solve_banded", ab), -1, -2)
    columns, b, vector = right_hand_side("solve_banded", columns, b)
    ab = ops.swapaxes(columns, -1, -2)
    if min(lower, upper) < 0 or ab.shape[-2] != lower + upper + 1:
        what = f"solve_banded: l_and_u={(lower, upper)}, but ab has shape {ab.shape}"
        raise misfit(what, "ab has l + u + 1 rows, the diagonals, uppermost first")
    return vector_as_given(banded_solve.bind((ab, b), {"lower": lower, "upper": upper}), vector)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Array:
    """Returns x with ``a @ x = b``.

    Args:
        a: an array of shape (..., n, n). Gradients lie where ``assume_a`` has it read.
        b: one vector of shape (n,), or an array of shape (..., n, k).
        lower: which triangle is read, of symmetric, Hermitian and positive definite matrices.
        overwrite_a, overwrite_b, check_finite: of no effect.
        assume_a: the kind of the matrices: ``"general"``, ``"symmetric"``, ``"hermitian"``,
            ``"positive definite"``, ``"diagonal"``, ``"tridiagonal"``, ``"banded"``,
            ``"upper triangular"``, ``"lower triangular"``, or the first three letters of one of
            the first four. None for general ones.
        transposed: whether to solve with the transposed matrices.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        LinAlgError: a matrix is singular, or not positive definite though it was said to be.
        ShapeError: a is not square, or b has not as many rows.
        ValueError: ``assume_a`` is another word.

    >>> from functensor.scipy import linalg
    >>> linalg.solve([[4.0, 0.0], [0.0, 1.0]], [8.0, 3.0], assume_a="pos").tolist()
    [2.0, 3.0]
    """
    structure = _structure("solve", assume_a)
    a, b, vector = system("solve", a, b)
    if transposed:
        structure = TRANSPOSED.get(structure, structure)
        a, lower = a.mT, not lower
    return vector_as_given(_solve_with(structure, a, b, lower), vector)


def _structure(name: str, assume_a: str | None) -> str:
    structure = STRUCTURES.get(assume_a or "general")
    if structure is None:
        raise ValueError(f"{name}: assume_a is one of {', '.join(STRUCTURES)}, not {assume_a!r}")
    return structure


def _solve_with(structure: str, a: Array, b: Array | Buffer, lower: bool) -> Array:
    if structure == "diagonal":
        return ops.divide(b, ops.expand_dims(ops.diagonal(a, 0, -2, -1), -1))
    if structure.endswith("triangular"):
        return solved_by_triangle(a, b, 0, structure.startswith("lower"), False)
    if structure == "positive definite":
        return cho_solve(cho_factor(a, lower=lower), b)
    if structure == "tridiagonal":
        a = ops.triu(ops.tril(a, 1), -1)
    elif structure in ("hermitian", "symmetric"):
        a = mirrored(a, lower=lower, hermitian=structure == "hermitian")
    return solving.solve(a, b)


def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Array:
    """Returns the inverses of matrices, as `functensor.numpy.linalg.inv`.

    Args:
        a: an array of shape (..., n, n). Gradients lie where ``assume_a`` has it read.
        overwrite_a, check_finite: of no effect.
        assume_a, lower: as for `solve`.

    Raises:
        LinAlgError: a matrix is singular, or not positive definite though it was said to be.
        ValueError: ``assume_a`` is another word.

    >>> from functensor.scipy import linalg
    >>> linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    structure = _structure("inv", assume_a)
    if structure == "general":
        return numpy_solving.inv(a)
    a = as_matrices("inv", a, square=True)
    return _solve_with(structure, a, beside(a, np.eye(a.shape[-1], dtype=a.dtype)), lower)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Returns the determinants of matrices, as `functensor.numpy.linalg.det`.

    Args:
        a: an array of shape (..., n, n).
        overwrite_a, check_finite: of no effect.

    >>> from functensor.scipy import linalg
    >>> float(linalg.det([[1.0, 2.0], [0.0, 1.0]]))
    1.0
    """
    return numpy_solving.det(a)


def norm(
    a: ArrayLike,
    ord: float | str | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns norms of vectors or matrices, as `functensor.numpy.linalg.norm`.

    Args:
        a, ord, axis, keepdims: as there.
        check_finite: of no effect.

    >>> from functensor.scipy import linalg
    >>> float(linalg.norm([3.0, 4.0]))
    5.0
    """
    return norms.norm(a, ord, axis, keepdims)


def pinv(
    a: ArrayLike,
    *,
    atol: Array | float | None = None,
    rtol: Array | float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Returns the Moore-Penrose pseudo-inverses of matrices.

    Args:
        a: an array of shape (..., m, n).
        atol, rtol: singular values up to ``atol + rtol * largest`` count as 0; by default 0 and
            ``max(m, n)`` times the precision.
        return_rank: whether to return the ranks too.
        check_finite: of no effect.

    Returns:
        An array of shape (..., n, m), or a pair of that and the ranks.

    Raises:
        ValueError: a tolerance is negative.

    >>> from functensor.scipy import linalg
    >>> linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    a = as_matrices("pinv", a)
    atol = 0.0 if atol is None else atol
    rtol = max(a.shape[-2:]) * finfo(a.dtype).eps if rtol is None else rtol
    if atol < 0 or rtol < 0:
        raise ValueError(f"pinv: tolerances are not negative: atol={atol}, rtol={rtol}")
    if not atol and not return_rank:
        return numpy_solving.pinv(a, rtol)
    values = ops.stop_gradient(decompositions.svdvals(a))
    if not values.shape[-1]:
        rank = wrap(beside(a, np.zeros(a.shape[:-2], np.int64)))
        return (a.mT, rank) if return_rank else a.mT
    largest = ops.max(values, axis=-1)
    limit = rtol + atol / ops.where(largest == 0, 1, largest)
    inverse = numpy_solving.pinv(a, limit)
    above = values > ops.expand_dims(limit * largest, -1)
    return (inverse, ops.count_nonzero(above, axis=-1)) if return_rank else inverse


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Returns the shortest x for which ``a @ x`` is closest to b.

    Args:
        a: an array of shape (..., m, n).
        b: one vector of shape (m,), or an array of shape (..., m, k).
        cond: singular values up to this times the largest count as 0; by default the precision.
        overwrite_a, overwrite_b, check_finite, lapack_driver: of no effect.

    Returns:
        The solution, the sums of squared residuals, the rank and the singular values, as
        `functensor.numpy.linalg.lstsq` has them; the residual of a vector has no axis.

    Raises:
        ShapeError: a is no matrix, or b has not as many rows.

    >>> from functensor.scipy import linalg
    >>> linalg.lstsq([[1.0], [0.0]], [2.0, 1.0])[0].tolist()
    [2.0]
    """
    a, b = as_matrices("lstsq", a), asarray(b)
    x, residuals, rank, values = numpy_solving.lstsq(
        a, b, finfo(a.dtype).eps if cond is None else cond
    )
    if len(b.shape) == 1 and residuals.shape[-1]:
        residuals = ops.index(residuals, (Ellipsis, 0))
    return x, residuals, rank, values


# -- matrix equations


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Returns x with ``a @ x + x @ b = q``.

    Args:
        a: an array of shape (..., m, m).
        b: an array of shape (..., n, n).
        q: an array of shape (..., m, n); stacks broadcast.

    Returns:
        An array of shape (..., m, n).

    Raises:
        ShapeError: a or b is not square, or q does not fit.
        LinAlgError: a has an eigenvalue that is minus one of b's.

    R. Bartels and G. Stewart, "Solution of the matrix equation AX + XB = C", Communications of the
    ACM 15 (1972).

    >>> from functensor.scipy import linalg
    >>> linalg.solve_sylvester([[1.0]], [[3.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    a = as_matrices("solve_sylvester", a, square=True)
    b = as_matrices("solve_sylvester", b, square=True)
    q = as_matrices("solve_sylvester", q)
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise misfit(
            f"solve_sylvester: q of shape {q.shape}, for a of shape {a.shape} and b of shape "
            f"{b.shape}",
            "q has a's rows and b's columns, as a @ x + x @ b has",
        )
    return matrix_functions.solve_sylvester(*in_common_dtype(a, b, q))


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Array:
    """Returns x with ``a @ x + x @ a.mT.conj() = q``.

    Args:
        a, q: arrays of shape (..., n, n).

    Returns:
        An array of shape (..., n, n).

    Raises:
        ShapeError: a is not square, or q has another shape.

    >>> from functensor.scipy import linalg
    >>> linalg.solve_continuous_lyapunov([[2.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    a = as_matrices("solve_continuous_lyapunov", a, square=True)
    return solve_sylvester(a, adjoint(a), q)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Array:
    """Returns x with ``a @ x @ a.mT.conj() - x + q = 0``.

    It is the solution of one system for all elements of x, which takes n**6 operations.

    Args:
        a, q: arrays of shape (..., n, n).
        method: of no effect.

    Returns:
        An array of shape (..., n, n).

    Raises:
        ShapeError: a is not square, or q has another shape.
        LinAlgError: the product of an eigenvalue and the conjugate of another one is 1.

    >>> from functensor.scipy import linalg
    >>> linalg.solve_discrete_lyapunov([[0.5]], [[3.0]]).tolist()
    [[4.0]]
    """
    a = as_matrices("solve_discrete_lyapunov", a, square=True)
    q = as_matrices("solve_discrete_lyapunov", q)
    a, q = in_common_dtype(a, q)
    n = a.shape[-1]
    if q.shape[-2:] != (n, n):
        raise misfit(
            f"solve_discrete_lyapunov: q of shape {q.shape} for a of shape {a.shape}",
            "both have matrices of the same shape",
        )
    products = ops.einsum("...ik,...jl->...ijkl", a, conjugate(a))
    eye = beside(a, np.eye(n * n, dtype=a.dtype))
    system = eye - ops.reshape(products, (*a.shape[:-2], n * n, n * n))
    x = solving.solve(system, ops.reshape(q, (*q.shape[:-2], n * n, 1)))
    return ops.reshape(x, (*x.shape[:-2], n, n))
