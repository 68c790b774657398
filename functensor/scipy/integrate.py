"""SciPy's ``integrate``: integrals of samples, and of ordinary differential equations."""

from __future__ import annotations

import numpy as np

from ..faces.publish import publish
from ..numpy.arguments import as_inexact
from ..numpy.creation import asarray
from ..numpy.differences import diff
from ..numpy.differences import trapezoid as numpy_trapezoid
from ..numpy.known_values import is_at_hand, value_of
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.shape_dtype import canonical_axis, finfo
from .axis_slices import cut_along
from .ode import odeint

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "odeint", "simpson", "trapezoid"]


def _values_along(name: str, y: ArrayLike, axis: int) -> tuple[Array, int]:
    """Returns values as an array of real or complex numbers, and the axis from the front."""
    y = as_inexact(y)
    if not y.shape:
        raise ValueError(f"{name}: the values are a scalar; give them along an axis")
    return y, canonical_axis(axis, len(y.shape))


def _steps(name: str, y: Array, x: ArrayLike | None, axis: int) -> Array:
    """Returns the distances between samples, which broadcast against values; ones without x."""
    if x is None:
        shape = (max(y.shape[axis] - 1, 0),) + (1,) * (len(y.shape) - axis - 1)
        return wrap(beside(y, np.ones(shape, finfo(y.dtype).dtype)))
    x = asarray(x)
    if len(x.shape) == 1:
        if x.shape[0] != y.shape[axis]:
            raise ValueError(
                f"{name}: length of x along axis must be the same as y: {x.shape[0]} and "
                f"{y.shape[axis]}"
            )
        return ops.reshape(diff(x), (-1,) + (1,) * (len(y.shape) - axis - 1))
    if x.shape != y.shape:
        raise ValueError(
            f"{name}: shape of x must be 1-D or the same as y: {x.shape} and {y.shape}"
        )
    return diff(x, axis=axis)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Returns the integral of samples by the trapezoidal rule, as `functensor.numpy.trapezoid`.

    Args:
        y: the values.
        x: where they are taken: of y's shape, or on one axis; None for steps of ``dx``.
        dx: the distance of two neighbours.
        axis: along which axis.

    Returns:
        An array without the axis.

    Raises:
        ValueError: x does not fit y.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.integrate.trapezoid(np.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float64, device='cpu')
    """
    y, axis = _values_along("trapezoid", y, axis)
    _steps("trapezoid", y, x, axis)
    return numpy_trapezoid(y, x, dx, axis)


def cumulative_trapezoid(
    y: ArrayLike,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Array:
    """Returns the integral of samples up to each of them by the trapezoidal rule.

    Args:
        y, x, dx, axis: as for `trapezoid`.
        initial: 0 to begin with a zero, so that the result is as long as y; None for no zero.

    Returns:
        An array, shorter by one along the axis unless ``initial`` is 0.

    Raises:
        ValueError: x does not fit y, there is no sample, or ``initial`` is another number.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.integrate.cumulative_trapezoid(np.array([1.0, 2.0, 3.0]), initial=0)
    Array([0. , 1.5, 4. ], dtype=float64, device='cpu')
    """
    name = "cumulative_trapezoid"
    if initial not in (None, 0):
        raise ValueError(f"{name}: `initial` must be `None` or `0`, not {initial!r}")
    y, axis = _values_along(name, y, axis)
    if not y.shape[axis]:
        raise ValueError(f"{name}: at least one sample is required along axis {axis}")
    steps = _steps(name, y, x, axis)
    pairs = ops.add(cut_along(y, axis, 1), cut_along(y, axis, None, -1))
    sums = ops.cumsum(ops.multiply(pairs, dx if x is None else steps) / 2.0, axis)
    if initial is None:
        return sums
    shape = tuple([1 if i == axis else n for i, n in enumerate(sums.shape)])
    return ops.concatenate((beside(sums, np.zeros(shape, sums.dtype)), sums), axis=axis)


def _quotient_or_0(a: Array, b: Array) -> Array:
    """Returns a / b, and 0 where b is 0: samples at one place bound no area."""
    zero = ops.equal(b, 0)
    return ops.where(zero, 0, ops.divide(a, ops.where(zero, 1, b)))


def simpson(
    y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Returns the integral of samples by Simpson's rule: of parabolas through three neighbours.

    With an even number of samples, the last interval gets the area under the parabola through the
    last three.

    Args:
        y, x, dx, axis: as for `trapezoid`.

    Returns:
        An array without the axis.

    Raises:
        ValueError: x does not fit y, or there is no sample.

    Source: for uneven steps, and an even number of samples, K. V. Cartwright, "Simpson's rule
    cumulative integration with MS Excel and irregularly-spaced data", 2017, equations 4 and 8.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.integrate.simpson(np.array([0.0, 1.0, 4.0, 9.0]))
    Array(9., dtype=float64, device='cpu')
    """
    y, axis = _values_along("simpson", y, axis)
    count = y.shape[axis]
    if not count:
        raise ValueError(f"simpson: at least one sample is required along axis {axis}")
    steps = _steps("simpson", y, x, axis)
    if count == 2:
        total = ops.sum(y, axis=axis, keepdims=True) * steps / 2.0
        return ops.multiply(ops.squeeze(total, axis), dx if x is None else 1.0)
    odd = count - 1 + count % 2
    along = _axis_of(steps, y, axis)
    first = cut_along(steps, along, 0, odd - 1, 2)
    second = cut_along(steps, along, 1, odd - 1, 2)
    width = first + second
    parabolas = (
        cut_along(y, axis, 0, odd - 2, 2) * (2.0 - _quotient_or_0(second, first))
        + cut_along(y, axis, 1, odd - 1, 2) * (width * _quotient_or_0(width, first * second))
        + cut_along(y, axis, 2, odd, 2) * (2.0 - _quotient_or_0(first, second))
    )
    total = ops.sum(parabolas * width / 6.0, axis=axis)
    if count % 2 == 0:
        total = total + _last_interval(y, steps, axis)
    return ops.multiply(total, dx if x is None else 1.0)


def _axis_of(steps: Array, y: Array, axis: int) -> int:
    """Returns the axis of the steps that runs along the values' axis."""
    return axis - (len(y.shape) - len(steps.shape))


def _last_interval(y: Array, steps: Array, axis: int) -> Array:
    """Returns the area between the last two samples, under the parabola through the last three."""
    along = _axis_of(steps, y, axis)
    before, last = cut_along(steps, along, -2, -1), cut_along(steps, along, -1)
    width = before + last
    area = (
        cut_along(y, axis, -1) * _quotient_or_0(2.0 * last**2 + 3.0 * before * last, 6.0 * width)
        + cut_along(y, axis, -2, -1) * _quotient_or_0(last**2 + 3.0 * before * last, 6.0 * before)
        - cut_along(y, axis, -3, -2) * _quotient_or_0(last**3, 6.0 * before * width)
    )
    return ops.squeeze(area, axis)


def _first_halves(y: Array, h: Array) -> Array:
    """Returns the areas of the first interval of every two, under the parabola over both."""
    low, high = h[..., :-1], h[..., 1:]
    both = low / (low + high)
    square = both * (low / high)
    terms = (3 - both) * y[..., :-2] + (3 + square + both) * y[..., 1:-1] - square * y[..., 2:]
    return low / 6 * terms


def cumulative_simpson(
    y: ArrayLike,
    *,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Array:
    """Returns the integral of samples up to each of them by Simpson's rule.

    Every interval gets the area under the parabola through its ends and a neighbour: in turn the
    next one and the one before, for the last interval the one before.

    Args:
        y: the values.
        x: where they are taken, ascending: of y's shape, or on one axis; None for steps of ``dx``.
        dx: the distance of two neighbours: a number, or an array of y's shape with 1 along the
            axis.
        axis: along which axis.
        initial: the first value, a number or an array of y's shape with 1 along the axis, so
            that the result is as long as y; None for no such value.

    Returns:
        An array, shorter by one along the axis unless there is ``initial``; for fewer than three
        samples the result of `cumulative_trapezoid`.

    Raises:
        ValueError: x does not fit y or does not ascend, ``dx`` or ``initial`` has another shape, or
            there is no sample.

    Source: K. V. Cartwright, "Simpson's rule cumulative integration with MS Excel and
    irregularly-spaced data", 2017, equation 8.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.integrate.cumulative_simpson(np.array([0.0, 1.0, 4.0]), initial=0).round(6)
    Array([0.      , 0.333333, 2.666667], dtype=float64, device='cpu')
    """
    name = "cumulative_simpson"
    y, axis = _values_along(name, y, axis)
    count = y.shape[axis]
    whole = tuple([1 if i == axis else n for i, n in enumerate(y.shape)])
    if not count:
        raise ValueError(f"{name}: at least one sample is required along axis {axis}")
    dx = asarray(dx)
    initial = initial if initial is None else asarray(initial)
    for word, z in (("dx", dx), ("initial", initial)):
        if z is not None and z.shape not in ((), whole):
            raise ValueError(
                f"{name}: If provided, `{word}` must either be a scalar or have the same shape as "
                f"`y` but with only 1 point along `axis`: {whole}, not {z.shape}"
            )
    steps = _steps(name, y, x, axis)
    if x is not None and is_at_hand(steps) and (value_of(name, steps, "") <= 0).any():
        raise ValueError(f"{name}: Input x must be strictly increasing.")
    if count < 3:
        out = cumulative_trapezoid(y, x, axis=axis)
    else:
        along = _axis_of(steps, y, axis)
        values, h = ops.moveaxis(y, axis, -1), ops.moveaxis(steps, along, -1)
        if x is None or len(h.shape) < len(values.shape) or h.shape[:-1] != values.shape[:-1]:
            h = ops.reshape(h, (-1,))
        first = _first_halves(values, h)
        second = ops.flip(_first_halves(ops.flip(values, -1), ops.flip(h, -1)), -1)
        even = ops.concatenate([first, second[..., -1:]], axis=-1)
        odd = ops.concatenate([second[..., :1], second], axis=-1)
        turns = beside(y, np.arange(count - 1) % 2 == 0)
        out = ops.moveaxis(ops.cumsum(ops.where(turns, even, odd), -1), -1, axis)
    out = out if x is not None else out * dx
    if initial is None:
        return out
    start = ops.astype(ops.broadcast_to(initial, whole), out.dtype)
    return ops.concatenate((start, out + start), axis=axis)


publish(globals())
