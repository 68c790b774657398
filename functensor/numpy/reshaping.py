"""Arrays put together, turned and laid out on grids."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.annotations import Buffer, DTypeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import broadcast_shapes as _broadcast_shapes
from ..primitives.core.shape_dtype import canonical_axis, number_dtype
from ..primitives.shape.axis_functions import broadcast_arrays
from ..primitives.shape.join_split import split
from .arguments import arrays_together
from .creation import asarray
from .known_values import are_values_known, value_of
from .sorting import compress

__all__ = [
    "append", "broadcast_shapes", "column_stack", "delete", "diag_indices", "diagflat", "dsplit",
    "dstack", "fliplr", "flipud", "hsplit", "indices", "ix_", "matrix_transpose", "meshgrid",
    "rot90", "tril_indices", "triu_indices", "unstack", "vsplit",
]  # fmt: skip


# -- joined and taken apart


@ops.add_function
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Returns an array with values joined to its end.

    Args:
        arr: an array.
        values: what to join: with as many axes as arr, unless ``axis`` is None.
        axis: along which axis; None joins the flattened arrays.

    >>> import functensor.numpy as np
    >>> np.append(np.array([1.0]), [2.0, 3.0])
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """
    return ops.concatenate(arrays_together((arr, values), "append"), axis=axis)


@ops.add_function
def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """Returns an array without some of its slices.

    Args:
        arr: an array.
        obj: the slices to leave out: an integer, a slice, integers or booleans.
        axis: along which axis; None takes the flattened array.
        size: how many slices to return, for where several integers, or booleans, are not known:
            the first ones. Without a single integer there is one slice less.
        fill_value: what stands behind them where there are fewer.

    Raises:
        ConcretizationError: booleans or several integers are not known, and no size is given.
        IndexError: an index is out of bounds, under ``jit`` and ``vmap`` too, as of ``x[i]``.
        ShapeError: there are not as many booleans as slices, where they are not known.

    >>> import functensor.numpy as np
    >>> np.delete(np.array([1.0, 2.0, 3.0]), 1)
    Array([1., 3.], dtype=float64, device='cpu')
    >>> np.delete(np.array([1.0, 2.0, 3.0]), [True, False, True], size=2, fill_value=-1)
    Array([ 2., -1.], dtype=float64, device='cpu')
    """
    arr = asarray(arr)
    if axis is None:
        arr, axis = ops.reshape(arr, -1), 0
    axis = canonical_axis(axis, len(arr.shape))
    places = np.arange(arr.shape[axis])
    gone: Any = obj if isinstance(obj, slice) else asarray(obj)
    if isinstance(obj, list | tuple) and not gone.size:
        gone = ops.astype(gone, np.intp)
    if isinstance(obj, slice) or are_values_known(gone):
        left = np.delete(places, obj if isinstance(obj, slice | int) else value_of("", gone, ""))
        if size is None:
            return ops.take(arr, left, axis=axis)
        kept: Array | Buffer = beside(arr, np.isin(places, left))
        return compress(kept, arr, axis, size=size, fill_value=fill_value)
    if size is None:
        if gone.dtype.kind == "b" or gone.size != 1:
            value_of("delete", gone, "np.delete(x, i, size=n), with n the most that can be left")
        # The table raises errors out of bounds.
        place = ops.take(beside(gone, places), ops.reshape(gone, ()))
        before, after = beside(place, places[:-1]), beside(place, places[1:])
        later = ops.greater_equal(before, place)
        return ops.take(arr, ops.where(later, after, before), axis=axis)
    if gone.dtype.kind != "b":
        every = beside(arr, np.ones(places.size, bool))
        kept = ops.index_set(every, ops.reshape(gone, -1), False)
    elif gone.shape == places.shape:
        kept = ops.logical_not(gone)
    else:
        raise misfit(
            f"delete: booleans of shape {gone.shape} for {places.size} slices",
            "np.delete(x, mask, axis, size=n), with a boolean for each slice",
        )
    return compress(kept, arr, axis, size=size, fill_value=fill_value)


@ops.add_function
def dstack(tup: Sequence[ArrayLike] | Array | Buffer) -> Array:
    """Returns arrays joined along the third axis, those of fewer axes extended to three.

    >>> import functensor.numpy as np
    >>> np.dstack([np.zeros(2), np.ones(2)]).shape
    (1, 2, 2)
    """
    return ops.concatenate([ops.atleast_3d(x) for x in arrays_together(tup)], axis=2)


@ops.add_function
def column_stack(tup: Sequence[ArrayLike] | Array | Buffer) -> Array:
    """Returns arrays joined along the second axis, 1-d ones as columns.

    >>> import functensor.numpy as np
    >>> np.column_stack([np.zeros(2), np.ones(2)])
    Array([[0., 1.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    arrays = arrays_together(tup)
    return ops.concatenate(
        [ops.reshape(x, (-1, 1)) if len(x.shape) < 2 else x for x in arrays], axis=1
    )


@ops.add_function
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Returns the slices of an array along an axis, as a tuple.

    Args:
        x: an array.
        axis: along which axis.

    >>> import functensor.numpy as np
    >>> [part.tolist() for part in np.unstack(np.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = asarray(x)
    before = (slice(None),) * canonical_axis(axis, len(x.shape))
    return tuple([ops.index(x, (*before, i)) for i in range(x.shape[axis])])


@ops.add_function
def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Returns the parts, of equal length, into which an array is cut along its first axis.

    Args:
        ary: an array of at least two axes.
        indices_or_sections: into how many parts; or the indices at which to cut, and then parts
            may differ in length.

    >>> import functensor.numpy as np
    >>> len(np.vsplit(np.eye(2), 2))
    2
    """
    ary = asarray(ary)
    if len(ary.shape) < 2:
        raise misfit(
            f"vsplit: two axes are needed, not shape {ary.shape}",
            "np.vsplit(np.atleast_2d(x), n), or np.split(x, n)",
        )
    return split(ary, indices_or_sections, 0)


@ops.add_function
def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Returns the parts, of equal length, into which an array is cut along its second axis.

    Args:
        ary: an array of at least one axis; where it has one, that is cut.
        indices_or_sections: into how many parts; or the indices at which to cut, and then parts
            may differ in length.

    >>> import functensor.numpy as np
    >>> [part.shape for part in np.hsplit(np.eye(2), 2)]
    [(2, 1), (2, 1)]
    """
    ary = asarray(ary)
    if not ary.shape:
        raise misfit(
            "hsplit: an array without axes cannot be cut", "np.hsplit(np.atleast_1d(x), n)"
        )
    return split(ary, indices_or_sections, int(len(ary.shape) > 1))


@ops.add_function
def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Returns the parts, of equal length, into which an array is cut along its third axis.

    Args:
        ary: an array of at least three axes.
        indices_or_sections: into how many parts; or the indices at which to cut, and then parts
            may differ in length.

    >>> import functensor.numpy as np
    >>> [part.shape for part in np.dsplit(np.ones((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    ary = asarray(ary)
    if len(ary.shape) < 3:
        raise misfit(
            f"dsplit: three axes are needed, not shape {ary.shape}",
            "np.dsplit(np.atleast_3d(x), n), or np.split(x, n, axis)",
        )
    return split(ary, indices_or_sections, 2)


# -- turned


@ops.add_function
def flipud(m: ArrayLike) -> Array:
    """Returns an array with its first axis reversed.

    >>> import functensor.numpy as np
    >>> np.flipud(np.array([1.0, 2.0]))
    Array([2., 1.], dtype=float64, device='cpu')
    """
    return ops.flip(m, 0)


@ops.add_function
def fliplr(m: ArrayLike) -> Array:
    """Returns an array with its second axis reversed.

    >>> import functensor.numpy as np
    >>> np.fliplr(np.array([[1.0, 2.0]]))
    Array([[2., 1.]], dtype=float64, device='cpu')
    """
    return ops.flip(m, 1)


@ops.add_function
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Returns an array turned by 90 degrees in a plane, from the first axis towards the second.

    Args:
        m: an array of at least two axes.
        k: how often to turn it.
        axes: the plane.

    >>> import functensor.numpy as np
    >>> np.rot90(np.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int64, device='cpu')
    """
    m = asarray(m)
    first, second = (canonical_axis(axis, len(m.shape)) for axis in axes)
    if first == second:
        raise ValueError(f"rot90: axes {axes} do not make a plane")
    turns = k % 4
    if turns == 0:
        return m
    if turns == 2:
        return ops.flip(m, (first, second))
    if turns == 1:
        return ops.swapaxes(ops.flip(m, second), first, second)
    return ops.flip(ops.swapaxes(m, first, second), second)


@ops.add_function
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Returns an array with its last two axes swapped.

    >>> import functensor.numpy as np
    >>> np.matrix_transpose(np.ones((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = asarray(x)
    if len(x.shape) < 2:
        raise misfit(
            f"matrix_transpose: two axes are needed, not shape {x.shape}",
            "x[:, None] is a vector as a column",
        )
    return ops.swapaxes(x, -1, -2)


@ops.add_function
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Returns the square matrix whose diagonal holds an array's elements.

    >>> import functensor.numpy as np
    >>> np.diagflat(np.array([[1.0, 2.0]]))
    Array([[1., 0.],
           [0., 2.]], dtype=float64, device='cpu')
    """
    return ops.diag(ops.reshape(asarray(v), -1), k)


# -- grids and indices


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Returns the shape to which shapes broadcast.

    Raises:
        ShapeError: they do not.

    >>> import functensor.numpy as np
    >>> np.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    tuples = [tuple(s) if isinstance(s, Sequence) else (s,) for s in shapes]
    return _broadcast_shapes("broadcast_shapes", *tuples) if tuples else ()


@ops.add_function
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Array, ...]:
    """Returns the coordinates of a grid's points, given those on each axis.

    Args:
        xi: numbers on one axis each.
        copy: of no effect: arrays are immutable.
        sparse: whether axes along which nothing changes have length 1.
        indexing: ``xy``: the second axis is that of the first argument; ``ij``: axes are in order.

    Returns:
        A tuple of arrays, one for each argument.

    >>> import functensor.numpy as np
    >>> x, y = np.meshgrid(np.arange(2.0), np.arange(3.0))
    >>> x.shape, y[:, 0].tolist()
    ((3, 2), [0.0, 1.0, 2.0])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    rank = len(xi)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = 1, 0
    shapes = [tuple([-1 if i == place else 1 for i in range(rank)]) for place in order]
    out = [ops.reshape(asarray(x), shape) for x, shape in zip(xi, shapes, strict=True)]
    return tuple(out if sparse or not out else broadcast_arrays(*out))


def indices(
    dimensions: Sequence[int], dtype: DTypeLike = int, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """Returns for each axis of a shape the index of every element along it.

    Args:
        dimensions: the shape.
        dtype: the dtype of the indices.
        sparse: whether to return a tuple of arrays of length 1 along all other axes.

    Returns:
        An array of shape ``(len(dimensions), *dimensions)``, or with ``sparse`` a tuple.

    >>> import functensor.numpy as np
    >>> np.indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int64, device='cpu')
    """
    if sparse:
        return tuple([asarray(i) for i in np.indices(dimensions, dtype, sparse=True)])
    return asarray(np.indices(dimensions, number_dtype(dtype)))


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Returns index arrays that pick the rows, columns and so on of a grid.

    >>> import functensor.numpy as np
    >>> np.arange(9).reshape(3, 3)[np.ix_([0, 2], [1])]
    Array([[1],
           [7]], dtype=int64, device='cpu')
    """
    arrays = [asarray(a) for a in args]
    for a in arrays:
        if len(a.shape) != 1:
            raise misfit(
                f"ix_ takes indices on one axis each, not of shape {a.shape}",
                "np.ix_(rows.ravel(), columns.ravel())",
            )
    picked = [ops.nonzero(a)[0] if a.dtype.kind == "b" else a for a in arrays]
    return meshgrid(*picked, sparse=True, indexing="ij")


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Returns the indices of the elements on and below a diagonal of a matrix.

    Args:
        n, m: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = np.tril_indices(n, k, m)
    return asarray(rows), asarray(columns)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Returns the indices of the elements on and above a diagonal of a matrix.

    Args:
        n, m: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.

    >>> import functensor.numpy as np
    >>> [i.tolist() for i in np.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = np.triu_indices(n, k, m)
    return asarray(rows), asarray(columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Returns the indices of the main diagonal of an array whose axes all have length n.

    Args:
        n: the length of every axis.
        ndim: how many axes there are.

    >>> import functensor.numpy as np
    >>> np.zeros((2, 2)).at[np.diag_indices(2)].set(1)
    Array([[1., 0.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    return (asarray(np.arange(n)),) * operator.index(ndim)
