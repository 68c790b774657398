"""Systems, inverses, determinants, and least squares."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends.annotations import Shape
from ...primitives.core.annotations import ArrayLike, of_array, of_arrays
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array, Tracer
from ...primitives.core.buffers import operands_together
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import finfo
from ...primitives.linalg import matrix_functions, solving
from ...primitives.linalg.stacks import adjoint, unpacked
from ..arguments import array_beside
from ..known_values import is_at_hand
from ..zeros_ones import zeros_like
from .arguments import as_matrices, inexact, mirrored, right_hand_side

__all__ = [
    "SlogdetResult", "cholesky", "det", "expm", "inv", "lstsq", "pinv", "slogdet", "solve",
    "tensorinv", "tensorsolve",
]  # fmt: skip

NOT_GIVEN: Any = object()


class SlogdetResult(NamedTuple):
    """The sign of determinants and the logarithm of their sizes."""

    sign: Array
    logabsdet: Array


@of_arrays
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns x with ``a @ x = b``.

    Args:
        a: an array of shape (..., n, n).
        b: one vector of shape (n,), or an array of shape (..., n, k); stacks broadcast.

    Returns:
        An array of shape (..., n) for a vector, else (..., n, k).

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: a is not square, or b has not as many rows.

    >>> import functensor.numpy as np
    >>> np.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0]).tolist()
    [0.5, 0.25]
    """
    a, b = operands_together("solve", a, b)
    a, b, vector = right_hand_side("solve", as_matrices("solve", a, square=True), b)
    x = solving.solve(a, b)
    return ops.index(x, (Ellipsis, 0)) if vector else x


@of_array
def inv(a: ArrayLike) -> Array:
    """Returns the inverses of matrices.

    Args:
        a: an array of shape (..., n, n).

    Returns:
        An array of a's shape.

    Raises:
        LinAlgError: a matrix is singular.
        MatrixShapeError: the matrices are not square.

    >>> import functensor.numpy as np
    >>> np.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return solving.inv.bind((as_matrices("inv", a, square=True),), {"strict": True})


def _pseudo_inverse(a: Array, limit: ArrayLike) -> Array:
    """Returns pseudo-inverses, for a limit of the singular values for all or one for each."""
    limit = ops.astype(array_beside(a, limit), finfo(a.dtype).dtype)
    return solving.pinv(a, ops.expand_dims(limit, (-2, -1)))


@of_array
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = NOT_GIVEN,
) -> Array:
    """Returns the Moore-Penrose pseudo-inverses of matrices.

    Args:
        a: an array of shape (..., m, n).
        rcond: singular values up to this times the largest count as 0; a number, or one for each
            matrix. By default 1e-15.
        hermitian: whether matrices are Hermitian; only their lower triangles are read, and have
            gradients.
        rtol: another name of ``rcond``; with None ``max(m, n)`` times the precision.

    Returns:
        An array of shape (..., n, m). The derivative is that among matrices of the same rank.

    Raises:
        ValueError: both ``rcond`` and ``rtol`` are given.
        MatrixShapeError: a has fewer than two axes.

    >>> import functensor.numpy as np
    >>> np.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    a = as_matrices("pinv", a, square=hermitian)
    if rcond is not None and rtol is not NOT_GIVEN:
        raise ValueError("pinv: rcond and rtol exclude each other")
    if rcond is None:
        rcond = 1e-15 if rtol is NOT_GIVEN else rtol
    if rcond is None:
        rcond = max(a.shape[-2:]) * finfo(a.dtype).eps
    return _pseudo_inverse(mirrored(a, lower=True) if hermitian else a, rcond)


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None
) -> tuple[Array, Array, Array, Array]:
    """Returns the shortest x for which ``a @ x`` is closest to b.

    Args:
        a: an array of shape (..., m, n).
        b: one vector of shape (m,), or an array of shape (..., m, k); stacks broadcast.
        rcond: singular values up to this times the largest count as 0; by default ``max(m, n)``
            times the precision.

    Returns:
        A tuple of the solution, of shape (..., n) or (..., n, k); the sums of squared residuals,
        of shape (..., k), or (0,) where no row is over or the one matrix that there is has not
        full rank (which under vmap or staging is not asked); the rank; and the singular values.
        The derivative is that among matrices of the same rank.

    Raises:
        ShapeError: a is no matrix, or b has not as many rows.

    >>> import functensor.numpy as np
    >>> x, residuals, rank, _ = np.linalg.lstsq([[1.0], [0.0]], [2.0, 1.0])
    >>> x.tolist(), residuals.tolist(), int(rank)
    ([2.0], [1.0], 1)
    """
    a, b = operands_together("lstsq", a, b)
    a, b, vector = right_hand_side("lstsq", as_matrices("lstsq", a), b)
    m, n = a.shape[-2:]
    eps = finfo(a.dtype).eps
    if rcond is None:
        rcond = max(m, n) * eps
    elif not isinstance(rcond, Tracer) and is_at_hand(rcond) and np.all(np.asarray(rcond) < 0):
        rcond = eps
    x = ops.matmul(_pseudo_inverse(a, rcond), b)
    values = ops.svdvals(a)
    if min(m, n):
        limit = ops.astype(array_beside(a, rcond), values.dtype) * ops.max(values, axis=-1)
        above = ops.count_nonzero(values > ops.expand_dims(limit, -1), axis=-1)
        rank = ops.astype(above, np.int32)
    else:
        rank = zeros_like(a, np.int32, shape=a.shape[:-2])
    known = len(a.shape) == 2 and not isinstance(rank, Tracer)
    if m <= n or (known and int(rank) < n):
        residuals = zeros_like(a, finfo(a.dtype).dtype, shape=0)
    else:
        rest = b - ops.matmul(a, x)
        residuals = ops.sum(ops.real(rest * ops.conj(rest)), axis=-2)
    return ops.index(x, (Ellipsis, 0)) if vector else x, residuals, rank, values


@of_array
def det(a: ArrayLike) -> Array:
    """Returns the determinants of matrices.

    Args:
        a: an array of shape (..., n, n).

    Returns:
        An array of shape (...). The derivative is the matrix of cofactors, which singular
        matrices have too.

    Raises:
        MatrixShapeError: the matrices are not square.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.grad(np.linalg.det)(np.array([[0.0, 0.0], [0.0, 3.0]])).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    return solving.det(as_matrices("det", a, square=True))


def slogdet(a: ArrayLike) -> SlogdetResult:
    """Returns the signs of determinants and the logarithms of their sizes.

    Args:
        a: an array of shape (..., n, n).

    Returns:
        A named tuple ``(sign, logabsdet)`` of arrays of shape (...); of a singular matrix 0 and
        -inf, without a derivative.

    Raises:
        MatrixShapeError: the matrices are not square.

    >>> import functensor.numpy as np
    >>> sign, logabsdet = np.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]])
    >>> float(sign), float(logabsdet)
    (-1.0, 0.0)
    """
    sign, logarithm = unpacked(solving.slogdet(as_matrices("slogdet", a, square=True)), [(), ()])
    return SlogdetResult(sign, ops.real(logarithm))


@of_array
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """Returns the Cholesky factors of positive definite matrices.

    Args:
        a: an array of shape (..., n, n), of which the triangle that is asked for is read. Gradients
            lie in that triangle; those of ``cholesky((a + a.mT.conj()) / 2)`` are Hermitian.
        upper: whether to return the upper factor, the adjoint of the lower one.

    Returns:
        L of a's shape with ``L @ L.mT.conj() = a``, or U with ``U.mT.conj() @ U = a``.

    Raises:
        LinAlgError: a matrix is not positive definite.
        MatrixShapeError: the matrices are not square.

    >>> import functensor.numpy as np
    >>> np.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    a = as_matrices("cholesky", a, square=True)
    lower = solving.cholesky(mirrored(a, lower=not upper))
    return adjoint(lower) if upper else lower


@of_array
def expm(A: ArrayLike) -> Array:
    """Returns the exponentials of matrices; NumPy has no such function, SciPy has it in ``linalg``.

    Args:
        A: an array of shape (..., n, n).

    Returns:
        An array of A's shape.

    Raises:
        MatrixShapeError: the matrices are not square.

    Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited",
    SIAM J. Matrix Anal. Appl. 26 (2005).

    >>> import functensor.numpy as np
    >>> np.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return matrix_functions.expm(as_matrices("expm", A, square=True))


@of_array
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Returns the inverse of an array for ``tensordot`` over ``ind`` axes.

    Args:
        a: an array; its first ``ind`` axes have as many elements as the others.
        ind: how many first axes are those of the result of ``tensordot(a, x)``.

    Returns:
        An array of shape ``a.shape[ind:] + a.shape[:ind]``.

    Raises:
        ValueError: ``ind`` is not positive.
        ShapeError: the axes do not make a square.
        LinAlgError: a is singular.

    >>> import functensor.numpy as np
    >>> np.linalg.tensorinv(np.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    a = inexact("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"tensorinv: ind counts the first axes, from 1; it is {ind}")
    rows, columns = a.shape[:ind], a.shape[ind:]
    matrix = _as_square("tensorinv", a, rows, columns)
    return ops.reshape(solving.inv.bind((matrix,), {"strict": True}), (*columns, *rows))


def _as_square(name: str, a: Array, rows: Shape, columns: Shape) -> Array:
    if prod(rows) != prod(columns):
        raise misfit(
            f"{name}: axes {rows} have {prod(rows)} elements and axes {columns} {prod(columns)}",
            "the axes of equations and those of unknowns have as many elements",
        )
    return ops.reshape(a, (prod(rows), prod(columns)))


@of_arrays
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Returns x with ``tensordot(a, x, x.ndim) = b``.

    Args:
        a: an array of shape ``b.shape + x.shape``.
        b: an array.
        axes: axes of a that are moved to its end before.

    Returns:
        The array x.

    Raises:
        ShapeError: a's axes do not make a square.
        LinAlgError: a is singular.

    >>> import functensor.numpy as np
    >>> np.linalg.tensorsolve(np.eye(6).reshape(2, 3, 6), np.ones((2, 3))).shape
    (6,)
    """
    a, b = inexact("tensorsolve", a), inexact("tensorsolve", b)
    if axes is not None:
        a = ops.moveaxis(a, list(axes), list(range(-len(axes), 0)))
    unknowns = a.shape[len(b.shape) :]
    matrix = _as_square("tensorsolve", a, a.shape[: len(b.shape)], unknowns)
    return ops.reshape(solve(matrix, ops.reshape(b, (-1,))), unknowns)
