"""Counts of values in bins; weights, densities and edges have their derivatives."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..backends.annotations import Buffer, DTypeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, operands_together
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import INEXACT, result_type
from .arguments import array_beside
from .creation import asarray
from .differences import diff
from .known_values import is_computed, value_of
from .ranges import linspace
from .reshaping import unstack
from .searching import searchsorted

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

# The number of bins, their bounds, or the name of a rule of NumPy's.
Bins: TypeAlias = ArrayLike | str
# The ends of all bins.
Limits: TypeAlias = tuple[ArrayLike, ArrayLike]


def _bin_limits(name: str, a: Array, limits: Any) -> tuple[Any, Any]:
    """Returns the first and the last edge: given, or from the smallest to the largest value."""
    if limits is not None:
        low, high = limits
        low, high = (asarray(v) if isinstance(v, Array) else v for v in (low, high))
    elif not a.size:
        return 0, 1
    else:
        low, high = ops.min(a), ops.max(a)
    if is_computed(low, high):
        first, last = (float(value_of(name, v, "")) for v in (low, high))
        if first > last:
            raise ValueError(f"{name}: range=({first}, {last}) has its ends exchanged")
        if not np.isfinite([first, last]).all():
            raise ValueError(
                f"{name}: values range from {first} to {last}; give range=, or np.nan_to_num(x)"
            )
        if first != last:
            return low, high
    # All values in one place lie in the middle of bins that are 1 long together.
    single = ops.equal(low, high)
    return (
        ops.where(single, ops.subtract(low, 0.5), low),
        ops.where(single, ops.add(high, 0.5), high),
    )


def _bin_edges(name: str, a: Array, bins: Any, limits: Any, weights: ArrayLike | None) -> Array:
    """Returns the bounds of bins for values on one axis."""
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(f"{name}: how many bins {bins!r} makes cannot depend on weights")
        values = value_of(name, a, f"np.{name}(x, bins=n) with a number of bins")
        span = None if limits is None else (float(limits[0]), float(limits[1]))
        bins = len(np.histogram_bin_edges(values, bins, span)) - 1
    if isinstance(bins, Array | np.ndarray | Sequence) and np.ndim(bins):
        bins = array_beside(a, bins)
        if len(bins.shape) != 1:
            raise misfit(
                f"{name}: edges stand on one axis, not in shape {bins.shape}",
                "np.histogram(x, edges.ravel())",
            )
        if is_computed(bins) and np.any(np.diff(value_of(name, bins, "")) < 0):
            raise ValueError(f"{name}: edges do not increase: {bins.tolist()}")
        edges: Array = bins
        return edges
    count = operator.index(bins)
    if count < 1:
        raise ValueError(f"{name}: bins={count}, but there has to be one at least")
    low, high = _bin_limits(name, a, limits)
    kind = result_type(a.dtype, *(getattr(v, "dtype", v) for v in (low, high)))
    if kind.kind not in INEXACT:
        kind = result_type(kind, float)
    low, high = (asarray(v, device=None if isinstance(v, Array) else a.device) for v in (low, high))
    return linspace(low, high, count + 1, dtype=kind)


def _are_equally_long(bins: Bins) -> bool:
    """Says whether bins are equally long, as they are where they were not given by their bounds."""
    return isinstance(bins, str) or not np.ndim(bins)


def _bins_of(values: Array, edges: Array, alike: bool) -> Array:
    """Returns the number of the bin in which each value lies; that of no bin for those outside."""
    count = edges.shape[0] - 1
    values, edges = ops.stop_gradient(values), ops.stop_gradient(edges)
    if alike:
        first, last = ops.index(edges, 0), ops.index(edges, -1)
        inside = ops.logical_and(ops.less_equal(first, values), ops.less_equal(values, last))
        values = ops.where(inside, values, first)
        share = ops.divide(ops.subtract(values, first), ops.subtract(last, first))
        place = ops.minimum(ops.astype(ops.multiply(share, count), np.intp), count - 1)
        # Rounding may have led across a bound.
        place = ops.subtract(place, ops.less(values, ops.take(edges, place)))
        ahead = ops.less_equal(ops.take(edges, ops.add(place, 1)), values)
        place = ops.add(place, ops.logical_and(ahead, ops.less(place, count - 1)))
        return ops.where(inside, place, count)
    place = ops.subtract(searchsorted(edges, values, "right"), 1)
    # The last bin alone includes its upper bound.
    place = ops.where(ops.equal(values, ops.index(edges, -1)), count - 1, place)
    return ops.where(ops.less(place, 0), count, place)


def _sums_in_bins(places: Array, count: int, weights: Array | None, dtype: DTypeLike) -> Array:
    """Returns for each place how often it occurs, or the sum of weights; those beyond are lost."""
    empty = beside(places, np.zeros(count + 1, dtype))
    added = ops.index_add(empty, ops.minimum(places, count), 1 if weights is None else weights)
    return ops.index(added, slice(0, count))


@ops.add_function
def histogram_bin_edges(
    a: ArrayLike, bins: Bins = 10, range: Limits | None = None, weights: ArrayLike | None = None
) -> Array:
    """Returns the bounds of the bins that `histogram` makes.

    Args:
        a, bins, range: as for `histogram`.
        weights: of no effect.

    Returns:
        Bounds in ascending order on one axis, one more than there are bins.

    >>> import functensor.numpy as np
    >>> np.histogram_bin_edges(np.array([0.0, 1.0, 4.0]), bins=2)
    Array([0., 2., 4.], dtype=float64, device='cpu')
    """
    values = ops.reshape(_real_numbers(a), -1)
    return _bin_edges("histogram_bin_edges", values, bins, range, weights)


def _real_numbers(a: ArrayLike) -> Array:
    a = asarray(a)
    if a.dtype.kind == "c":
        raise TypeError(
            f"bins are of real numbers, not {a.describe()}; np.abs(x), x.real or x.imag"
        )
    return ops.astype(a, np.uint8) if a.dtype.kind == "b" else a


@ops.add_function
def histogram(
    a: ArrayLike,
    bins: Bins = 10,
    range: Limits | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Returns how many values lie in each of some bins.

    Args:
        a: the values, an array of any shape.
        bins: how many bins of equal length; or their bounds, in ascending order; or the name of one
            of NumPy's rules for their number, of values that are known.
        range: from where to where bins reach, by default from the smallest to the largest value.
        density: whether to divide by the bins' lengths and by the total.
        weights: how much each value counts, of a's shape; derivatives flow to them.

    Returns:
        The counts (integers; of the weights' dtype where there are any; a density ``float64`` at
        least), and the bounds of the bins, one more. Derivatives flow to bounds too.

    Raises:
        ShapeError: weights do not fit.
        ValueError: bounds do not increase, or values are not finite.

    >>> import functensor.numpy as np
    >>> counts, edges = np.histogram(np.array([0.0, 0.5, 2.0]), bins=2)
    >>> counts.tolist(), edges.tolist()
    ([2, 1], [0.0, 1.0, 2.0])
    """
    bounds = bins if isinstance(bins, Array | list | tuple) else None
    a, _, weights = operands_together("histogram", a, bounds, weights)
    a = _real_numbers(a)
    kind: Any = np.intp
    if weights is not None:
        weights = asarray(weights)
        if weights.shape != a.shape:
            raise misfit(
                f"histogram: weights of shape {weights.shape} for values {a.shape}",
                "np.histogram(x, weights=w), with w of the shape of x",
            )
        weights, kind = ops.reshape(weights, -1), weights.dtype
    a = ops.reshape(a, -1)
    edges = _bin_edges("histogram", a, bins, range, weights)
    places = _bins_of(a, edges, _are_equally_long(bins))
    counts = _sums_in_bins(places, edges.shape[0] - 1, weights, kind)
    if density:
        lengths = ops.astype(diff(edges), np.float64)
        counts = ops.divide(ops.divide(counts, lengths), ops.sum(counts))
    return counts, edges


@ops.add_function
def histogramdd(
    sample: Sequence[ArrayLike] | Array | Buffer,
    bins: Bins | Sequence[Bins] = 10,
    range: Sequence[Limits | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, tuple[Array, ...]]:
    """Returns how many points lie in each cell of a grid.

    Args:
        sample: points: an array of shape ``(points, dimensions)``, or a sequence with the
            coordinates in each dimension.
        bins: for all dimensions or for each, what `histogram` takes, but for names of rules.
        range: for each dimension from where to where bins reach, or None.
        density: whether to divide by the cells' volumes and by the total.
        weights: how much each point counts; derivatives flow to them.

    Returns:
        The counts, ``float64`` at least, an axis for each dimension; and a tuple with the bounds of
        the bins of each.

    Raises:
        ShapeError: weights do not fit.
        ValueError: the number of dimensions differs.

    >>> import functensor.numpy as np
    >>> counts, edges = np.histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)
    >>> counts.tolist(), len(edges)
    ([[1.0, 0.0], [0.0, 1.0]], 2)
    """
    if isinstance(sample, Array | np.ndarray):
        points = asarray(sample)
        points = ops.reshape(points, (-1, 1)) if len(points.shape) == 1 else points
        columns = list(unstack(_real_numbers(points), axis=1))
    else:
        columns = [_real_numbers(column) for column in sample]
    return _grid_histogram("histogramdd", columns, bins, range, density, weights)


def _grid_histogram(
    name: str,
    columns: list[Array],
    bins: Any,
    limits: Sequence[Limits | None] | None,
    density: bool | None,
    weights: ArrayLike | None,
) -> tuple[Array, tuple[Array, ...]]:
    rank = len(columns)
    one_for_all = isinstance(bins, int | np.integer) or (
        isinstance(bins, Array | np.ndarray) and not bins.shape
    )
    each = [bins] * rank if one_for_all else list(bins)
    spans = [None] * rank if limits is None else list(limits)
    if len(each) != rank or len(spans) != rank:
        raise ValueError(
            f"{name}: {len(each)} kinds of bins and {len(spans)} ranges for {rank} dimensions"
        )
    kind: Any = np.float64
    if weights is not None:
        weights = asarray(weights)
        if weights.shape != columns[0].shape:
            raise misfit(
                f"{name}: weights of shape {weights.shape} for {columns[0].shape[0]} points",
                f"np.{name}(points, weights=w), with one weight for each point",
            )
        kind = result_type(weights.dtype, np.float64)
    edges = tuple(
        [_bin_edges(name, c, b, s, None) for c, b, s in zip(columns, each, spans, strict=True)]
    )
    counts = [e.shape[0] - 1 for e in edges]
    total = prod(counts)
    place: Any = 0
    outside: Any = False
    for column, edge, count, kind_of in zip(columns, edges, counts, each, strict=True):
        own = _bins_of(column, edge, _are_equally_long(kind_of))
        outside = ops.logical_or(outside, ops.equal(own, count))
        place = ops.add(ops.multiply(place, count), own)
    if weights is not None:
        weights = ops.astype(weights, kind)
    out = ops.reshape(_sums_in_bins(ops.where(outside, total, place), total, weights, kind), counts)
    if density:
        out = ops.divide(out, ops.sum(out))
        for axis, edge in enumerate(edges):
            wide = (-1, *(1,) * (rank - axis - 1))
            out = ops.divide(out, ops.reshape(diff(edge), wide))
    return out, edges


@ops.add_function
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Bins | Sequence[Bins] = 10,
    range: Sequence[Limits | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """Returns how many points of a plane lie in each cell of a grid.

    Args:
        x, y: the points' coordinates.
        bins: a number or bounds for both dimensions, or a pair with those of each.
        range: for each dimension from where to where bins reach, or None.
        density: whether to divide by the cells' areas and by the total.
        weights: how much each point counts; derivatives flow to them.

    Returns:
        The counts, ``float64`` at least, x along the first axis; the bounds in x, and those in y.

    Raises:
        ShapeError: x and y differ in length.

    >>> import functensor.numpy as np
    >>> np.histogram2d([0.0, 1.0], [0.0, 1.0], bins=2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    x, y = _real_numbers(x), _real_numbers(y)
    if x.shape != y.shape:
        raise misfit(
            f"histogram2d: x of shape {x.shape} and y of shape {y.shape}",
            "np.histogram2d(x, y), with a y for each x",
        )
    given: Any = bins
    sequence = isinstance(given, list | tuple) or (hasattr(given, "shape") and given.shape)
    pair = given if sequence and len(given) == 2 else (given, given)
    counts, (first, second) = _grid_histogram("histogram2d", [x, y], pair, range, density, weights)
    return counts, first, second
