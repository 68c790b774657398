"""Elements found by their value.

The number of elements that are found depends on values: under vmap and while staging, functions
that return them need a ``size``. `searchsorted` needs no values but only
comparisons.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import numpy as np

from ..backends.devices import backend_of
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, concrete
from ..primitives.core.buffers import beside, device_of, wrap
from ..primitives.core.errors import misfit
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import REAL, result_type
from .arguments import arrays_together
from .creation import asarray
from .known_values import first_true, is_at_hand, is_computed, value_of

__all__ = ["argwhere", "digitize", "flatnonzero", "nonzero", "searchsorted"]

# The kinds of dtypes that an array module searches by itself.
KINDS_SEARCHED_BY_MODULES = "fiubc"


def _fills(fill_value: ArrayLike | None, rank: int) -> list[Any]:
    """Returns what stands for missing indices along each axis."""
    if fill_value is None:
        return [0] * rank
    values = list(fill_value) if isinstance(fill_value, tuple | list) else [fill_value] * rank
    if len(values) != rank:
        raise ValueError(f"nonzero: fill_value has {len(values)} entries for {rank} axes")
    return values


@ops.add_function
def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """Returns the indices of the elements that differ from zero, an array for each axis.

    Args:
        a: an array of at least one axis.
        size: how many indices to return, for where the values are not known: the first ones.
        fill_value: what stands behind them where there are fewer: a number, by default 0, or a
            tuple with one for each axis.

    Raises:
        ConcretizationError: the values are not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.nonzero(np.array([[1, 0], [2, 3]]))[0]
    Array([0, 1, 1], dtype=int64, device='cpu')
    >>> np.nonzero(np.array([0, 5]), size=3, fill_value=-1)
    (Array([ 1, -1, -1], dtype=int64, device='cpu'),)
    """
    return _nonzero("nonzero", asarray(a), size, fill_value)


def _nonzero(
    name: str, a: Array, size: int | None, fill_value: ArrayLike | None
) -> tuple[Array, ...]:
    if not a.shape:
        raise misfit(
            f"{name}: an array without axes has no indices", f"np.{name}(np.atleast_1d(x))"
        )
    if size is None:
        value = value_of(name, a, f"np.{name}(x, size=n), with n the most there can be")
        return tuple([wrap(beside(a, i)) for i in np.nonzero(value)])
    places, found = first_true(ops.not_equal(ops.reshape(a, -1), 0), size)
    fills = _fills(fill_value, len(a.shape))
    out = []
    for axis, (length, fill) in enumerate(zip(a.shape, fills, strict=True)):
        index = ops.remainder(
            ops.floor_divide(places, max(prod(a.shape[axis + 1 :]), 1)), max(length, 1)
        )
        out.append(ops.where(found, index, fill))
    return tuple(out)


@registry.add_function
def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Returns the indices into the flattened array of the elements that differ from zero.

    Args:
        a: an array.
        size, fill_value: as for `nonzero`.

    Raises:
        ConcretizationError: the values are not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.flatnonzero(np.array([[1, 0], [2, 3]]))
    Array([0, 2, 3], dtype=int64, device='cpu')
    """
    return _nonzero("flatnonzero", ops.reshape(asarray(a), -1), size, fill_value)[0]


@registry.add_function
def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Returns the indices of the elements that differ from zero, a row for each element.

    Args:
        a: an array.
        size, fill_value: as for `nonzero`.

    Raises:
        ConcretizationError: the values are not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.argwhere(np.array([[1, 0], [2, 3]])).tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    a = asarray(a)
    if not a.shape:
        rows = argwhere(ops.reshape(a, -1), size=size)
        return ops.index(rows, (slice(None), slice(0, 0)))
    return ops.stack(_nonzero("argwhere", a, size, fill_value), axis=1)


# -- sorted arrays


@registry.add_function
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Array:
    """Returns where values belong in a sorted array, so that it stays sorted.

    Args:
        a: numbers on one axis, in ascending order.
        v: the values.
        side: whether a value goes before (``left``) or behind (``right``) equal numbers.
        sorter: indices that sort a, where it is not sorted itself.

    Returns:
        Indices from 0 to a's length, of v's shape.

    Raises:
        ShapeError: a has not one axis.
        ValueError: side is another word.

    >>> import functensor.numpy as np
    >>> np.searchsorted(np.array([1.0, 2.0, 3.0]), np.array([2.0, 9.0]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    a, v = arrays_together((a, v), "searchsorted")
    if len(a.shape) != 1:
        raise misfit(
            f"searchsorted: the numbers stand on one axis, not in shape {a.shape}",
            "np.searchsorted(a.ravel(), v)",
        )
    if sorter is not None:
        a = ops.take(a, sorter)
    if not is_computed(a, v):
        return _bisected(a, v, side)
    numbers, values = concrete(a, "searchsorted"), concrete(v, "searchsorted")
    if device_of(numbers) == device_of(values) == "cpu":
        if "V" in (numbers.dtype.kind, values.dtype.kind):
            # NaN of bfloat16 has no place in NumPy's order.
            kind = result_type(np.float32, numbers.dtype, values.dtype)
            numbers, values = numbers.astype(kind), values.astype(kind)
        return wrap(np.asarray(np.searchsorted(numbers, values, side)))
    kind = result_type(a.dtype, v.dtype)
    if kind.kind not in KINDS_SEARCHED_BY_MODULES or a.device != v.device:
        return _bisected(a, v, side)
    # Array modules other than NumPy compare signed and unsigned numbers as they are.
    numbers, values = (concrete(ops.astype(x, kind), "searchsorted") for x in (a, v))
    found = wrap(backend_of(numbers).xp.searchsorted(numbers, values, side))
    return found


def _bisected(a: Array, v: Array, side: str) -> Array:
    """Finds places by comparisons alone, each halving what is left, for all values at once."""
    length = a.shape[0]
    # The place is at least low, and the numbers before low all belong in front.
    low: Array = wrap(beside(v, np.zeros(v.shape, np.intp)))
    step = 1 << length.bit_length()
    while step := step // 2:
        last = ops.add(low, step - 1)
        there = ops.less(last, length)
        number = ops.take(a, ops.minimum(last, max(length - 1, 0)))
        # On the left side numbers less than v go in front of it, on the right those not larger.
        goes_on = _precedes(number, v) if side == "left" else ops.logical_not(_precedes(v, number))
        low = ops.where(ops.logical_and(there, goes_on), ops.add(low, step), low)
    return low


def _precedes(x: Array, y: Array) -> Array:
    """Returns where x stands before y when both are sorted: NaN stands behind all numbers.

    Of complex numbers the real parts decide, then the imaginary ones; each that has a NaN stands
    behind all that have none.
    """
    kinds = x.dtype.kind + y.dtype.kind
    if "c" not in kinds:
        if not set(kinds) & set(REAL):
            return ops.less(x, y)
        # NaN comes last; it is not equal to itself.
        return ops.logical_or(ops.less(x, y), ops.logical_and(ops.not_equal(y, y), ops.equal(x, x)))
    (a, b), (c, d) = [(ops.real(z), ops.imag(z)) for z in (x, y)]
    nan_b, nan_d = ops.not_equal(b, b), ops.not_equal(d, d)
    alike = ops.logical_or(
        ops.equal(a, c), ops.logical_and(ops.not_equal(a, a), ops.not_equal(c, c))
    )
    by_imag = ops.where(alike, _precedes(b, d), ops.logical_and(nan_d, ops.logical_not(nan_b)))
    # A NaN in one imaginary part alone decides before the real parts do.
    return ops.where(
        ops.logical_or(alike, ops.logical_and(nan_b != nan_d, _are_numbers(a, c))),
        by_imag,
        _precedes(a, c),
    )


def _are_numbers(x: Array, y: Array) -> Array:
    return ops.logical_and(ops.equal(x, x), ops.equal(y, y))


@registry.add_function
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """Returns for every value the number of the bin in which it lies.

    Args:
        x: the values.
        bins: bounds on one axis, in ascending or descending order; bin i lies before bound i.
        right: whether a bin includes its right bound instead of its left one.

    Returns:
        Indices from 0 to the number of bounds, of x's shape.

    Raises:
        ShapeError: the bounds have not one axis.
        ValueError: the bounds are known, and neither ascend nor descend.

    >>> import functensor.numpy as np
    >>> np.digitize(np.array([0.2, 6.4]), np.array([0.0, 1.0, 2.5]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    x, bins = arrays_together((x, bins), "digitize")
    if x.dtype.kind == "c":
        raise TypeError(f"digitize takes real numbers, not {x.describe()}; np.abs(x), x.real")
    if len(bins.shape) != 1:
        raise misfit(
            f"digitize: bounds stand on one axis, not in shape {bins.shape}",
            "np.digitize(x, bins.ravel())",
        )
    side: Literal["left", "right"] = "left" if right else "right"
    length = bins.shape[0]
    if length < 2:
        return searchsorted(bins, x, side)
    if is_at_hand(bins):
        values = value_of("digitize", bins, "")
        # Differences of integers without a sign are none.
        before, behind = values[:-1], values[1:]
        if np.any(behind < before) and np.any(before < behind):
            raise ValueError("digitize: bounds neither rise nor fall all along: np.sort(bins)")
    falls = ops.greater(ops.index(bins, 0), ops.index(bins, -1))
    place = searchsorted(ops.where(falls, ops.flip(bins, 0), bins), x, side)
    return ops.where(falls, ops.subtract(length, place), place)
