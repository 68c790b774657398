"""Medians, percentiles and quantiles, with and without regard to NaN.

Only the places of the wanted elements are looked for; they are then taken from the array, so that
derivatives flow to these few alone. NaN sorts behind all numbers.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..backends.annotations import Axis
from ..backends.restoring import errstate
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import beside, operands_together
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import misfit, refuse_out
from ..primitives.core.shape_dtype import INEXACT, REAL, canonical_axes, result_type
from .arguments import arrays_together
from .creation import asarray
from .known_values import is_at_hand, value_of
from .zeros_ones import full_like

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

# The parameters of plotting positions: quantile q lies at place n q + a + q (1 - a - b) - 1.
# R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50
# (1996).
POSITIONS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
# Methods that return an element, never a number between two.
STEP_METHODS = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
# Above this number of places one sort is faster than partitions.
MOST_PLACES_TO_PARTITION = 64
QUANTILE_METHODS = (*POSITIONS, *STEP_METHODS, "averaged_inverted_cdf", "midpoint")


class _ReducedRows:
    """An array with the axes that are reduced brought together at the end.

    Attributes:
        count: the elements of each row; of shape ``(*kept, 1)`` where NaN does not count.
        xp: the module for counts: NumPy, or the registry where they are not known.
        kept: the shape of the other axes, and ``whole`` the same with reduced axes of length 1.
    """

    def __init__(self, a: Array, axis: Axis, omit_nan: bool) -> None:
        self.shape = a.shape
        self.axes = canonical_axes(axis, len(a.shape))
        self.values = self.gathered(a)
        self.kept = self.values.shape[:-1]
        self.whole = tuple([1 if i in self.axes else n for i, n in enumerate(a.shape)])
        self.inexact = a.dtype.kind in INEXACT
        self.omits = omit_nan and self.inexact
        self.count: Any = self.values.shape[-1]
        if self.omits:
            numbers = ops.logical_not(ops.isnan(self.values))
            self.count = ops.count_nonzero(numbers, -1, keepdims=True)
            if is_at_hand(self.count):
                self.count = value_of("nanquantile", self.count, "")
        self.xp: Any = np if isinstance(self.count, int | np.ndarray) else ops

    def gathered(self, a: Array) -> Array:
        """Returns another array of the same shape with its axes in the same order."""
        left = [i for i in range(len(self.shape)) if i not in self.axes]
        a = ops.transpose(a, (*left, *self.axes))
        length = prod([self.shape[i] for i in self.axes])
        return ops.reshape(a, (*[self.shape[i] for i in left], length))

    def order(self, places: list[Any]) -> Array:
        """Returns indices that put, at least at some places, what sorting would put there."""
        if not all(isinstance(p, np.ndarray) for p in places):
            return ops.argsort(self.values, -1)
        last = [np.asarray([self.count - 1])] if self.inexact and not self.omits else []
        wanted = np.unique(np.concatenate([p.reshape(-1) for p in [*places, *last]]))
        if len(wanted) > MOST_PLACES_TO_PARTITION:
            return ops.argsort(self.values, -1)
        return ops.argpartition(self.values, wanted, axis=-1)

    def at(self, order: Any, places: Any) -> Array:
        """Returns the elements at places of the order: ``(*kept, k)``."""
        if len(shape_of(places)) == 1:
            found = ops.take(order, places, axis=-1)
        else:
            found = ops.take_along_axis(order, places, -1)
        return ops.take_along_axis(self.values, found, -1)

    def marked(self, out: Array, order: Any) -> Array:
        """Returns results with NaN where a row holds one, or where it holds no number."""
        if self.omits:
            return ops.where(ops.equal(self.count, 0), np.nan, out)
        if not self.inexact:
            return out
        largest = self.at(order, np.asarray([self.count - 1]))
        return ops.where(ops.isnan(largest), np.nan, out)

    def restored(self, out: Array, lead: tuple[int, ...], keepdims: bool) -> Array:
        """Returns results of shape ``(*kept, k)`` as ``(*lead, *kept)``, lead having k elements."""
        kept = self.whole if keepdims else self.kept
        return ops.reshape(ops.moveaxis(out, -1, 0), (*lead, *kept))


def _median_of_rows(a: ArrayLike, axis: Axis, keepdims: bool, omit_nan: bool) -> Array:
    a = asarray(a)
    if a.dtype.kind == "b":
        a = ops.astype(a, np.float64)
    rows = _ReducedRows(a, axis, omit_nan)
    if not rows.values.shape[-1]:
        kind = a.dtype if rows.inexact else np.float64
        nothing = full_like(a, np.nan, kind, shape=(*rows.kept, 1))
        return rows.restored(nothing, (), keepdims)
    if rows.omits:
        # A row without numbers takes its first element; it is replaced later.
        low = rows.xp.maximum((rows.count - 1) // 2, 0)
        places = rows.xp.concatenate([low, rows.count // 2], axis=-1)
        places = rows.xp.minimum(places, rows.values.shape[-1] - 1)
    else:
        low = (rows.count - 1) // 2
        places = np.arange(low, rows.count // 2 + 1)
    order = rows.order([places])
    found = rows.at(order, places)
    if rows.omits:
        # One element in the middle comes twice, and the sum of both may overflow.
        alone = rows.count % 2 == 1
        both = ops.mean(ops.where(alone, 0, found), axis=-1, keepdims=True)
        middle = ops.where(alone, found[..., :1], both)
    else:
        middle = ops.mean(found, axis=-1, keepdims=True)
    return rows.restored(rows.marked(middle, order), (), keepdims)


@ops.add_function
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Returns the median over axes: the middle one of the sorted elements, or the mean of two.

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        out: None; arrays are immutable.
        overwrite_input: of no effect.
        keepdims: whether the axes stay, with length 1.

    Returns:
        An inexact array without the axes; NaN where a NaN is among the elements, or where there
        are none. Derivatives flow to the one or two elements in the middle.

    >>> import functensor.numpy as np
    >>> np.median(np.array([3.0, 1.0, 7.0, 2.0]))
    Array(2.5, dtype=float64, device='cpu')
    """
    refuse_out("median", out)
    return _median_of_rows(a, axis, keepdims, omit_nan=False)


@ops.add_function
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Returns the median over axes of those elements that are not NaN.

    Args:
        a, axis, out, overwrite_input, keepdims: as for `median`.

    Returns:
        An inexact array without the axes; NaN where there is no number.

    >>> import functensor.numpy as np
    >>> np.nanmedian(np.array([3.0, np.nan, 1.0]))
    Array(2., dtype=float64, device='cpu')
    """
    refuse_out("nanmedian", out)
    return _median_of_rows(a, axis, keepdims, omit_nan=True)


# -- quantiles


def _neighbour_places(xp: Any, method: str, n: Any, q: Any) -> tuple[Any, Any, Any | None]:
    """Returns the places of two of n sorted elements, and how far to go from first to second."""
    if method in POSITIONS:
        a, b = POSITIONS[method]
        # Both are the same for "linear", but for rounding.
        place = (n - 1) * q if method == "linear" else n * q + (a + q * (1 - a - b)) - 1
    elif method in ("lower", "higher", "nearest", "midpoint"):
        place = (n - 1) * q
    else:
        place = n * q - (1.5 if method == "closest_observation" else 1)
    below = xp.floor(place)
    share = place - below
    if method in ("lower", "higher", "nearest"):
        rounded = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.rint}[method](place)
        below, above, share = rounded, rounded, None
    elif method in STEP_METHODS:
        stays = xp.equal(share, 0)
        if method == "closest_observation":
            stays = xp.logical_and(stays, xp.equal(xp.remainder(below, 2), 1))
        below = xp.where(stays, below, below + 1)
        above, share = below, None
    elif method == "midpoint":
        above = xp.ceil(place)
        share = xp.where(xp.equal(share, 0), 0.0, 0.5)
    else:
        above = below + 1
        if method == "averaged_inverted_cdf":
            share = xp.where(xp.equal(share, 0), 0.5, 1.0)
    last = xp.maximum(n - 1, 0)
    places = [xp.minimum(xp.maximum(i, 0), last).astype(np.intp) for i in (below, above)]
    return places[0], places[1], share


def _interpolated_pair(first: Array, second: Array, share: Array) -> Array:
    """Returns numbers on the way from the first to the second, exact at both ends."""
    endless, start = ops.isinf(second), ops.isinf(first)
    # The difference of equal infinities is no number, and an infinite end is reached at once.
    same = ops.logical_and(ops.equal(first, second), start)
    width = ops.subtract(second, ops.where(same, 0, first))
    width = ops.where(same, 0, width)
    nearer = ops.where(endless, False, ops.logical_or(start, ops.greater_equal(share, 0.5)))
    with errstate(invalid="ignore"):
        rising = ops.add(first, ops.multiply(width, share))
        falling = ops.subtract(second, ops.multiply(width, ops.subtract(1, share)))
    return ops.where(nearer, falling, rising)


def _unweighted_quantiles(rows: _ReducedRows, q: Any, method: str) -> Array:
    """Returns quantiles q, which lie along one axis, of every row: ``(*kept, k)``."""
    known = isinstance(q, np.ndarray)
    xp = rows.xp if known else ops
    if known and xp is ops:
        q = beside(rows.values, q)
    count = rows.count if isinstance(rows.count, int) else rows.count.astype(q.dtype)
    low, high, share = _neighbour_places(xp, method, count, q)
    if share is None:
        order = rows.order([low])
        return rows.marked(rows.at(order, low), order)
    if known:
        # A quantile that is an element does not depend on the next one, which may be infinite.
        high = xp.where(xp.equal(share, 0), low, high)
    order = rows.order([low, high])
    kind = result_type(rows.values.dtype, q.dtype)
    if xp is np:
        share = beside(rows.values, share)
    share = ops.astype(share, kind if kind.kind in REAL else np.float64)
    out = _interpolated_pair(rows.at(order, low), rows.at(order, high), share)
    return rows.marked(out, order)


def _weighted_quantiles(
    name: str, rows: _ReducedRows, q: Any, weights: ArrayLike, axis: Axis
) -> Array:
    """Returns weighted quantiles: elements at which the running sum of weights reaches q."""
    weights = arrays_together((rows.values, weights))[1]
    if weights.shape != rows.shape:
        lengths = tuple([rows.shape[i] for i in rows.axes])
        if axis is None or weights.shape != lengths:
            raise misfit(
                f"{name}: weights of shape {weights.shape} for an array of shape {rows.shape}: "
                "give weights of its shape, or name the axis that they are for",
                f"np.{name}(x, q, axis, weights=w), with one weight for each slice",
            )
        weights = ops.broadcast_to(ops.reshape(weights, -1), rows.values.shape)
    else:
        weights = rows.gathered(weights)
    if is_at_hand(weights) and np.any(value_of(name, weights, "") < 0):
        raise ValueError(f"{name}: weights are not negative")
    if rows.omits:
        weights = ops.where(ops.isnan(rows.values), 0, weights)
    order = ops.argsort(rows.values, -1)
    total = ops.cumsum(ops.astype(ops.take_along_axis(weights, order, -1), np.float64), -1)
    whole = ops.index(total, (Ellipsis, slice(-1, None)))
    if is_at_hand(whole):
        sums = value_of(name, whole, "")
        # A row of NaN alone has no weight, and NaN for its quantile.
        empty = rows.omits & ops.all(ops.isnan(rows.values), -1, keepdims=True)
        if np.any(~(np.isfinite(sums) & (sums > 0)) & ~value_of(name, empty, "")):
            raise ValueError(f"{name}: the sums of weights are finite and above zero")
    total = ops.divide(total, whole)
    if q.dtype.kind in REAL:
        total = ops.astype(total, q.dtype)
    total = ops.expand_dims(total, -2)
    # Elements without weight in front of all others are not chosen either.
    if isinstance(q, np.ndarray):
        q = beside(total, q)
    before = ops.logical_or(ops.less(total, ops.expand_dims(q, -1)), ops.equal(total, 0))
    places = ops.minimum(ops.sum(before, -1), rows.values.shape[-1] - 1)
    return rows.marked(rows.at(order, places), order)


def _quantile(
    name: str,
    a: ArrayLike,
    q: Any,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    out: None,
    omit_nan: bool,
    scale: float,
) -> Array:
    refuse_out(name, out)
    if method not in QUANTILE_METHODS:
        known = ", ".join(sorted(QUANTILE_METHODS))
        raise ValueError(f"{name}: method {method!r} is none of {known}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{name}: weights go with method='inverted_cdf' only, not {method!r}")
    # Fractions in lists and numbers are looked at on the host, wherever a is.
    a, _, weights = operands_together(name, a, q if isinstance(q, Array) else None, weights)
    a = asarray(a)
    if a.dtype.kind == "c":
        raise TypeError(f"{name}: complex numbers have no order: {a.describe()}")
    if a.dtype.kind == "b" and method not in STEP_METHODS:
        a = ops.astype(a, np.float64)
    weak = type(q) in (int, float)
    q = asarray(q, device=None if isinstance(q, Array) else "cpu")
    if not isinstance(q, Tracer) and is_at_hand(q):
        q = np.asarray(q)
        if not np.all((q >= 0) & (q <= scale)):
            raise ValueError(f"{name}: q lies from 0 to {scale:g}, not {q.tolist()}")
    if scale != 1:
        q = q / (a.dtype.type(scale) if a.dtype.kind in REAL else scale)
    elif q.dtype.kind not in REAL:
        q = q.astype(np.float64)
    lead = q.shape
    q = q.reshape(-1)
    rows = _ReducedRows(a, axis, omit_nan)
    if not rows.values.shape[-1]:
        if not omit_nan:
            raise ValueError(f"{name}: there are no elements to choose from, in shape {a.shape}")
        kind = a.dtype if rows.inexact else np.float64
        nothing = full_like(a, np.nan, kind, shape=(*rows.kept, *q.shape))
        return rows.restored(nothing, lead, keepdims)
    if weights is None:
        found = _unweighted_quantiles(rows, q, method)
    else:
        found = _weighted_quantiles(name, rows, q, weights, axis)
    if weak and a.dtype.kind in REAL:
        found = ops.astype(found, a.dtype)
    return rows.restored(found, lead, keepdims)


@ops.add_function
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Returns quantiles over axes: the numbers below which given fractions of the elements lie.

    Args:
        a: a real array.
        q: the fractions, from 0 to 1, an array of any shape.
        axis: over which axes: None for all, an integer or a tuple.
        out: None; arrays are immutable.
        overwrite_input: of no effect.
        method: where between elements a quantile lies: ``linear``, ``hazen``, ``weibull``,
            ``median_unbiased``, ``normal_unbiased``, ``interpolated_inverted_cdf``; or by steps:
            ``lower``, ``higher``, ``nearest``, ``midpoint``, ``inverted_cdf``,
            ``averaged_inverted_cdf``, ``closest_observation``.
        keepdims: whether the axes stay, with length 1.
        weights: with method ``inverted_cdf``: how much each element counts, of a's shape or of that
            of the axes.

    Returns:
        An array with the axes of q in front of those that are left. Derivatives flow to the two
        neighbours of each quantile, and to q. NaN where a NaN is among the elements.

    Raises:
        ValueError: q is out of bounds (which is not looked at on a GPU), there are no elements, or
            there is no such method.
        TypeError: the elements are complex.

    Source: R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages" (1996)

    >>> import functensor.numpy as np
    >>> np.quantile(np.array([3.0, 1.0, 2.0]), [0.5, 0.75])
    Array([2. , 2.5], dtype=float64, device='cpu')
    """
    return _quantile("quantile", a, q, axis, method, keepdims, weights, out, False, 1.0)


@ops.add_function
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Returns percentiles over axes: quantiles by fractions in percent.

    Args:
        a, axis, out, overwrite_input, method, keepdims, weights: as for `quantile`.
        q: the fractions, from 0 to 100, an array of any shape.

    >>> import functensor.numpy as np
    >>> np.percentile(np.array([3.0, 1.0, 2.0]), 75)
    Array(2.5, dtype=float64, device='cpu')
    """
    return _quantile("percentile", a, q, axis, method, keepdims, weights, out, False, 100.0)


@ops.add_function
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Returns quantiles over axes of those elements that are not NaN; NaN where there are none.

    Args:
        a, q, axis, out, overwrite_input, method, keepdims, weights: as for `quantile`.

    >>> import functensor.numpy as np
    >>> np.nanquantile(np.array([3.0, np.nan, 1.0]), 0.5)
    Array(2., dtype=float64, device='cpu')
    """
    return _quantile("nanquantile", a, q, axis, method, keepdims, weights, out, True, 1.0)


@ops.add_function
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Returns percentiles over axes of those elements that are not NaN; NaN where there are none.

    Args:
        a, axis, out, overwrite_input, method, keepdims, weights: as for `quantile`.
        q: the fractions, from 0 to 100, an array of any shape.

    >>> import functensor.numpy as np
    >>> np.nanpercentile(np.array([3.0, np.nan, 1.0]), 50)
    Array(2., dtype=float64, device='cpu')
    """
    return _quantile("nanpercentile", a, q, axis, method, keepdims, weights, out, True, 100.0)
