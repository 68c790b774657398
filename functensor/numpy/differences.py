"""Differences, integrals and interpolation along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.annotations import Buffer, DTypeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, is_unknown
from ..primitives.core.buffers import beside, checked_number, operands_together
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe, misfit, refuse_out
from ..primitives.core.shape_dtype import canonical_axis, result_type
from .arguments import array_beside, arrays_together, as_inexact
from .creation import asarray
from .known_values import is_at_hand, value_of
from .searching import searchsorted
from .zeros_ones import full_like

__all__ = [
    "cross", "cumulative_prod", "cumulative_sum", "diff", "ediff1d", "insert", "interp",
    "trapezoid",
]  # fmt: skip


@ops.add_function
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Returns the differences of neighbours along an axis.

    Args:
        a: an array of at least one axis.
        n: how often to take differences; a itself is returned for 0.
        axis: along which axis.
        prepend, append: what to put before and behind the array first: slices, or a number.

    Returns:
        An array that is shorter by n along the axis; of booleans, whether neighbours differ.

    >>> import functensor.numpy as np
    >>> np.diff(np.array([1.0, 4.0, 9.0]))
    Array([3., 5.], dtype=float64, device='cpu')
    """
    a, prepend, append = operands_together("diff", a, prepend, append)
    a = asarray(a)
    if n < 0 or not a.shape:
        raise ValueError(f"diff: {n} differences of an array of shape {a.shape}")
    axis = canonical_axis(axis, len(a.shape))
    if n == 0:
        return a
    parts = [a]
    edge = tuple([1 if i == axis else length for i, length in enumerate(a.shape)])
    for place, extra in ((0, prepend), (len(parts), append)):
        if extra is not None:
            extra = array_beside(a, extra)
            extra = ops.broadcast_to(extra, edge) if not extra.shape else extra
            parts.insert(place if place == 0 else len(parts), extra)
    if len(parts) > 1:
        a = ops.concatenate(parts, axis=axis)
    subtract = ops.not_equal if a.dtype.kind == "b" else ops.subtract
    before = (slice(None),) * axis
    for _ in range(n):
        later = ops.index(a, (*before, slice(1, None)))
        a = subtract(later, ops.index(a, (*before, slice(None, -1))))
    return a


@ops.add_function
def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """Returns an array with values put before indices.

    Args:
        arr: an array.
        obj: before which: an integer, a slice, integers or booleans; booleans are known.
        values: what to put there; it broadcasts. Of an integer ``obj``, a slice of arr, or slices
            along the first axis; otherwise what stands along ``axis`` is for one index each.
        axis: along which axis; None takes the flattened array.

    Raises:
        IndexError: an index is out of bounds, under ``jit`` and ``vmap`` too, as of ``x[i]``.

    >>> import functensor.numpy as np
    >>> np.insert(np.array([1.0, 2.0]), 1, 5.0)
    Array([1., 5., 2.], dtype=float64, device='cpu')
    >>> np.insert(np.array([1.0, 2.0]), [0, 2], [5.0, 6.0])
    Array([5., 1., 2., 6.], dtype=float64, device='cpu')
    """
    arr, values = operands_together("insert", arr, values)
    arr = asarray(arr)
    values = array_beside(arr, checked_number(values, arr.dtype))
    if axis is None:
        arr, axis = ops.reshape(arr, -1), 0
    axis = canonical_axis(axis, len(arr.shape))
    length = arr.shape[axis]
    before: Any = obj
    if isinstance(obj, Array) and not isinstance(obj, Tracer):
        before = value_of("insert", obj, "")
    unknown = is_unknown(before)
    if unknown:
        before = asarray(before)
        if before.dtype.kind not in "iu":
            fix = "indices in place of booleans, np.insert(x, [0, 2], v)"
            before, unknown = value_of("insert", before, fix), False
    if not (unknown or isinstance(before, slice | int)):
        before = np.asarray(before)
    values = ops.astype(values, arr.dtype)
    values = ops.reshape(values, (1,) * (len(arr.shape) - len(values.shape)) + values.shape)
    if not isinstance(before, slice) and not getattr(before, "shape", ()):
        values = ops.moveaxis(values, 0, axis)
    if unknown:
        places = max(before.size, 1) if before.shape else 1
    else:
        places = np.insert(np.arange(length), before, 0).size - length
    count = places if places != 1 else values.shape[axis]
    lengths = tuple(count if i == axis else n for i, n in enumerate(arr.shape))
    joined = ops.concatenate((arr, ops.broadcast_to(values, lengths)), axis=axis)
    if unknown:
        order: Array | Buffer = _order_with(before, length, count)
    else:
        order = np.insert(np.arange(length), before, np.arange(length, length + count))
    return ops.take(joined, order, axis=axis)


def _order_with(before: Array, length: int, count: int) -> Array:
    """Returns in which order slices come, those put before indices being behind the others."""
    before = ops.reshape(before, -1)
    # The table raises errors out of bounds. Its last entry is the place behind the last slice, so
    # that negative indices move by one.
    table = beside(before, np.arange(length + 1))
    before = ops.take(table, ops.where(ops.less(before, 0), ops.subtract(before, 1), before))
    # Slices that go to one place keep their order, in front of the one that is there.
    new = ops.add(ops.multiply(before, 2), beside(before, np.zeros(count, int)))
    old = beside(before, 2 * np.arange(length) + 1)
    return ops.argsort(ops.concatenate([old, new]), stable=True)


@ops.add_function
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Returns the differences of neighbours in the flattened array.

    Args:
        ary: an array.
        to_end, to_begin: what to join to the differences.

    Raises:
        TypeError: what is joined is of another kind of numbers.

    >>> import functensor.numpy as np
    >>> np.ediff1d(np.array([1.0, 4.0, 9.0]), to_begin=0.0)
    Array([0., 3., 5.], dtype=float64, device='cpu')
    """
    ary, to_end, to_begin = operands_together("ediff1d", ary, to_end, to_begin)
    steps = diff(ops.reshape(asarray(ary), -1))
    ends = [array_beside(steps, e) for e in (to_begin, to_end) if e is not None]
    for end in ends:
        if not np.can_cast(end.dtype, steps.dtype, "same_kind"):
            raise TypeError(
                f"ediff1d: {describe(end)} at an end of {describe(steps)}: it has to be of a dtype "
                "that can be cast to theirs as one of the same kind"
            )
    ends = [ops.reshape(ops.astype(e, steps.dtype), -1) for e in ends]
    if not ends:
        return steps
    first = ends[:1] if to_begin is not None else []
    return ops.concatenate([*first, steps, *ends[len(first) :]])


@ops.add_function
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Returns the integral along an axis by the trapezoidal rule.

    Args:
        y: the values.
        x: where they are taken: of a shape that broadcasts to y's, or on one axis; None for steps
            of dx.
        dx: the distance of two neighbours.
        axis: along which axis.

    >>> import functensor.numpy as np
    >>> np.trapezoid(np.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float64, device='cpu')
    """
    y, x = (asarray(y), None) if x is None else arrays_together((y, x), "trapezoid")
    given, axis = axis, canonical_axis(axis, len(y.shape))
    if x is not None:
        if len(x.shape) == 1:
            dx = ops.reshape(diff(x), (-1,) + (1,) * (len(y.shape) - axis - 1))
        else:
            # A negative axis stays negative: x may have fewer axes.
            dx = diff(x, axis=given)
        if y.dtype.kind in "biu" and dx.dtype.kind not in "biu":
            y = ops.astype(y, result_type(y.dtype, dx.dtype))
    before = (slice(None),) * axis
    later = ops.index(y, (*before, slice(1, None)))
    height = ops.divide(ops.add(later, ops.index(y, (*before, slice(None, -1)))), 2.0)
    return ops.sum(ops.multiply(height, dx), axis=axis)


def _on_line(x: Array, x0: Array, x1: Array, f0: Array, f1: Array) -> Array:
    """Returns values on the lines through two points each, infinities as NumPy's ``interp`` does.

    Args:
        x: where: from x0 to x1.
        x0, x1: the coordinates of the points.
        f0, f1: the values there; all are real.
    """
    # Points at one place make a jump, whose slope must not be divided by zero.
    jump = ops.equal(x0, x1)
    at_start, at_end = ops.equal(x, x0), ops.greater_equal(x, x1)
    slope = ops.stop_gradient(_slope(x0, x1, f0, f1, jump))
    ends = (x0, f0), (x1, f1)
    lines = [ops.add(ops.multiply(slope, ops.subtract(x, at)), f) for at, f in ends]
    no_start, no_end = map(ops.isnan, lines)
    by_end = ops.logical_or(at_end, ops.logical_and(no_start, ops.logical_not(at_start)))
    flat = ops.logical_and(ops.equal(f0, f1), ops.equal(x, x))
    no_line = ops.logical_or(jump, ops.logical_and(no_end, ops.logical_or(at_end, flat)))
    alone = ops.where(by_end, ops.logical_and(no_line, ops.equal(x, x)), no_start)
    # What is not used is left out before it is computed, so that derivatives are no NaN.
    near, value = ops.where(by_end, x1, x0), ops.where(by_end, f1, f0)
    way = ops.where(alone, 0, ops.subtract(x, near))
    slope = _slope(x0, x1, f0, f1, ops.logical_or(alone, jump))
    return ops.add(ops.multiply(slope, way), value)


def _slope(x0: Array, x1: Array, f0: Array, f1: Array, without: Array) -> Array:
    """Returns the slopes of lines through two points, 0 of those that are to go without."""
    width = ops.where(without, 1, ops.subtract(x1, x0))
    return ops.divide(ops.where(without, 0, ops.subtract(f1, f0)), width)


@ops.add_function
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Returns values of the piecewise linear function through given points.

    Args:
        x: where to evaluate it.
        xp: the points' coordinates on one axis, in ascending order.
        fp: the points' values.
        left, right: the value before the first and behind the last point; None for that point's.
        period: the function's period, in which case the order of xp does not matter.

    Returns:
        An array of x's shape. Derivatives flow to x, xp and fp.

    Raises:
        ShapeError: xp and fp differ in length, or there are no points.
        ValueError: the period is zero.

    >>> import functensor.numpy as np
    >>> np.interp(2.5, [1.0, 2.0, 3.0], [3.0, 2.0, 0.0])
    Array(1., dtype=float64, device='cpu')
    """
    x, xp, fp = arrays_together((x, xp, fp), "interp")
    xp, fp = as_inexact(xp), as_inexact(fp)
    if len(xp.shape) != 1 or xp.shape != fp.shape or not xp.size:
        raise misfit(
            f"interp: coordinates of shape {xp.shape}, values of shape {fp.shape}",
            "np.interp(x, xp, fp), with a value for each coordinate",
        )
    if "c" in (x.dtype.kind, xp.dtype.kind):
        raise TypeError(
            f"interp: coordinates are real, not {x.describe()} among {xp.describe()}; only values "
            "may be complex"
        )
    if period is not None:
        period = ops.abs(asarray(period))
        if is_at_hand(period) and value_of("interp", period, "") == 0:
            raise ValueError("interp: a period of zero")
        x, xp = ops.remainder(x, period), ops.remainder(xp, period)
        order = ops.argsort(xp)
        xp, fp = ops.take(xp, order), ops.take(fp, order)
        last, first = slice(-1, None), slice(1)
        xp = ops.concatenate((ops.subtract(xp[last], period), xp, ops.add(xp[first], period)))
        fp = ops.concatenate((fp[last], fp, fp[first]))
        left = right = None
    length = xp.shape[0]
    below, above = ops.less(x, xp[0]), ops.greater(x, xp[-1])
    if length == 1:
        inside = ops.broadcast_to(fp[0], x.shape)
    else:
        end = ops.clip(searchsorted(xp, x, "right"), 1, length - 1)
        start = ops.subtract(end, 1)
        # Beyond the points nothing is to be computed, of which infinity would make NaN.
        x0, x1, f0, f1 = (ops.take(v, i) for v in (xp, fp) for i in (start, end))
        place = ops.where(ops.logical_or(below, above), x0, x)
        if f0.dtype.kind == "c":
            parts = [_on_line(place, x0, x1, part(f0), part(f1)) for part in (ops.real, ops.imag)]
            inside = ops.where(ops.isnan(x), np.nan, ops.complex_of_parts(*parts))
        else:
            inside = _on_line(place, x0, x1, f0, f1)
    out = ops.where(below, fp[0] if left is None else left, inside)
    return ops.where(above, fp[-1] if right is None else right, out)


@ops.add_function
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Returns the cross product of vectors.

    Args:
        a, b: the vectors, of three components, or of two, where the third is zero. Their other
            axes broadcast.
        axisa, axisb: where the components stand.
        axisc: where they stand in the result.
        axis: where they stand in all three.

    Returns:
        Vectors of three components; where both have two, the third of these alone.

    Raises:
        ShapeError: the vectors have neither two nor three components.

    >>> import functensor.numpy as np
    >>> np.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float64, device='cpu')
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = arrays_together((a, b), "cross")
    a, b = ops.moveaxis(a, axisa, -1), ops.moveaxis(b, axisb, -1)
    if not {shape_of(a)[-1], shape_of(b)[-1]} <= {2, 3}:
        raise misfit(
            f"cross: three components are needed, or two, not shapes {a.shape} and {b.shape}",
            "np.cross(a, b, axis=...) names the axis of the components",
        )
    x, y, *third = (ops.index(a, (Ellipsis, i)) for i in range(shape_of(a)[-1]))
    u, v, *other = (ops.index(b, (Ellipsis, i)) for i in range(shape_of(b)[-1]))
    if not third and not other:
        return x * v - y * u
    z, w = third[0] if third else 0 * x, other[0] if other else 0 * u
    return ops.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=axisc)


def _cumulative(
    name: str,
    first: int,
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: bool,
) -> Array:
    x = asarray(x)
    if axis is None:
        if len(x.shape) != 1:
            raise ValueError(f"cumulative_{name[3:]}: give axis=, for an array of shape {x.shape}")
        axis = 0
    axis = canonical_axis(axis, len(x.shape))
    x = x if dtype is None else ops.astype(x, dtype)
    # The function gets the dtype too, since it adds up small integers in large ones.
    out: Array = getattr(ops, name)(x, axis, dtype)
    if not include_initial:
        return out
    shape = tuple([1 if i == axis else n for i, n in enumerate(out.shape)])
    return ops.concatenate((full_like(out, first, shape=shape), out), axis=axis)


@ops.add_function
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Returns the sums of the elements up to each place along an axis.

    Args:
        x: an array.
        axis: along which axis; it must be given unless there is only one.
        dtype: the dtype to sum in.
        out: None; arrays are immutable.
        include_initial: whether to begin with a zero.

    >>> import functensor.numpy as np
    >>> np.cumulative_sum(np.array([1.0, 2.0]), include_initial=True)
    Array([0., 1., 3.], dtype=float64, device='cpu')
    """
    refuse_out("cumulative_sum", out)
    return _cumulative("cumsum", 0, x, axis, dtype, include_initial)


@ops.add_function
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Returns the products of the elements up to each place along an axis.

    Args:
        x: an array.
        axis: along which axis; it must be given unless there is only one.
        dtype: the dtype to multiply in.
        out: None; arrays are immutable.
        include_initial: whether to begin with a one.

    >>> import functensor.numpy as np
    >>> np.cumulative_prod(np.array([2.0, 3.0]), include_initial=True)
    Array([1., 2., 6.], dtype=float64, device='cpu')
    """
    refuse_out("cumulative_prod", out)
    return _cumulative("cumprod", 1, x, axis, dtype, include_initial)
