"""Arrays as sets: different elements, membership, unions, intersections and differences.

The size of a set depends on values: under vmap and while staging, functions that return one need a
``size``, and a value to fill it up with.
"""

from __future__ import annotations

from math import prod
from typing import Literal, NamedTuple, overload

import numpy as np

from ..backends.annotations import Buffer
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, concrete
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import INEXACT, canonical_axis, result_type
from .arguments import arrays_together
from .creation import asarray
from .known_values import first_true, is_at_hand, value_of
from .searching import searchsorted
from .sorting import lexsort
from .zeros_ones import full_like, zeros_like

__all__ = [
    "UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult", "in1d", "intersect1d", "isin",
    "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


# -- different elements


def _in_groups(x: Array, equal_nan: bool) -> tuple[Array | Buffer, Array]:
    """Returns indices that sort elements or rows, and at which places equal ones begin."""
    if len(x.shape) == 1:
        order: Array | Buffer = ops.argsort(x, 0, stable=True)
    else:
        columns = [ops.index(x, (slice(None), j)) for j in range(x.shape[1])]
        order = lexsort(columns[::-1]) if columns else beside(x, np.arange(x.shape[0]))
    in_order = ops.take(x, order, axis=0)
    after, before = ops.index(in_order, slice(1, None)), ops.index(in_order, slice(None, -1))
    differs = ops.not_equal(after, before)
    if equal_nan and x.dtype.kind in INEXACT:
        both = ops.logical_and(ops.isnan(after), ops.isnan(before))
        differs = ops.logical_and(differs, ops.logical_not(both))
    if len(x.shape) > 1:
        differs = ops.any(differs, axis=1)
    return order, ops.concatenate([beside(x, np.ones(min(x.shape[0], 1), bool)), differs])


def _sized_unique(
    x: Array, size: int, fill_value: ArrayLike | None, equal_nan: bool
) -> tuple[Array, ...]:
    """Returns as many different slices along the first axis as asked for, and all about them."""
    count = x.shape[0]
    if not count:
        nothing = zeros_like(x, shape=(size, *x.shape[1:]))
        if fill_value is not None:
            nothing = ops.where(True, fill_value, nothing)
        none = zeros_like(x, np.intp, shape=size)
        return nothing, none, zeros_like(x, np.intp, shape=0), none
    flat = x if len(x.shape) == 1 else ops.reshape(x, (count, prod(x.shape[1:])))
    order, starts = _in_groups(flat, equal_nan)
    group = ops.subtract(ops.cumsum(starts), 1)
    places, found = first_true(starts, size)
    first = ops.take(order, places)
    # The smallest one stands for missing ones.
    first = ops.where(found, first, ops.index(order, 0))
    values = ops.take(x, first, axis=0)
    if fill_value is not None:
        found = ops.reshape(found, (-1, *(1,) * (len(values.shape) - 1)))
        values = ops.where(found, values, fill_value)
    nowhere, no_counts = (beside(x, np.zeros(n, np.intp)) for n in (count, size + 1))
    inverse = ops.index_set(nowhere, order, ops.minimum(group, size - 1))
    counts = ops.index_add(no_counts, ops.minimum(group, size), 1)
    return values, first, inverse, ops.index(counts, slice(0, size))


@overload
def unique(
    ar: ArrayLike, return_index: Literal[False] = ..., return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ..., axis: int | None = ..., *, equal_nan: bool = ...,
    sorted: bool = ..., size: int | None = ..., fill_value: ArrayLike | None = ...,
) -> Array: ...


@overload
def unique(
    ar: ArrayLike, return_index: bool = ..., return_inverse: bool = ...,
    return_counts: bool = ..., axis: int | None = ..., *, equal_nan: bool = ...,
    sorted: bool = ..., size: int | None = ..., fill_value: ArrayLike | None = ...,
) -> tuple[Array, ...]: ...


@ops.add_function
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, ...]:
    """Returns the different elements of an array, sorted.

    Args:
        ar: an array.
        return_index: whether to return where each occurs first.
        return_inverse: whether to return, for every element, its place in the result.
        return_counts: whether to return how often each occurs.
        axis: along which axis slices are compared; None compares the elements.
        equal_nan: whether NaN equals NaN.
        sorted: of no effect: they always are.
        size: how many to return, for where the values are not known: the smallest ones.
        fill_value: what stands behind them where there are fewer; None for the smallest one again,
            which is also what their indices say. Their counts are 0.

    Returns:
        The different elements, or a tuple of them and what else was asked for, in that order.
        Derivatives flow to the first of equal elements.

    Raises:
        ConcretizationError: the values are not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.unique(np.array([3, 1, 3]))
    Array([1, 3], dtype=int64, device='cpu')
    >>> np.unique(np.array([3, 1, 3]), size=3, fill_value=0)
    Array([1, 3, 0], dtype=int64, device='cpu')
    """
    ar = asarray(ar)
    asked = (return_index, return_inverse, return_counts)
    if size is None:
        values = value_of("unique", ar, "np.unique(x, size=n), with n the most there can be")
        if values.dtype.kind == "V":
            values = values.astype(np.float32)  # where NaN of bfloat16 has its place in the order
        _, first, inverse, counts = np.unique(values, True, True, True, axis, equal_nan=equal_nan)
        if axis is None:
            different = ops.index(ops.reshape(ar, -1), (first,))
        else:
            different = ops.take(ar, first, axis=canonical_axis(axis, len(ar.shape)))
        found: tuple[Array, ...] = tuple([wrap(beside(ar, i)) for i in (first, inverse, counts)])
    else:
        place = 0 if axis is None else canonical_axis(axis, len(ar.shape))
        x = ops.reshape(ar, -1) if axis is None else ops.moveaxis(ar, place, 0)
        different, *rest = _sized_unique(x, size, fill_value, equal_nan)
        different = ops.moveaxis(different, 0, place)
        if axis is None:
            rest[1] = ops.reshape(rest[1], ar.shape)
        found = tuple(rest)
    extras = tuple([extra for wanted, extra in zip(asked, found, strict=True) if wanted])
    return (different, *extras) if extras else different


@ops.add_function
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """Returns the different elements, their first indices, the inverse and the counts.

    Args:
        x: an array; NaN differs from NaN.
        size, fill_value: as for `unique`.

    >>> import functensor.numpy as np
    >>> np.unique_all(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int64, device='cpu')
    """
    found = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAllResult(*found)


@ops.add_function
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """Returns the different elements and how often each occurs.

    Args:
        x: an array; NaN differs from NaN.
        size, fill_value: as for `unique`.

    >>> import functensor.numpy as np
    >>> np.unique_counts(np.array([3, 1, 3])).values
    Array([1, 3], dtype=int64, device='cpu')
    """
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCountsResult(*found)


@ops.add_function
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """Returns the different elements and, for every element, its place among them.

    Args:
        x: an array; NaN differs from NaN.
        size, fill_value: as for `unique`.

    >>> import functensor.numpy as np
    >>> np.unique_inverse(np.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64, device='cpu')
    """
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverseResult(*found)


@ops.add_function
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Returns the different elements.

    Args:
        x: an array; NaN differs from NaN.
        size, fill_value: as for `unique`.

    >>> import functensor.numpy as np
    >>> np.unique_values(np.array([3, 1, 3]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# -- membership


@registry.add_function
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Says of every element whether it is among others.

    Args:
        element: an array.
        test_elements: an array of any shape, whose elements are those others.
        assume_unique: of no effect.
        invert: whether to say of every element whether it is not among them.
        kind: of no effect: None, ``sort`` or ``table``.

    Returns:
        Booleans of element's shape; NaN is among nothing.

    >>> import functensor.numpy as np
    >>> np.isin(np.array([1, 2, 3]), [3, 1])
    Array([ True, False,  True], dtype=bool, device='cpu')
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"isin: kind is 'sort', 'table' or None, not {kind!r}")
    element, others = arrays_together((element, test_elements), "isin")
    others = ops.reshape(others, -1)
    if is_at_hand(element, others):
        values = [np.asarray(concrete(x, "isin")) for x in (element, others)]
        # NumPy has no dtype that bfloat16 and integers share.
        values = [x.astype(np.float64) if x.dtype.kind == "V" else x for x in values]
        return wrap(np.isin(values[0], values[1], invert=invert))
    length = others.shape[0]
    if not length:
        return ops.broadcast_to(beside(element, np.asarray(bool(invert))), element.shape)
    others = ops.sort(others)
    place = ops.minimum(searchsorted(others, element), length - 1)
    return (ops.not_equal if invert else ops.equal)(ops.take(others, place), element)


def in1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Says of every element of the flattened array whether it is among others: see `isin`.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique, invert, kind: as for `isin`.

    >>> import functensor.numpy as np
    >>> np.in1d([[1, 2]], [2])
    Array([False,  True], dtype=bool, device='cpu')
    """
    ar1, ar2 = arrays_together((ar1, ar2), "in1d")
    return isin(ops.reshape(ar1, -1), ar2, assume_unique, invert, kind=kind)


# -- sets made of two


def _set_of(ar: Array, assume_unique: bool) -> tuple[Array, Array | Buffer, Array | Buffer]:
    """Returns sorted elements, their places in the array, and whether each begins its kind.

    Elements that are known to differ stay in their order.
    """
    x = ops.reshape(asarray(ar), -1)
    if assume_unique:
        places, there = np.arange(x.shape[0]), np.ones(x.shape[0], bool)
        return x, beside(x, places), beside(x, there)
    order, starts = _in_groups(x, True)
    return ops.take(x, order), order, starts


def _elements_of_mask(
    name: str, mask: Array, size: int | None, fill_value: ArrayLike | None, *arrays: Array | Buffer
) -> tuple[Array, ...]:
    """Returns of each array the elements at which a mask holds, or the first of them."""
    if size is None:
        chosen = value_of(name, mask, f"np.{name}(a, b, size=n), with n the most there can be")
        return tuple([ops.take(x, np.flatnonzero(chosen)) for x in arrays])
    if not mask.shape[0]:
        return tuple([full_like(x, fill_value or 0, shape=size) for x in arrays])
    places, found = first_true(mask, size)
    return tuple([
        ops.where(found, ops.take(x, places), 0 if fill_value is None else fill_value)
        for x in arrays
    ])


@ops.add_function
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Returns the different elements of two arrays together, sorted.

    Args:
        ar1, ar2: arrays, which are flattened.
        size, fill_value: as for `unique`.

    >>> import functensor.numpy as np
    >>> np.union1d([3, 1], [2, 3])
    Array([1, 2, 3], dtype=int64, device='cpu')
    """
    both = ops.concatenate(arrays_together((ar1, ar2), "union1d"), axis=None)
    return unique(both, size=size, fill_value=fill_value)


@ops.add_function
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, ...]:
    """Returns the different elements that are in both of two arrays, sorted.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique: of no effect.
        return_indices: whether to return also where each occurs first in both arrays.
        size: how many to return, for where the values are not known: the smallest ones.
        fill_value: what stands behind them, also behind indices, where there are fewer: 0 by
            default.

    Returns:
        An array, or a tuple of three. Derivatives flow to the first of equal elements of ar1.

    >>> import functensor.numpy as np
    >>> np.intersect1d([3, 1, 2], [2, 3])
    Array([2, 3], dtype=int64, device='cpu')
    """
    ar1, ar2 = arrays_together((ar1, ar2), "intersect1d")
    (found, first, there), b = _set_of(ar1, False), ops.reshape(ar2, -1)
    mask = ops.logical_and(there, isin(found, b))
    values = ops.astype(found, result_type(found.dtype, b.dtype))
    if not return_indices:
        return _elements_of_mask("intersect1d", mask, size, fill_value, values)[0]
    order = ops.argsort(b, 0, stable=True)
    length = b.shape[0]
    if length:
        place = ops.minimum(searchsorted(ops.take(b, order), found), length - 1)
        second = ops.take(order, place)
    else:
        second = ops.multiply(first, 0)
    return _elements_of_mask("intersect1d", mask, size, fill_value, values, first, second)


@ops.add_function
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Returns the different elements of an array that are not in another one.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique: whether elements of ar1 are known to differ; they then stay in their order.
        size: how many to return, for where the values are not known: the first ones.
        fill_value: what stands behind them where there are fewer: 0 by default.

    Returns:
        An array of ar1's dtype. Derivatives flow to the first of equal elements.

    >>> import functensor.numpy as np
    >>> np.setdiff1d([3, 1, 2, 1], [2])
    Array([1, 3], dtype=int64, device='cpu')
    """
    ar1, ar2 = arrays_together((ar1, ar2), "setdiff1d")
    values, _, there = _set_of(ar1, assume_unique)
    mask = ops.logical_and(there, isin(values, ar2, invert=True))
    return _elements_of_mask("setdiff1d", mask, size, fill_value, values)[0]


@ops.add_function
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Returns the different elements that are in just one of two arrays, sorted.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique: of no effect.
        size: how many to return, for where the values are not known: the smallest ones.
        fill_value: what stands behind them where there are fewer: 0 by default.

    >>> import functensor.numpy as np
    >>> np.setxor1d([3, 1], [2, 3])
    Array([1, 2], dtype=int64, device='cpu')
    """
    ar1, ar2 = arrays_together((ar1, ar2), "setxor1d")
    (a, _, first_a), (b, _, first_b) = _set_of(ar1, False), _set_of(ar2, False)
    alone = [
        ops.logical_and(first_a, isin(a, b, invert=True)),
        ops.logical_and(first_b, isin(b, a, invert=True)),
    ]
    values = ops.concatenate([a, b])
    order = ops.argsort(values, 0, stable=True)
    mask = ops.take(ops.concatenate(alone), order)
    return _elements_of_mask("setxor1d", mask, size, fill_value, ops.take(values, order))[0]
