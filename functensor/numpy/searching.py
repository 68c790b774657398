"""Elements found by their value.

How many are found is known only where values are: under vmap functions that return as many as
there are raise an error. `searchsorted` needs no values but only comparisons.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..primitives.array import Tracer, concrete
from ..primitives.buffers import wrap
from ..primitives.registry import registry
from ..primitives.registry import registry as ops
from ..primitives.types import canonical_axis
from .creation import asarray

__all__ = [
    "UniqueAllResult",
    "UniqueCountsResult",
    "UniqueInverseResult",
    "argwhere",
    "digitize",
    "flatnonzero",
    "nonzero",
    "searchsorted",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


def _known(*arrays: Any) -> bool:
    """Says whether the values of arrays can be looked at."""
    for x in arrays:
        while isinstance(x, Tracer):
            if not x.concrete:
                return False
            x = x.value
    return True


@registry.add_function
def nonzero(a: Any) -> tuple[Any, ...]:
    """Returns the indices of the elements that differ from zero, an array for each axis.

    Raises:
        ConcretizationError: the values are not known, under vmap.

    >>> import functensor.numpy as np
    >>> np.nonzero(np.array([[1, 0], [2, 3]]))[0]
    Array([0, 1, 1], dtype=int64, device='cpu')
    """
    return tuple([wrap(i) for i in np.nonzero(np.asarray(concrete(asarray(a), "nonzero")))])


@registry.add_function
def flatnonzero(a: Any) -> Any:
    """Returns the indices into the flattened array of the elements that differ from zero.

    Raises:
        ConcretizationError: the values are not known, under vmap.

    >>> import functensor.numpy as np
    >>> np.flatnonzero(np.array([[1, 0], [2, 3]]))
    Array([0, 2, 3], dtype=int64, device='cpu')
    """
    return wrap(np.flatnonzero(concrete(asarray(a), "flatnonzero")))


@registry.add_function
def argwhere(a: Any) -> Any:
    """Returns the indices of the elements that differ from zero, a row for each element.

    Raises:
        ConcretizationError: the values are not known, under vmap.

    >>> import functensor.numpy as np
    >>> np.argwhere(np.array([[1, 0], [2, 3]])).tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    return wrap(np.argwhere(concrete(asarray(a), "argwhere")))


# -- sorted arrays


@registry.add_function
def searchsorted(
    a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None
) -> Any:
    """Returns where values belong in a sorted array, so that it stays sorted.

    Args:
        a: numbers on one axis, in ascending order.
        v: the values.
        side: whether a value goes before (``left``) or behind (``right``) equal numbers.
        sorter: indices that sort a, where it is not sorted itself.

    Returns:
        Indices from 0 to a's length, of v's shape.

    Raises:
        ValueError: a has not one axis, or side is another word.

    >>> import functensor.numpy as np
    >>> np.searchsorted(np.array([1.0, 2.0, 3.0]), np.array([2.0, 9.0]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    a, v = asarray(a), asarray(v)
    if len(a.shape) != 1:
        raise ValueError(f"searchsorted: the numbers stand on one axis, not in shape {a.shape}")
    if sorter is not None:
        a = ops.take(a, sorter)
    if _known(a, v):
        numbers, values = concrete(a, "searchsorted"), concrete(v, "searchsorted")
        return wrap(np.asarray(np.searchsorted(numbers, values, side)))
    return _bisected(a, v, side)


def _bisected(a: Any, v: Any, side: str) -> Any:
    """Finds places by comparisons alone, each halving what is left, for all values at once."""
    length = a.shape[0]
    goes_on = ops.less if side == "left" else ops.less_equal
    # The place is at least low, and the numbers before low all belong in front.
    low: Any = np.zeros(v.shape, np.intp)
    step = 1 << length.bit_length()
    while step := step // 2:
        last = ops.add(low, step - 1)
        there = ops.less(last, length)
        number = ops.take(a, ops.minimum(last, max(length - 1, 0)))
        low = ops.where(
            ops.logical_and(there, goes_on(number, v)), ops.add(low, step), low
        )
    return low


@registry.add_function
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Returns for every value the number of the bin in which it lies.

    Args:
        x: the values.
        bins: bounds on one axis, in ascending or descending order; bin i lies before bound i.
        right: whether a bin includes its right bound instead of its left one.

    Returns:
        Indices from 0 to the number of bounds, of x's shape.

    >>> import functensor.numpy as np
    >>> np.digitize(np.array([0.2, 6.4]), np.array([0.0, 1.0, 2.5]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    bins = asarray(bins)
    side: Literal["left", "right"] = "left" if right else "right"
    if bins.shape[0] > 1 and bool(bins[0] > bins[-1]):
        return ops.subtract(bins.shape[0], searchsorted(bins[::-1], x, side))
    return searchsorted(bins, x, side)


# -- different elements


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


@registry.add_function
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """Returns the different elements of an array, sorted.

    Args:
        ar: an array.
        return_index: whether to return where each occurs first.
        return_inverse: whether to return, for every element, its place in the result.
        return_counts: whether to return how often each occurs.
        axis: along which axis slices are compared; None compares the elements.
        equal_nan: whether NaN equals NaN.

    Returns:
        The different elements, or a tuple of them and what else was asked for, in that order.
        Derivatives flow to the first of equal elements.

    Raises:
        ConcretizationError: the values are not known, under vmap.

    >>> import functensor.numpy as np
    >>> np.unique(np.array([3, 1, 3]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    ar = asarray(ar)
    values = np.asarray(concrete(ar, "unique"))
    found = np.unique(values, True, True, True, axis, equal_nan=equal_nan)
    _, first, inverse, counts = found
    if axis is None:
        different = ops.index(ops.reshape(ar, -1), (first,))
    else:
        different = ops.take(ar, first, axis=canonical_axis(axis, len(ar.shape)))
    asked = (return_index, return_inverse, return_counts)
    known = zip(asked, (first, inverse, counts), strict=True)
    extras = tuple([wrap(extra) for wanted, extra in known if wanted])
    return (different, *extras) if extras else different


@registry.add_function
def unique_all(x: Any) -> UniqueAllResult:
    """Returns the different elements, their first indices, the inverse and the counts.

    >>> import functensor.numpy as np
    >>> np.unique_all(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int64, device='cpu')
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@registry.add_function
def unique_counts(x: Any) -> UniqueCountsResult:
    """Returns the different elements and how often each occurs.

    >>> import functensor.numpy as np
    >>> np.unique_counts(np.array([3, 1, 3])).values
    Array([1, 3], dtype=int64, device='cpu')
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@registry.add_function
def unique_inverse(x: Any) -> UniqueInverseResult:
    """Returns the different elements and, for every element, its place among them.

    >>> import functensor.numpy as np
    >>> np.unique_inverse(np.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64, device='cpu')
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@registry.add_function
def unique_values(x: Any) -> Any:
    """Returns the different elements.

    >>> import functensor.numpy as np
    >>> np.unique_values(np.array([3, 1, 3]))
    Array([1, 3], dtype=int64, device='cpu')
    """
    return unique(x, equal_nan=False)
