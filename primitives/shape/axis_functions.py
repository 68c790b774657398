"""Axes added, dropped, moved and picked from: functions made of reshape, transpose and index."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.annotations import Axis, Buffer, DTypeLike
from ..core.annotations import ArrayLike
from ..core.annotations import operations as ops
from ..core.array import Array, is_unknown
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import refuse_out
from ..core.registry import operand
from ..core.shape_dtype import broadcast_shapes, canonical_axes, canonical_axis, shape_dtype
from .reshape_transpose import as_shape

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "diag", "diagonal", "expand_dims",
    "moveaxis", "ravel", "squeeze", "swapaxes", "trace",
]  # fmt: skip


@ops.add_function
def expand_dims(a: ArrayLike, axis: Axis) -> Array:
    """Returns an array with axes of length 1 added.

    Args:
        a: an array.
        axis: where the new axis stands in the result; a tuple adds several.

    >>> import functensor.numpy as np
    >>> np.expand_dims(np.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    a = operand(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    shape = list(shape_of(a))
    for i in canonical_axes(axis, len(shape) + count):
        shape.insert(i, 1)
    return ops.reshape(a, shape)


@ops.add_function
def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Returns an array without axes of length 1.

    Args:
        a: an array.
        axis: None for all axes of length 1; an integer or a tuple of those to drop.

    Raises:
        ValueError: an axis that was named is longer than 1.

    >>> import functensor.numpy as np
    >>> np.squeeze(np.ones((1, 3, 1))).shape
    (3,)
    """
    a = operand(a)
    shape = shape_of(a)
    if axis is None:
        return ops.reshape(a, [n for n in shape if n != 1])
    axes = canonical_axes(axis, len(shape))
    for i in axes:
        if shape[i] != 1:
            raise ValueError(f"squeeze: axis {i} of shape {shape} has length {shape[i]}, not 1")
    return ops.reshape(a, [n for i, n in enumerate(shape) if i not in axes])


@ops.add_function
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """Returns the elements of an array along one axis.

    Args:
        a: an array.
        order: ``C``: the last axis moves fastest; ``F``: the first one.

    >>> import functensor.numpy as np
    >>> np.ravel(np.ones((2, 3))).shape
    (6,)
    """
    return ops.reshape(ops.transpose(a), -1) if order == "F" else ops.reshape(a, -1, order)


@ops.add_function
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Returns an array with axes moved to other places; the others stay in order.

    Args:
        a: an array.
        source: an axis, or a sequence of axes.
        destination: where they go, one for each.

    >>> import functensor.numpy as np
    >>> np.moveaxis(np.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = operand(a)
    ndim = len(shape_of(a))
    moved, places = (
        [canonical_axis(i, ndim, name) for i in ([axes] if type(axes) is int else as_shape(axes))]
        for name, axes in (("source", source), ("destination", destination))
    )
    if len(moved) != len(places) or len({*moved}) < len(moved) or len({*places}) < len(places):
        raise ValueError(f"moveaxis: {source} and {destination} do not pair off distinct axes")
    order = [i for i in range(ndim) if i not in moved]
    for place, i in sorted(zip(places, moved, strict=True)):
        order.insert(place, i)
    return ops.transpose(a, order)


@ops.add_function
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Returns an array with two axes swapped.

    Args:
        a: an array.
        axis1, axis2: the axes.

    >>> import functensor.numpy as np
    >>> np.swapaxes(np.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = operand(a)
    order = list(range(len(shape_of(a))))
    i, j = canonical_axis(axis1, len(order), "axis1"), canonical_axis(axis2, len(order), "axis2")
    order[i], order[j] = order[j], order[i]
    return ops.transpose.bind((a,), {"axes": tuple(order)})


def _with_axes_added(arrays: tuple[Any, ...], extend: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    """Returns the array, or the tuple of arrays, extended."""
    out = tuple([extend(a, shape_of(a)) for a in map(operand, arrays)])
    return out[0] if len(out) == 1 else out


@ops.add_function
def atleast_1d(*arys: ArrayLike) -> Any:
    """Returns arrays with scalars turned into arrays of one element.

    >>> import functensor.numpy as np
    >>> np.atleast_1d(2.0)
    Array([2.], dtype=float64, device='cpu')
    """
    return _with_axes_added(arys, lambda a, shape: ops.reshape(a, shape or (1,)))


@ops.add_function
def atleast_2d(*arys: ArrayLike) -> Any:
    """Returns arrays with axes of length 1 put in front up to two axes.

    >>> import functensor.numpy as np
    >>> np.atleast_2d(np.ones(3)).shape
    (1, 3)
    """
    return _with_axes_added(arys, lambda a, shape: ops.reshape(a, (1,) * (2 - len(shape)) + shape))


@ops.add_function
def atleast_3d(*arys: ArrayLike) -> Any:
    """Returns arrays with axes of length 1 added up to three: n becomes 1, n, 1 and m, n, 1.

    >>> import functensor.numpy as np
    >>> np.atleast_3d(np.ones(3)).shape
    (1, 3, 1)
    """

    def extend(a: Any, shape: tuple[int, ...]) -> Array:
        in_front = (1,) * (2 - len(shape))
        return ops.reshape(a, shape if len(shape) > 2 else (*in_front, *shape, 1))

    return _with_axes_added(arys, extend)


@ops.add_function
def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Array, ...]:
    """Returns arrays broadcast to the shape that they have in common.

    Args:
        args: arrays.
        subok: of no effect.

    Returns:
        A tuple of arrays.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> import functensor.numpy as np
    >>> [x.shape for x in np.broadcast_arrays(np.ones((2, 1)), np.ones(3))]
    [(2, 3), (2, 3)]
    """
    arrays = [operand(x) for x in args]
    shape = broadcast_shapes("broadcast_arrays", *map(shape_of, arrays)) if arrays else ()
    return tuple([ops.broadcast_to(x, shape) for x in arrays])


# -- diagonals


def _diagonal_places(rows: int, columns: int, offset: int) -> tuple[Buffer, Buffer]:
    """Returns the row and column indices of a diagonal."""
    first = np.arange(max(-offset, 0), min(rows, columns - offset))
    return first, first + offset


def _two_axes(name: str, a: ArrayLike, axis1: int, axis2: int) -> tuple[int, int]:
    """Returns two axes of an array, counted from the front."""
    ndim = len(shape_of(a))
    i, j = canonical_axis(axis1, ndim, "axis1"), canonical_axis(axis2, ndim, "axis2")
    if i == j:
        raise ValueError(f"{name}: axis1 and axis2 are both {i}")
    return i, j


@ops.add_function
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Returns the diagonals of the matrices that two axes of an array make.

    Args:
        a: an array of at least two axes.
        offset: which diagonal: 0 the main one, positive ones above it.
        axis1, axis2: the axes of the rows and of the columns.

    Returns:
        An array of a's dtype without the two axes, and with the diagonal as its last one.

    >>> import functensor.numpy as np
    >>> np.diagonal(np.arange(4.0).reshape(2, 2))
    Array([0., 3.], dtype=float64, device='cpu')
    """
    a = operand(a)
    shape, (i, j) = shape_of(a), _two_axes("diagonal", a, axis1, axis2)
    places = _diagonal_places(shape[i], shape[j], operator.index(offset))
    return ops.index(moveaxis(a, (i, j), (-2, -1)), (Ellipsis, *places))


@ops.add_function
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Returns the diagonal of a matrix, or the square matrix with a diagonal.

    Args:
        v: a matrix, or the elements of the diagonal.
        k: which diagonal: 0 the main one, positive ones above it.

    Raises:
        ValueError: v has neither one nor two axes.

    >>> import functensor.numpy as np
    >>> np.diag(np.array([1.0, 2.0]))
    Array([[1., 0.],
           [0., 2.]], dtype=float64, device='cpu')
    """
    v = operand(v)
    shape = shape_of(v)
    if len(shape) == 2:
        return diagonal(v, k)
    if len(shape) != 1:
        raise ValueError(f"diag: an array of one or two axes is wanted, not of shape {shape}")
    size = shape[0] + abs(operator.index(k))
    zeros = np.zeros((size, size), shape_dtype(v).dtype)
    return ops.index_set(beside(v, zeros), _diagonal_places(size, size, operator.index(k)), v)


@ops.add_function
def trace(
    a: ArrayLike,
    offset: Any = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Returns the sums of the diagonals of the matrices that two axes of an array make.

    Args:
        a: an array of at least two axes.
        offset: which diagonal: 0 the main one, positive ones above it; an integer, also traced.
        axis1, axis2: the axes of the rows and of the columns.
        dtype: of the result and of the sum; None for the sum's own choice.
        out: None; arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.trace(np.ones((3, 3)))
    Array(3., dtype=float64, device='cpu')
    """
    refuse_out("trace", out)
    if type(offset) is not int and is_unknown(offset) and shape_dtype(offset).dtype.kind in "iu":
        return _trace_of_any(operand(a), offset, axis1, axis2, dtype)
    return ops.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _trace_of_any(
    a: ArrayLike, offset: ArrayLike, axis1: int, axis2: int, dtype: DTypeLike | None
) -> Array:
    """Returns the sums of diagonals that are not known: what is not on them is left out."""
    a = moveaxis(a, _two_axes("trace", a, axis1, axis2), (-2, -1))
    rows, columns = shape_of(a)[-2:]
    places = beside(a, np.arange(columns) - np.arange(rows)[:, None])
    return ops.sum(a, axis=(-2, -1), dtype=dtype, where=ops.equal(places, offset))
