"""Elements in order, and those that a condition picks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import misfit, refuse_out
from ..primitives.core.shape_dtype import canonical_axis
from ..primitives.reduce.partition import argpartition
from .arguments import arrays_together
from .creation import asarray
from .known_values import first_true, value_of
from .zeros_ones import full_like

__all__ = ["argpartition", "compress", "extract", "lexsort", "partition", "sort_complex"]


@ops.add_function
def partition(
    a: ArrayLike,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: None = None,
) -> Array:
    """Returns an array with some elements where sorting would put them.

    Args:
        a: an array.
        kth: which places get the element that sorting would put there, one or several; in front of
            each stand smaller or equal elements, behind it larger or equal ones.
        axis: along which axis; None flattens the array first.
        kind: ``introselect``, NumPy's only algorithm.
        order: None; arrays have no fields to order by.

    Returns:
        An array of a's elements.

    Raises:
        ShapeError: there is no such place.

    >>> import functensor.numpy as np
    >>> np.partition(np.array([3.0, 1.0, 2.0]), 1)
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """
    a = asarray(a)
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    return ops.take_along_axis(a, argpartition(a, kth, axis, kind, order), axis)


@ops.add_function
def lexsort(keys: ArrayLike, axis: int = -1) -> Array:
    """Returns the indices that sort by several keys, the last one first.

    Args:
        keys: arrays of one shape, or an array whose first axis is that of the keys.
        axis: along which axis of each key.

    Returns:
        Integers of a key's shape; places that are equal in all keys stay in order.

    >>> import functensor.numpy as np
    >>> np.lexsort(([1, 2, 3, 4], [7, 5, 7, 5]))
    Array([1, 3, 0, 2], dtype=int64, device='cpu')
    """
    listed = keys if isinstance(keys, Sequence) else asarray(keys)
    arrays = arrays_together(listed, "lexsort")
    if not arrays:
        raise TypeError("lexsort: there is no key to sort by")
    if any(key.shape != arrays[0].shape for key in arrays):
        raise misfit(
            f"lexsort: keys of different shapes {[key.shape for key in arrays]}",
            "np.lexsort([np.broadcast_to(key, shape) for key in keys])",
        )
    if not arrays[0].shape:
        return ops.astype(ops.multiply(ops.isnan(arrays[0]), 0), np.intp)
    axis = canonical_axis(axis, len(arrays[0].shape))
    order = ops.argsort(arrays[0], axis, stable=True)
    for key in arrays[1:]:
        in_order = ops.take_along_axis(key, order, axis)
        order = ops.take_along_axis(order, ops.argsort(in_order, axis, stable=True), axis)
    return order


@ops.add_function
def sort_complex(a: ArrayLike) -> Array:
    """Returns a complex array sorted along its last axis, by real and then by imaginary parts.

    >>> import functensor.numpy as np
    >>> np.sort_complex(np.array([2.0, 1.0]))
    Array([1.+0.j, 2.+0.j], dtype=complex128, device='cpu')
    """
    out = ops.sort(asarray(a))
    if out.dtype.kind == "c":
        return out
    small = out.dtype.kind in "iu" and out.dtype.itemsize < 4
    return ops.astype(out, np.complex64 if small else np.complex128)


# -- by a condition


def _where_true(
    name: str, condition: Array, a: Array, size: int | None, fill_value: ArrayLike
) -> Array:
    """Returns the slices along the first axis for which a condition on one axis holds."""
    condition = ops.not_equal(condition, 0)
    if size is None:
        value = value_of(name, condition, f"np.{name}(condition, x, size=n)")
        return ops.take(a, np.flatnonzero(value), axis=0)
    if not condition.shape[0]:
        return full_like(a, fill_value, shape=(size, *a.shape[1:]))
    places, found = first_true(condition, size)
    found = ops.reshape(found, (-1, *(1,) * (len(a.shape) - 1)))
    return ops.where(found, ops.take(a, places, axis=0), fill_value)


@ops.add_function
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """Returns the slices along an axis for which a condition holds.

    Args:
        condition: booleans on one axis, at most as many as there are slices.
        a: an array.
        axis: along which axis; None takes the flattened array.
        out: None; arrays are immutable.
        size: how many slices to return, for where the condition is not known: the first ones.
        fill_value: what stands behind them where there are fewer.

    Raises:
        ConcretizationError: the condition is not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.compress([True, False, True], np.array([1.0, 2.0, 3.0]))
    Array([1., 3.], dtype=float64, device='cpu')
    """
    refuse_out("compress", out)
    condition, a = arrays_together((condition, a))
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    axis = canonical_axis(axis, len(a.shape))
    if len(condition.shape) != 1 or condition.shape[0] > a.shape[axis]:
        raise misfit(
            f"compress: a condition of shape {condition.shape} for {a.shape[axis]} slices",
            "np.compress(condition[:n], x, axis), with n slices along the axis",
        )
    chosen = _where_true("compress", condition, ops.moveaxis(a, axis, 0), size, fill_value)
    return ops.moveaxis(chosen, 0, axis)


@ops.add_function
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Returns the elements for which a condition holds, on one axis.

    Args:
        condition: booleans of arr's size.
        arr: an array.
        size, fill_value: as for `compress`.

    Raises:
        ConcretizationError: the condition is not known, and no size is given.

    >>> import functensor.numpy as np
    >>> x = np.arange(6.0)
    >>> np.extract(x % 2 == 0, x)
    Array([0., 2., 4.], dtype=float64, device='cpu')
    """
    condition, arr = arrays_together((condition, arr))
    if condition.size > arr.size:
        raise misfit(
            f"extract: a condition of shape {condition.shape} for an array of shape {arr.shape}",
            "np.extract(condition, x), with a boolean for each element",
        )
    flat = ops.reshape(condition, -1)
    return _where_true("extract", flat, ops.reshape(arr, -1), size, fill_value)
