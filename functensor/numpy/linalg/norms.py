"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ...backends.annotations import Axes, Axis
from ...primitives.core.annotations import ArrayLike, of_array
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.shape_dtype import canonical_axes, canonical_axis, finfo
from ...primitives.linalg import solving
from ..arguments import array_beside, as_inexact
from ..creation import asarray
from ..zeros_ones import zeros_like
from .arguments import MatrixShapeError, as_matrices

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

# A number, np.inf, or the name of a norm of matrices.
NormOrder: TypeAlias = float | str | None


def _power_norm(sizes: Array, order: float, axes: Axes, keepdims: bool) -> Array:
    """Returns the root of the sum of powers, in units of the element that counts most."""
    if not sizes.size:
        nothing = ops.sum(sizes, axis=axes, keepdims=keepdims)
        return nothing + (0 if order > 0 else np.inf)
    pick = ops.max if order > 0 else ops.min
    unit = ops.stop_gradient(pick(sizes, axis=axes, keepdims=True))
    unit = ops.where((unit == 0) | ops.isinf(unit), 1, unit)
    zero = sizes == 0
    terms = ops.where(zero, 1, sizes) / unit
    if order > 0:
        terms = ops.where(zero, 0, ops.power(terms, order))
        vanishing = ops.all(zero, axis=axes, keepdims=keepdims)
    else:
        terms = ops.power(terms, order)
        vanishing = ops.any(zero, axis=axes, keepdims=keepdims)
    total = ops.where(vanishing, 1, ops.sum(terms, axis=axes, keepdims=keepdims))
    scale = unit if keepdims else ops.reshape(unit, total.shape)
    return ops.where(vanishing, 0, scale * ops.power(total, 1 / order))


def _vector_norm(x: Array, order: NormOrder, axes: Axes, keepdims: bool) -> Array:
    if order is None or order == 2:
        return ops.euclidean_norm(x, axes, keepdims=keepdims)
    if isinstance(order, str):
        raise ValueError(f"norm: there is no norm {order!r} of vectors: give a number or np.inf")
    if order == 0:
        real = ops.real(x)
        counted = ops.astype(x != 0, real.dtype)
        # The derivative is 0, which the graph of a tensor has to know.
        return ops.sum(ops.where(False, real, counted), axis=axes, keepdims=keepdims)
    sizes = ops.abs(x)
    empty = not all(x.shape[a] for a in axes)
    if order == np.inf and not empty:
        return ops.max(sizes, axis=axes, keepdims=keepdims)
    if order == -np.inf:
        return ops.min(sizes, axis=axes, keepdims=keepdims)
    if order == 1 or (order == np.inf and empty):
        return ops.sum(sizes, axis=axes, keepdims=keepdims)
    return _power_norm(sizes, float(order), axes, keepdims)


def _matrix_norm(x: Array, order: NormOrder, axes: Axes, keepdims: bool) -> Array:
    """Returns norms of the matrices whose rows and columns stand at two axes."""
    if order is None or order in ("fro", "f"):
        return ops.euclidean_norm(x, axes, keepdims=keepdims)
    moved = ops.moveaxis(x, axes, (-2, -1))
    if order in ("nuc", 2, -2):
        out = _of_singular_values(as_matrices("norm", moved), order)
    elif order in (1, -1, np.inf, -np.inf):
        sums = ops.sum(ops.abs(moved), axis=-2 if abs(order) == 1 else -1)
        if order > 0 and not sums.shape[-1]:
            out = ops.sum(sums, axis=-1)
        else:
            out = (ops.max if order > 0 else ops.min)(sums, axis=-1)
    else:
        raise ValueError(
            f"norm: there is no norm {order!r} of matrices; there are 'fro', 'nuc', 1, -1, 2, -2, "
            "np.inf and -np.inf"
        )
    return ops.expand_dims(out, tuple([a % len(x.shape) for a in axes])) if keepdims else out


def _of_singular_values(x: Array, order: NormOrder) -> Array:
    values = ops.svdvals(x)
    if order == "nuc" or (order == 2 and not values.shape[-1]):
        return ops.sum(values, axis=-1)
    if not values.shape[-1]:
        raise ValueError(f"norm: order -2 of matrices without elements, of shape {x.shape}")
    return ops.index(values, (Ellipsis, 0 if order == 2 else -1))


@of_array
def norm(x: ArrayLike, ord: NormOrder = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Returns norms of vectors or of matrices.

    Args:
        x: an array; with neither ``ord`` nor ``axis`` all of it is one vector.
        ord: of vectors any number, ``np.inf`` and ``-np.inf``: the sum of the sizes to that power,
            and the root of it; 0 counts what is not 0. Of matrices ``"fro"``, ``"nuc"``, 1, -1, 2,
            -2 and the infinities. None: the square root of the sum of squares.
        axis: an integer for vectors, a pair for matrices; None for all of x.
        keepdims: whether the axes stay, with length 1.

    Returns:
        A real array without the axes. At 0 the derivative is 0.

    Raises:
        ValueError: the order is not offered, or there are neither one nor two axes.

    >>> import functensor as ft, functensor.numpy as np
    >>> np.linalg.norm(np.array([3.0, 4.0]))
    Array(5., dtype=float64, device='cpu')
    >>> ft.grad(np.linalg.norm)(np.zeros(2))
    Array([0., 0.], dtype=float64, device='cpu')
    """
    x = as_inexact(x)
    ndim = len(x.shape)
    if axis is None:
        axes = tuple(range(ndim))
        if ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1):
            return _vector_norm(x, 2, axes, keepdims)
    else:
        given = axis if isinstance(axis, tuple | list) else (axis,)
        axes = tuple([canonical_axis(a, ndim) for a in given])
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(
            f"norm: vectors have one axis and matrices two; {len(axes)} axes of shape {x.shape} "
            "were given: axis= chooses them"
        )
    if axes[0] == axes[1]:
        raise ValueError(f"norm: axis {axis} names an axis twice")
    return _matrix_norm(x, ord, axes, keepdims)


@of_array
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: NormOrder = 2
) -> Array:
    """Returns norms of vectors.

    Args:
        x: an array.
        axis: the axis or axes whose elements make a vector; None for all.
        keepdims: whether the axes stay, with length 1.
        ord: any number, ``np.inf`` or ``-np.inf``, as for `norm`.

    Returns:
        A real array without the axes.

    Raises:
        ValueError: the order is not offered.

    >>> import functensor.numpy as np
    >>> np.linalg.vector_norm([[1.0, 2.0], [3.0, 4.0]], ord=1, axis=1).tolist()
    [3.0, 7.0]
    """
    x = as_inexact(x)
    return _vector_norm(x, ord, canonical_axes(axis, len(x.shape)), keepdims)


@of_array
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: NormOrder = "fro") -> Array:
    """Returns norms of a stack of matrices.

    Args:
        x: an array of shape (..., m, n).
        keepdims: whether the last two axes stay, with length 1.
        ord: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, ``np.inf`` or ``-np.inf``, as for `norm`.

    Returns:
        A real array of shape (...).

    Raises:
        ValueError: the order is not offered.
        MatrixShapeError: x has fewer than two axes.

    >>> import functensor.numpy as np
    >>> float(np.linalg.matrix_norm([[1.0, -2.0], [3.0, 4.0]], ord=1))
    6.0
    """
    return _matrix_norm(as_matrices("matrix_norm", x), ord, (-2, -1), keepdims)


@of_array
def cond(x: ArrayLike, p: NormOrder = None) -> Array:
    """Returns condition numbers: how much a norm and that of the inverse make together.

    Args:
        x: an array of shape (..., m, n), square unless p is None, 2 or -2.
        p: the order of the norm, as for `norm`; None is 2: the largest over the smallest singular
            value.

    Returns:
        A real array of shape (...), inf for singular matrices.

    Raises:
        MatrixShapeError: x is no matrix, not square, or has no elements.

    >>> import functensor.numpy as np
    >>> float(np.linalg.cond([[2.0, 0.0], [0.0, 0.5]]))
    4.0
    """
    if p is None or p in (2, -2):
        x = as_matrices("cond", x)
        _refuse_empty(x)
        values = ops.svdvals(x)
        ends = [ops.index(values, (Ellipsis, place)) for place in (0, -1)]
        above, below = ends[::-1] if p == -2 else ends
        return ops.where(below == 0, np.inf, above / ops.where(below == 0, 1, below))
    x = as_matrices("cond", x, square=True)
    _refuse_empty(x)
    inverse = solving.inv.bind((x,), {"strict": False})
    product = matrix_norm(x, ord=p) * matrix_norm(inverse, ord=p)
    singular = ops.isnan(product) & ~ops.any(ops.isnan(x), axis=(-2, -1))
    return ops.where(singular, np.inf, product)


def _refuse_empty(x: Array) -> None:
    if 0 in x.shape[-2:]:
        raise MatrixShapeError(f"cond: matrices of shape {x.shape[-2:]} have no elements")


@of_array
def matrix_rank(
    A: ArrayLike,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """Returns how many singular values of matrices are not 0.

    Args:
        A: an array of shape (..., m, n); one with fewer axes has rank 1 unless all of it is 0.
        tol: singular values up to this count as 0; a number, or one for each matrix.
        hermitian: whether matrices are Hermitian, so that eigenvalues do.
        rtol: the same relative to the largest one; by default ``max(m, n)`` times the precision.

    Returns:
        An array of integers, of shape (...).

    Raises:
        ValueError: both tolerances are given.

    >>> import functensor.numpy as np
    >>> int(np.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: tol and rtol exclude each other")
    A = asarray(A)
    if len(A.shape) < 2:
        return ops.astype(ops.any(A != 0), np.int64)
    A = as_matrices("matrix_rank", A)
    values = ops.abs(ops.eigvalsh(A)) if hermitian else ops.svdvals(A)
    if not values.shape[-1]:
        return zeros_like(A, np.int64, shape=A.shape[:-2])
    if tol is None:
        if rtol is None:
            rtol = max(A.shape[-2:]) * finfo(values.dtype).eps
        tol = ops.max(values, axis=-1) * array_beside(values, rtol)
    return ops.count_nonzero(values > ops.expand_dims(array_beside(values, tol), -1), axis=-1)
