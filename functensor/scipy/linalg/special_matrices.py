"""Matrices of a special form: Toeplitz, Hankel, circulant, companion, block diagonal."""

from __future__ import annotations

import operator

import numpy as np

from ...numpy.creation import asarray
from ...numpy.zeros_ones import zeros
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import broadcast_shapes, result_type
from ..axis_slices import cut_last

__all__ = ["block_diag", "circulant", "companion", "hankel", "hilbert", "khatri_rao", "toeplitz"]


def _as_vectors(x: ArrayLike) -> Array:
    """Returns an argument as a stack of vectors."""
    x = asarray(x)
    return x if len(x.shape) else ops.reshape(x, (1,))


def _vectors_joined(*vectors: Array) -> Array:
    """Returns stacks of vectors, one behind the other."""
    stack = np.broadcast_shapes(*(v.shape[:-1] for v in vectors))
    return ops.concatenate([ops.broadcast_to(v, (*stack, v.shape[-1])) for v in vectors], axis=-1)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Returns matrices with constant diagonals.

    Args:
        c: an array of shape (..., m): the first columns.
        r: an array of shape (..., n): the first rows, of which the first element is not used; None
            for c's conjugate.

    Returns:
        An array of shape (..., m, n).

    >>> from functensor.scipy import linalg
    >>> linalg.toeplitz([1.0, 2.0, 3.0], [1.0, 5.0]).tolist()
    [[1.0, 5.0], [2.0, 1.0], [3.0, 2.0]]
    """
    c = _as_vectors(c)
    r = ops.conj(c) if r is None else _as_vectors(r)
    m, n = c.shape[-1], r.shape[-1]
    backwards = ops.flip(cut_last(r, 1), axis=-1)
    rows, columns = np.ogrid[:m, :n]
    return ops.index(_vectors_joined(backwards, c), (Ellipsis, rows - columns + max(n - 1, 0)))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Returns matrices with constant antidiagonals.

    Args:
        c: an array of shape (..., m): the first columns.
        r: an array of shape (..., n): the last rows, of which the first element is not used; None
            for zeros.

    Returns:
        An array of shape (..., m, n).

    >>> from functensor.scipy import linalg
    >>> linalg.hankel([1.0, 2.0], [9.0, 3.0, 4.0]).tolist()
    [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    """
    c = _as_vectors(c)
    r = beside(c, np.zeros(c.shape, c.dtype)) if r is None else _as_vectors(r)
    rows, columns = np.ogrid[: c.shape[-1], : r.shape[-1]]
    return ops.index(_vectors_joined(c, cut_last(r, 1)), (Ellipsis, rows + columns))


def circulant(c: ArrayLike) -> Array:
    """Returns matrices whose columns are a vector, turned by one place more each.

    Args:
        c: an array of shape (..., n): the first columns.

    Returns:
        An array of shape (..., n, n).

    >>> from functensor.scipy import linalg
    >>> linalg.circulant([1.0, 2.0, 3.0]).tolist()
    [[1.0, 3.0, 2.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]]
    """
    c = _as_vectors(c)
    rows, columns = np.ogrid[: c.shape[-1], : c.shape[-1]]
    return ops.index(c, (Ellipsis, (rows - columns) % max(c.shape[-1], 1)))


def companion(a: ArrayLike) -> Array:
    """Returns matrices whose eigenvalues are the roots of polynomials.

    Args:
        a: an array of shape (..., n), n > 1: coefficients, that of the highest power first.

    Returns:
        An array of shape (..., n - 1, n - 1).

    Raises:
        ShapeError: there are fewer than two coefficients.

    >>> from functensor.scipy import linalg
    >>> linalg.companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    a = _as_vectors(a)
    n = a.shape[-1]
    if n < 2:
        raise misfit(
            f"companion: {n} coefficients, in an array of shape {a.shape}",
            "give at least two, e.g. companion([1.0, -root])",
        )
    first = -cut_last(a, 1) / cut_last(a, None, 1)
    ones = beside(a, np.eye(n - 2, n - 1, dtype=first.dtype))
    below = ops.broadcast_to(ones, (*a.shape[:-1], n - 2, n - 1))
    return ops.concatenate([ops.expand_dims(first, -2), below], axis=-2)


def block_diag(*arrs: ArrayLike) -> Array:
    """Returns matrices with blocks along their diagonals, and zeros elsewhere.

    Args:
        arrs: arrays of shapes (..., m, n); vectors are rows, numbers blocks of one element.

    Returns:
        An array of the stack to which theirs broadcast, with as many rows and columns as all have
        together.

    >>> from functensor.scipy import linalg
    >>> linalg.block_diag([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 4.0]]
    """
    if not arrs:
        return zeros((1, 0))
    blocks = [ops.atleast_2d(asarray(a)) for a in arrs]
    dtype = result_type(*(block.dtype for block in blocks))
    stack = broadcast_shapes("block_diag", *(block.shape[:-2] for block in blocks))
    width = sum(block.shape[-1] for block in blocks)
    rows = []
    before = 0
    for block in blocks:
        m, n = block.shape[-2:]
        block = ops.broadcast_to(ops.astype(block, dtype), (*stack, m, n))
        rows.append(ops.pad(block, [(0, 0)] * (len(stack) + 1) + [(before, width - before - n)]))
        before += n
    return ops.concatenate(rows, axis=-2)


def hilbert(n: int) -> Array:
    """Returns the matrix of the reciprocals of ``i + j + 1``.

    Args:
        n: how many rows and columns.

    Returns:
        An array of shape (n, n), dtype float64.

    >>> from functensor.scipy import linalg
    >>> linalg.hilbert(2).round(3).tolist()
    [[1.0, 0.5], [0.5, 0.333]]
    """
    n = operator.index(n)
    rows, columns = np.ogrid[:n, :n]
    return asarray(1.0 / (rows + columns + 1))


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns the Kronecker products of matching columns.

    Args:
        a: an array of shape (..., m, k).
        b: an array of shape (..., n, k).

    Returns:
        An array of shape (..., m * n, k).

    Raises:
        ShapeError: the numbers of columns differ.

    >>> from functensor.scipy import linalg
    >>> linalg.khatri_rao([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]).tolist()
    [[3.0, 8.0], [5.0, 12.0]]
    """
    a, b = asarray(a), asarray(b)
    if min(len(a.shape), len(b.shape)) < 2 or a.shape[-1] != b.shape[-1]:
        raise misfit(
            f"khatri_rao: shapes {a.shape} and {b.shape}: matrices with as many columns are "
            "needed",
            "np.kron multiplies every column with every other",
        )
    products = ops.expand_dims(a, -2) * ops.expand_dims(b, -3)
    shape = products.shape
    return ops.reshape(products, (*shape[:-3], shape[-3] * shape[-2], shape[-1]))
