"""Exponentials, logarithms, roots, sines and polar factors of matrices."""

from __future__ import annotations

import numpy as np

from ...backends.arrays.matrix_functions import ComplexResultError
from ...numpy.linalg.arguments import as_matrices, in_common_dtype
from ...numpy.linalg.decompositions import svd
from ...numpy.linalg.products import matrix_power
from ...numpy.linalg.solving import expm
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import result_type
from ...primitives.linalg import matrix_functions
from ...primitives.linalg.stacks import adjoint

__all__ = [
    "cosm", "expm", "expm_frechet", "fractional_matrix_power", "logm", "polar", "sinm", "sqrtm",
]  # fmt: skip


def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Returns the exponentials of matrices and their derivatives along directions.

    Args:
        A: an array of shape (..., n, n).
        E: an array of shape (..., n, n): the directions.
        method, check_finite: of no effect.
        compute_expm: whether to return the exponentials too.

    Returns:
        A pair of the exponentials and the derivatives, or the derivatives alone.

    Raises:
        ShapeError: the matrices are not square, or have different shapes.

    >>> from functensor.scipy import linalg
    >>> linalg.expm_frechet([[0.0]], [[2.0]], compute_expm=False).tolist()
    [[2.0]]
    """
    A = as_matrices("expm_frechet", A, square=True)
    A, E = in_common_dtype(A, as_matrices("expm_frechet", E))
    if A.shape[-2:] != E.shape[-2:]:
        raise misfit(
            f"expm_frechet: directions of shape {E.shape} for matrices of shape {A.shape}",
            "both have matrices of the same shape",
        )
    derivative = matrix_functions.along_block(matrix_functions.expm, A, E)
    return (matrix_functions.expm(A), derivative) if compute_expm else derivative


def logm(A: ArrayLike, disp: bool | None = None) -> Array:
    """Returns the principal logarithms of matrices.

    Args:
        A: an array of shape (..., n, n).
        disp: of no effect.

    Returns:
        An array of A's shape and dtype. The logarithm jumps where an eigenvalue crosses the
        negative axis, so that a complex one is that of ``A.astype(complex)`` only.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: a matrix is singular, or real with a logarithm that is complex.

    N. Higham, "Functions of Matrices", SIAM 2008, chapter 11.

    >>> from functensor.scipy import linalg
    >>> linalg.logm([[1.0, 1.0], [0.0, 1.0]]).round(12).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return matrix_functions.logm(as_matrices("logm", A, square=True))


def sqrtm(A: ArrayLike, disp: bool | None = None, blocksize: int | None = None) -> Array:
    """Returns the principal square roots of matrices.

    Args:
        A: an array of shape (..., n, n).
        disp, blocksize: of no effect.

    Returns:
        An array of A's shape and dtype, complex where a real matrix has a complex root. Under jit,
        where the dtype is known before values are, that raises; ``sqrtm(A.astype(complex))`` is
        complex in any case. The derivative is that for a root whose eigenvalues do not
        add up to 0 in pairs, as those of a regular matrix do not.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: a matrix has no root, or under jit is real with a root that is complex.

    Å. Björck and S. Hammarling, "A Schur method for the square root of a matrix", Linear Algebra
    and its Applications 52/53 (1983).

    >>> from functensor.scipy import linalg
    >>> linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    A = as_matrices("sqrtm", A, square=True)
    try:
        return matrix_functions.sqrtm(A)
    except ComplexResultError:
        return matrix_functions.sqrtm(ops.astype(A, result_type(A.dtype, np.complex64)))


def _turning(name: str, A: ArrayLike) -> tuple[Array, Array | None]:
    """Returns the exponentials of i A and of -i A; None for that of -i A where A is real."""
    A = as_matrices(name, A, square=True)
    turned = A * np.ones((), result_type(A.dtype, np.complex64)) * 1j
    back = matrix_functions.expm(-turned) if A.dtype.kind == "c" else None
    return matrix_functions.expm(turned), back


def cosm(A: ArrayLike) -> Array:
    """Returns the cosines of matrices.

    Args:
        A: an array of shape (..., n, n).

    Returns:
        An array of A's shape and dtype.

    Raises:
        MatrixShapeError: the matrices are not square.

    >>> from functensor.scipy import linalg
    >>> linalg.cosm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    forth, back = _turning("cosm", A)
    return ops.real(forth) if back is None else 0.5 * (forth + back)


def sinm(A: ArrayLike) -> Array:
    """Returns the sines of matrices.

    Args:
        A: an array of shape (..., n, n).

    Returns:
        An array of A's shape and dtype.

    Raises:
        MatrixShapeError: the matrices are not square.

    >>> from functensor.scipy import linalg
    >>> linalg.sinm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    forth, back = _turning("sinm", A)
    return ops.imag(forth) if back is None else -0.5j * (forth - back)


def fractional_matrix_power(A: ArrayLike, t: float) -> Array:
    """Returns the principal powers of matrices.

    Args:
        A: an array of shape (..., n, n); real for a real power.
        t: the power, a number.

    Returns:
        An array of A's shape and dtype: for an integer by squaring, else ``expm(t * logm(A))``.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: a matrix is singular, or real with a logarithm that is complex.

    >>> from functensor.scipy import linalg
    >>> linalg.fractional_matrix_power([[4.0, 0.0], [0.0, 9.0]], 0.5).round(12).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    A = as_matrices("fractional_matrix_power", A, square=True)
    if isinstance(t, int) or (isinstance(t, float) and t.is_integer()):
        return matrix_power(A, int(t))
    return matrix_functions.expm(t * matrix_functions.logm(A))


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    """Returns a factor with orthonormal columns or rows, and a positive semidefinite one.

    Args:
        a: an array of shape (..., m, n).
        side: ``"right"`` for ``a = u @ p``, ``"left"`` for ``a = p @ u``.

    Returns:
        The pair (u, p), of shapes (..., m, n) and (..., n, n), on the left (..., m, m).

    Raises:
        ValueError: side is another word.
        MatrixShapeError: a has fewer than two axes.

    >>> from functensor.scipy import linalg
    >>> u, p = linalg.polar([[0.0, 2.0], [3.0, 0.0]])
    >>> u.round(12).tolist(), p.round(12).tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 2.0]])
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side is 'right' or 'left', not {side!r}")
    w, s, vh = svd(as_matrices("polar", a), full_matrices=False)
    scaled = ops.expand_dims(s, -2)
    if side == "right":
        p = ops.matmul(adjoint(vh) * scaled, vh)
    else:
        p = ops.matmul(w * scaled, adjoint(w))
    return ops.matmul(w, vh), p
