"""Reductions of those elements that are not NaN.

An element that is left out is replaced by one that does not count, before anything is computed
with it, so that neither its value nor its derivative gets any further.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.annotations import Axis, DType, DTypeLike
from ..primitives.core.annotations import ArrayLike, Number
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import refuse_out
from ..primitives.core.shape_dtype import INEXACT
from .creation import asarray
from .known_values import is_at_hand

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _counted_elements(a: Array, where: ArrayLike | None) -> Array | None:
    """Says which elements count: None where all of them do."""
    kept = ops.logical_not(ops.isnan(a)) if a.dtype.kind in INEXACT else None
    if where is None or where is True:
        return kept
    where = ops.broadcast_to(asarray(where), a.shape)
    return where if kept is None else ops.logical_and(kept, where)


def _replaced_where_dropped(a: Array, kept: Array | None, value: Number) -> Array:
    return a if kept is None else ops.where(kept, a, value)


def _reduced_selection(
    name: str, a: ArrayLike, out: None, where: ArrayLike | None, **options: Any
) -> Array:
    """Returns a reduction of those elements that count, from which the others are gone."""
    refuse_out(f"nan{name}", out)
    a = asarray(a)
    kept = _counted_elements(a, where)
    found: Array = getattr(ops, name)(_replaced_where_dropped(a, kept, 0), where=kept, **options)
    return found


@ops.add_function
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Returns the sum over axes of those elements that are not NaN.

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        dtype: in which dtype to sum.
        out: None; arrays are immutable.
        keepdims: whether the axes stay, with length 1.
        initial: what the sum begins with.
        where: booleans that broadcast against a: which elements count; all by default.

    Returns:
        An array without the axes; of no elements 0.

    >>> import functensor.numpy as np
    >>> np.nansum(np.array([1.0, np.nan, 2.0]))
    Array(3., dtype=float64, device='cpu')
    """
    options = {"dtype": dtype, "keepdims": keepdims, "initial": initial}
    return _reduced_selection("sum", a, out, where, axis=axis, **options)


@ops.add_function
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Returns the product over axes of those elements that are not NaN.

    Args:
        a, axis, dtype, out, keepdims, where: as for `nansum`.
        initial: what the product begins with.

    Returns:
        An array without the axes; of no elements 1.

    >>> import functensor.numpy as np
    >>> np.nanprod(np.array([3.0, np.nan, 2.0]))
    Array(6., dtype=float64, device='cpu')
    """
    options = {"dtype": dtype, "keepdims": keepdims, "initial": initial}
    return _reduced_selection("prod", a, out, where, axis=axis, **options)


def _nan_cumulative(
    name: str, one: int, a: ArrayLike, axis: int | None, dtype: DTypeLike | None, out: None
) -> Array:
    refuse_out(f"nan{name}", out)
    a = asarray(a)
    values = _replaced_where_dropped(a, _counted_elements(a, None), one)
    found: Array = getattr(ops, name)(values, axis, dtype)
    return found


@ops.add_function
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Returns the sums of all elements up to each, NaN counting as 0.

    Args:
        a: an array.
        axis: along which axis; None flattens the array first.
        dtype: in which dtype to sum.
        out: None; arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.nancumsum(np.array([1.0, np.nan, 2.0]))
    Array([1., 1., 3.], dtype=float64, device='cpu')
    """
    return _nan_cumulative("cumsum", 0, a, axis, dtype, out)


@ops.add_function
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Returns the products of all elements up to each, NaN counting as 1.

    Args:
        a, axis, dtype, out: as for `nancumsum`.

    >>> import functensor.numpy as np
    >>> np.nancumprod(np.array([3.0, np.nan, 2.0]))
    Array([3., 3., 6.], dtype=float64, device='cpu')
    """
    return _nan_cumulative("cumprod", 1, a, axis, dtype, out)


# -- extrema


def _extreme_number(dtype: DType, largest: bool) -> Number:
    """Returns the largest or the smallest number of a dtype."""
    if dtype.kind in INEXACT:
        return np.inf if largest else -np.inf
    if dtype.kind == "b":
        return largest
    limits = np.iinfo(dtype)
    return limits.max if largest else limits.min


def _nan_extremum(
    name: str,
    a: ArrayLike,
    axis: Axis,
    out: None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    refuse_out(f"nan{name}", out)
    a = asarray(a)
    restricted = where is not None and where is not True
    if restricted and initial is None:
        raise ValueError(f"nan{name}: where= may leave no element, so initial= has to be given")
    kept = _counted_elements(a, where)
    values = _replaced_where_dropped(a, kept, _extreme_number(a.dtype, name == "min"))
    given = {} if initial is None else {"initial": initial}
    found: Array = getattr(ops, name)(values, axis, keepdims=bool(keepdims), **given)
    if initial is not None:
        return found
    if kept is None:
        return found
    return ops.where(ops.any(kept, axis, keepdims=bool(keepdims)), found, np.nan)


@ops.add_function
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Returns the maximum over axes of those elements that are not NaN.

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        out: None; arrays are immutable.
        keepdims: whether the axes stay, with length 1.
        initial: the least value of the result.
        where: booleans that broadcast against a: which elements count; all by default.

    Returns:
        An array without the axes; NaN where all elements are. Equal ones share the derivative.

    >>> import functensor.numpy as np
    >>> np.nanmax(np.array([1.0, np.nan, 2.0]))
    Array(2., dtype=float64, device='cpu')
    """
    return _nan_extremum("max", a, axis, out, keepdims, initial, where)


@ops.add_function
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Returns the minimum over axes of those elements that are not NaN.

    Args:
        a, axis, out, keepdims, where: as for `nanmax`.
        initial: the largest value of the result.

    Returns:
        An array without the axes; NaN where all elements are. Equal ones share the derivative.

    >>> import functensor.numpy as np
    >>> np.nanmin(np.array([1.0, np.nan, 2.0]))
    Array(1., dtype=float64, device='cpu')
    """
    return _nan_extremum("min", a, axis, out, keepdims, initial, where)


def _nan_position(name: str, a: ArrayLike, axis: Axis, out: None, keepdims: bool) -> Array:
    refuse_out(f"nan{name}", out)
    a = asarray(a)
    kept = _counted_elements(a, None)
    search = ops.argmax if name == "argmax" else ops.argmin
    if kept is None:
        return search(a, axis, keepdims=bool(keepdims))
    bound = _extreme_number(a.dtype, name == "argmin")
    found = search(_replaced_where_dropped(a, kept, bound), axis, keepdims=bool(keepdims))
    some = ops.any(kept, axis, keepdims=bool(keepdims))
    if is_at_hand(some) and not np.all(np.asarray(some)):
        raise ValueError(f"nan{name}: all elements of a slice are NaN")
    # A slice may hold nothing but NaN and the bound itself: its first number counts.
    extremum = (nanmax if name == "argmax" else nanmin)(a, axis, keepdims=keepdims)
    first = ops.argmax(kept, axis, keepdims=bool(keepdims))
    return ops.where(some, ops.where(ops.equal(extremum, bound), first, found), -1)


@ops.add_function
def nanargmax(
    a: ArrayLike, axis: Axis = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Returns the index of the first maximum of those elements that are not NaN.

    Args:
        a: an array.
        axis: along which axis; None searches the flattened array.
        out: None; arrays are immutable.
        keepdims: whether the axes stay, with length 1.

    Returns:
        Integers without the axis.

    Raises:
        ValueError: all elements of a slice are NaN; where that is not known, or on a GPU,
            the index is -1.

    >>> import functensor.numpy as np
    >>> np.nanargmax(np.array([1.0, np.nan, 2.0]))
    Array(2, dtype=int64, device='cpu')
    """
    return _nan_position("argmax", a, axis, out, keepdims)


@ops.add_function
def nanargmin(
    a: ArrayLike, axis: Axis = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Returns the index of the first minimum of those elements that are not NaN.

    Args:
        a, axis, out, keepdims: as for `nanargmax`.

    Returns:
        Integers without the axis.

    Raises:
        ValueError: all elements of a slice are NaN; where that is not known, or on a GPU,
            the index is -1.

    >>> import functensor.numpy as np
    >>> np.nanargmin(np.array([np.nan, 3.0, 2.0]))
    Array(2, dtype=int64, device='cpu')
    """
    return _nan_position("argmin", a, axis, out, keepdims)


# -- moments


@ops.add_function
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Returns the mean over axes of those elements that are not NaN.

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        dtype: in which dtype to compute; None for a's own (integers: ``float64``).
        out: None; arrays are immutable.
        keepdims: whether the axes stay, with length 1.
        where: booleans that broadcast against a: which elements count; all by default.

    Returns:
        An array without the axes; NaN where there is no number.

    >>> import functensor.numpy as np
    >>> np.nanmean(np.array([1.0, np.nan, 2.0]))
    Array(1.5, dtype=float64, device='cpu')
    """
    return _reduced_selection("mean", a, out, where, axis=axis, dtype=dtype, keepdims=keepdims)


@ops.add_function
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Returns the variance over axes of those elements that are not NaN.

    Args:
        a, axis, dtype, out, keepdims, where: as for `nanmean`.
        ddof: what to subtract from the number of elements, by which the sum of squares is divided.
        mean: the mean with the axes kept, where it is known already.
        correction: another name of ddof.

    Returns:
        A real array without the axes; NaN where there are not more numbers than ddof.

    >>> import functensor.numpy as np
    >>> np.nanvar(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64, device='cpu')
    """
    options = {"ddof": ddof, "keepdims": keepdims, "mean": mean, "correction": correction}
    return _reduced_selection("var", a, out, where, axis=axis, dtype=dtype, **options)


@ops.add_function
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Returns the standard deviation over axes of those elements that are not NaN.

    Args:
        a, axis, dtype, out, ddof, keepdims, where, mean, correction: as for `nanvar`.

    Returns:
        A real array without the axes. Where all elements are equal the derivative is taken to be
        zero.

    >>> import functensor.numpy as np
    >>> np.nanstd(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64, device='cpu')
    """
    options = {"ddof": ddof, "keepdims": keepdims, "mean": mean, "correction": correction}
    return _reduced_selection("std", a, out, where, axis=axis, dtype=dtype, **options)
