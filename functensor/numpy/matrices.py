"""Matrices put together, their diagonals, and how variables vary together."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..backends.annotations import Buffer, DTypeLike, Shape
from ..backends.errors.public_functions import check_function
from ..backends.restoring import errstate
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.at import result_is_dropped
from ..primitives.core.errors import (
    UnusedUpdateWarning,
    describe,
    message,
    misfit,
    refuse_out,
    would_change,
)
from ..primitives.core.shape_dtype import finfo, result_type
from ..primitives.core.ufunc_methods import on_axes
from .arguments import array_beside, arrays_together
from .creation import asarray
from .reshaping import diag_indices, tril_indices, triu_indices
from .searching import nonzero

__all__ = [
    "block", "corrcoef", "cov", "diag_indices_from", "fill_diagonal", "mask_indices", "matvec",
    "tril_indices_from", "triu_indices_from", "vecmat",
]  # fmt: skip


# -- put together


def _depth_of_blocks(name: str, arrays: Any) -> int:
    """Returns how deep lists are nested, which has to be the same everywhere."""
    if isinstance(arrays, tuple):
        raise TypeError(f"{name}: blocks are nested in lists, not in tuples: {arrays!r:.60}")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError(f"{name}: a list of blocks is empty")
    depths = {_depth_of_blocks(name, item) for item in arrays}
    if len(depths) > 1:
        raise ValueError(f"{name}: lists of blocks are nested {sorted(depths)} deep")
    return 1 + depths.pop()


def _blocks_in_lists(arrays: Any) -> list[ArrayLike]:
    if not isinstance(arrays, list):
        return [arrays]
    return [x for item in arrays for x in _blocks_in_lists(item)]


def _nested_blocks(arrays: Any, leaves: Iterator[Array]) -> Any:
    """Returns leaves nested as lists are."""
    if isinstance(arrays, list):
        return [_nested_blocks(item, leaves) for item in arrays]
    return next(leaves)


def _joined_blocks(arrays: Any, axis: int, rank: int) -> Array:
    if not isinstance(arrays, list):
        return ops.reshape(arrays, (1,) * (rank - len(arrays.shape)) + arrays.shape)
    return ops.concatenate([_joined_blocks(item, axis + 1, rank) for item in arrays], axis=axis)


@ops.add_function
def block(arrays: ArrayLike) -> Array:
    """Returns an array put together from blocks in nested lists.

    Args:
        arrays: nested lists of arrays: the innermost are joined along the last axis, those around
            them along the one before, and so on.

    Returns:
        An array of the dtype to which the blocks promote.

    Raises:
        ValueError: a list is empty, or lists are not nested equally deep.
        ShapeError: blocks do not fit together.

    >>> import functensor.numpy as np
    >>> np.block([[np.eye(1), np.zeros((1, 2))], [np.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    depth = _depth_of_blocks("block", arrays)
    blocks = arrays_together(_blocks_in_lists(arrays))
    rank = max(depth, *(len(x.shape) for x in blocks))
    return _joined_blocks(_nested_blocks(arrays, iter(blocks)), rank - depth, rank)


# -- products with vectors


@ops.add_function
def matvec(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: None = None,
    *,
    axes: Sequence[int | Sequence[int]] | None = None,
) -> Array:
    """Returns the products of matrices with vectors.

    Args:
        x1: an array of shape (..., m, n).
        x2: an array of shape (..., n); axes in front broadcast.
        out: None; arrays are immutable.
        axes: which axes the matrices, the vectors and the results have in place of the last ones,
            as ``[(-2, -1), -1, -1]``.

    Returns:
        An array of shape (..., m).

    >>> import functensor.numpy as np
    >>> np.matvec(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.0]))
    Array([1., 3.], dtype=float64, device='cpu')
    """
    refuse_out("matvec", out)
    if axes is not None:
        return on_axes(matvec, np.matvec.signature, (x1, x2), axes)
    matrix = _as_matrices("matvec", x1)
    column = ops.expand_dims(asarray(x2), -1)
    return ops.index(ops.matmul(matrix, column), (Ellipsis, 0))


@ops.add_function
def vecmat(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: None = None,
    *,
    axes: Sequence[int | Sequence[int]] | None = None,
) -> Array:
    """Returns the products of vectors, complex ones conjugated, with matrices.

    Args:
        x1: an array of shape (..., m); axes in front broadcast.
        x2: an array of shape (..., m, n).
        out: None; arrays are immutable.
        axes: which axes the vectors, the matrices and the results have in place of the last ones,
            as ``[-1, (-2, -1), -1]``.

    Returns:
        An array of shape (..., n).

    >>> import functensor.numpy as np
    >>> np.vecmat(np.array([1.0, 0.0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([1., 2.], dtype=float64, device='cpu')
    """
    refuse_out("vecmat", out)
    if axes is not None:
        return on_axes(vecmat, np.vecmat.signature, (x1, x2), axes)
    matrix = _as_matrices("vecmat", x2)
    row = ops.expand_dims(ops.conj(asarray(x1)), -2)
    return ops.index(ops.matmul(row, matrix), (Ellipsis, 0, slice(None)))


def _as_matrices(name: str, x: ArrayLike) -> Array:
    """Returns matrices as an array."""
    matrix = asarray(x)
    if matrix.ndim < 2:
        raise misfit(
            f"{name}: {describe(matrix)} in the place of matrices",
            "give an array of two or more axes, or np.vecdot for vectors",
        )
    return matrix


# -- diagonals and triangles


def _warn_if_dropped(name: str, fix: str) -> None:
    """Warns if the caller's caller throws away what the caller is about to return."""
    if __debug__ and result_is_dropped():
        what = f"the result of {name} is thrown away; its argument is unchanged"
        warnings.warn(message(what, fix=fix, number=3), UnusedUpdateWarning, stacklevel=4)


# The registry lacks it: NumPy's function of that name changes its array in place.
def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """Returns an array with its main diagonal replaced.

    NumPy's function changes its argument and returns nothing. Arrays are immutable, so that
    ``inplace=False`` has to be said, as in JAX.

    Args:
        a: an array of at least two axes; where there are more, all of one length.
        val: numbers for the diagonal, of any shape: as many as needed are taken, and from the
            front again where there are too few.
        wrap: whether in a matrix with more rows than columns the diagonal begins anew below.
        inplace: False: a new array is returned.

    Returns:
        An array of a's shape and dtype. Derivatives flow to a and to val.

    Raises:
        ShapeError: a has less than two axes, or more of different lengths.
        ImmutableArrayError: ``inplace`` is not False, so that a itself would be changed.

    >>> import functensor.numpy as np
    >>> np.fill_diagonal(np.zeros((2, 2)), 5.0, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float64, device='cpu')
    """
    fix = "a = functensor.numpy.fill_diagonal(a, value, inplace=False)"
    if inplace:
        raise would_change("np.fill_diagonal(a, value)", a, fix)
    _warn_if_dropped("fill_diagonal", fix)
    a = asarray(a)
    val = array_beside(a, val)
    if len(a.shape) < 2:
        raise misfit(
            f"fill_diagonal: at least two axes are needed, not shape {a.shape}",
            "np.fill_diagonal(matrix, value, inplace=False)",
        )
    if len(a.shape) > 2:
        if len(set(a.shape)) > 1:
            raise misfit(
                f"fill_diagonal: axes of equal length are needed, not {a.shape}",
                "ft.vmap(lambda a: np.fill_diagonal(a, value, inplace=False))(matrices)",
            )
        rows = np.arange(a.shape[0])
        key: tuple[Buffer, ...] = (rows,) * len(a.shape)
    else:
        height, width = a.shape
        # After a whole round of the diagonal one row stays free.
        flat = np.arange(0, height * width, width + 1)
        if not wrap:
            flat = flat[: min(height, width)]
        key = (flat // max(width, 1), flat % max(width, 1))
    count = key[0].shape[0]
    if val.shape:
        val = ops.take(ops.reshape(val, -1), np.arange(count) % max(val.size, 1))
    return ops.index_set(a, key, val)


def _shape_of_matrix(name: str, arr: ArrayLike) -> Shape:
    shape = asarray(arr).shape
    if len(shape) != 2:
        raise misfit(
            f"{name}: a matrix is wanted, not shape {shape}",
            f"np.{name}(x[0]), with the axes of one matrix",
        )
    return shape


def _on_device_of(arr: ArrayLike, indices: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple([ops.to_device(i, asarray(arr).device) for i in indices])


@ops.add_function
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Returns the indices of the main diagonal of an array whose axes are all of one length.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.diag_indices_from(np.eye(2))]
    [[0, 1], [0, 1]]
    """
    arr = asarray(arr)
    shape = arr.shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise misfit(
            f"diag_indices_from: two or more axes of one length, not shape {shape}",
            "np.diag_indices(n, ndim)",
        )
    return _on_device_of(arr, diag_indices(shape[0], len(shape)))


@ops.add_function
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Returns the indices of a matrix's elements on and below a diagonal.

    Args:
        arr: the matrix, of which only the shape matters.
        k: which diagonal: above the main one where positive.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.tril_indices_from(np.eye(2))]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = _shape_of_matrix("tril_indices_from", arr)
    return _on_device_of(arr, tril_indices(rows, k, columns))


@ops.add_function
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Returns the indices of a matrix's elements on and above a diagonal.

    Args:
        arr: the matrix, of which only the shape matters.
        k: which diagonal: above the main one where positive.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.triu_indices_from(np.eye(2))]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = _shape_of_matrix("triu_indices_from", arr)
    return _on_device_of(arr, triu_indices(rows, k, columns))


def mask_indices(n: int, mask_func: Callable[..., ArrayLike], k: int = 0) -> tuple[Array, ...]:
    """Returns the indices of those elements of a square matrix that a function keeps.

    Args:
        n: how many rows the matrix has.
        mask_func: ``mask_func(ones, k)`` returns zeros where elements are left out: `triu`, `tril`.
        k: what is handed on to it.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.mask_indices(2, np.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    check_function("mask_indices", mask_func, "mask_func")
    return nonzero(mask_func(asarray(np.ones((n, n), int)), k))


# -- how variables vary together


def _rows_of_variables(
    name: str, m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: DTypeLike | None
) -> Array:
    """Returns the observations of all variables, a row for each."""
    arrays = arrays_together([x for x in (m, y) if x is not None], name)
    for x in arrays:
        if len(x.shape) > 2:
            raise misfit(
                f"{name}: variables have two axes at most, not shape {x.shape}",
                f"np.{name}(x.reshape(len(x), -1)), with a row for each variable",
            )
    # NumPy does so too: sums of products of single precision lose too much.
    kind = dtype if dtype is not None else result_type(np.float64, *(x.dtype for x in arrays))
    rows = []
    for x in arrays:
        row = ops.atleast_2d(ops.astype(x, kind))
        rows.append(row if rowvar or len(x.shape) < 2 else ops.transpose(row))
    return rows[0] if len(rows) == 1 else ops.concatenate(rows, axis=0)


def _observation_weights(name: str, what: str, w: ArrayLike, count: int) -> Array:
    w = asarray(w)
    if w.shape != (count,):
        raise misfit(
            f"{name}: {what} of shape {w.shape} for {count} observations",
            f"np.{name}(x, {what}=w), with a number for each observation",
        )
    return w


@ops.add_function
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Returns the covariances of variables.

    Args:
        m: observations, a row for each variable; or those of one variable on one axis.
        y: more variables.
        rowvar: whether variables are rows; columns otherwise.
        bias: whether to divide by the number of observations, rather than by one less.
        ddof: what to subtract from the number of observations instead.
        fweights: how often each observation occurs: integers.
        aweights: how much each observation counts.
        dtype: in which dtype to compute; None for ``float64`` or ``complex128``.

    Returns:
        A square matrix with a row for each variable, without axes for a single one. Derivatives
        flow to observations and to weights.

    Raises:
        ShapeError: shapes do not fit.
        ValueError: ddof is no integer.

    >>> import functensor.numpy as np
    >>> np.cov(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float64, device='cpu')
    """
    if ddof is not None and ddof != operator.index(int(ddof)):
        raise ValueError(f"cov: ddof is an integer, not {ddof}")
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    x = _rows_of_variables("cov", m, y, rowvar, dtype)
    count = x.shape[1]
    w: Any = None
    if fweights is not None:
        w = _observation_weights("cov", "fweights", fweights, count)
        if w.dtype.kind not in "iub":
            raise TypeError(f"cov: fweights are integers, not {w.dtype}")
    if aweights is not None:
        a = _observation_weights("cov", "aweights", aweights, count)
        w = a if w is None else ops.multiply(w, a)
    if w is None:
        total: Any = count
        mean = ops.mean(x, 1, keepdims=True)
        freedom: Any = total - ddof
    else:
        real = finfo(x.dtype).dtype
        w = ops.astype(w, real)
        total = ops.sum(w)
        mean = ops.divide(ops.sum(ops.multiply(x, w), 1, keepdims=True), total)
        lost: Any = ddof
        if ddof and aweights is not None:
            lost = ops.multiply(ddof, ops.divide(ops.sum(ops.multiply(w, aweights)), total))
        freedom = ops.subtract(total, lost)
    apart = ops.subtract(x, mean)
    scaled = apart if w is None else ops.multiply(apart, w)
    products = ops.matmul(scaled, ops.conj(ops.transpose(apart)))
    # Without a degree of freedom results are infinite, or NaN.
    freedom = float(max(freedom, 0)) if isinstance(freedom, int) else ops.maximum(freedom, 0.0)
    with errstate(divide="ignore", invalid="ignore"):
        out = ops.divide(products, freedom)
    return ops.squeeze(out)


@ops.add_function
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Array:
    """Returns the correlation coefficients of variables: their covariances if each varied by 1.

    Args:
        x, y, rowvar, dtype: as for `cov`.

    Returns:
        A square matrix of numbers from -1 to 1, without axes for a single variable; NaN where a
        variable does not vary.

    >>> import functensor.numpy as np
    >>> np.corrcoef(np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float64, device='cpu')
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return ops.divide(c, c)
    deviation = ops.sqrt(ops.real(ops.diagonal(c)))
    with errstate(divide="ignore", invalid="ignore"):
        c = ops.divide(c, ops.expand_dims(deviation, 1))
        c = ops.divide(c, ops.expand_dims(deviation, 0))
    if c.dtype.kind == "c":
        return ops.add(_clipped_to_one(ops.real(c)), ops.multiply(_clipped_to_one(ops.imag(c)), 1j))
    return _clipped_to_one(c)


def _clipped_to_one(c: Array) -> Array:
    """Returns numbers that rounding may have put a little outside of -1 to 1, inside of it."""
    # Numbers at the limit keep their derivative: those on the diagonal always are.
    return ops.where(ops.greater(ops.abs(c), 1), ops.sign(c), c)
