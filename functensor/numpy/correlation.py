"""Convolution, numerical derivatives and unwrapped phases."""

from __future__ import annotations

import operator
from math import pi

from ..backends.annotations import Axis
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import operands_together
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import canonical_axes, canonical_axis, result_type
from .arguments import arrays_together, as_inexact
from .creation import asarray
from .differences import diff

__all__ = ["convolve", "correlate", "gradient", "unwrap"]

# NumPy knows them by their number too.
CONVOLUTION_MODES: dict[str | int, str] = {
    "full": "full", "same": "same", "valid": "valid", 0: "valid", 1: "same", 2: "full",
}  # fmt: skip


def _pair_of_sequences(
    name: str, a: ArrayLike, v: ArrayLike, mode: str | int
) -> tuple[Array, Array, str]:
    """Returns two sequences, and a mode by its name."""
    a, v = arrays_together((a, v), name)
    a, v = (ops.reshape(x, (1,)) if not x.shape else x for x in (a, v))
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise misfit(
            f"{name}: sequences have one axis each, not shapes {a.shape} and {v.shape}",
            f"ft.vmap(np.{name}) maps over other axes",
        )
    if not a.shape[0] or not v.shape[0]:
        raise misfit(
            f"{name}: neither sequence may be empty: {a.shape}, {v.shape}",
            "give each sequence an element at least",
        )
    word = CONVOLUTION_MODES.get(mode)
    if word is None:
        raise ValueError(f"{name}: mode is one of full, same, valid, not {mode!r}")
    return a, v, word


def _convolved(a: Array, v: Array, mode: str, offset: int) -> Array:
    """Convolves; ``offset`` says where a result of the longer one's length begins in the whole."""
    long, short = (v, a) if a.shape[0] < v.shape[0] else (a, v)
    if mode == "valid":
        return ops.correlate_valid(long, ops.flip(short, 0))
    full = ops.convolve_full(long, short)
    if mode == "full":
        return full
    return ops.index(full, slice(offset, offset + long.shape[0]))


@ops.add_function
def convolve(a: ArrayLike, v: ArrayLike, mode: str | int = "full") -> Array:
    """Returns the convolution of two sequences: ``out[k] = sum(a[i] * v[k - i])``.

    Args:
        a, v: numbers on one axis each.
        mode: ``full``: wherever they overlap; ``same``: as many as the longer one has, in the
            middle; ``valid``: where they overlap completely.

    Returns:
        An array on one axis.

    Raises:
        ShapeError: a sequence is empty, or has not one axis.
        ValueError: there is no such mode.

    >>> import functensor.numpy as np
    >>> np.convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    Array([0. , 1. , 2.5, 4. , 1.5], dtype=float64, device='cpu')
    """
    a, v, word = _pair_of_sequences("convolve", a, v, mode)
    return _convolved(a, v, word, (min(a.shape[0], v.shape[0]) - 1) // 2)


@ops.add_function
def correlate(a: ArrayLike, v: ArrayLike, mode: str | int = "valid") -> Array:
    """Returns the cross-correlation of two sequences: ``out[k] = sum(a[n + k] * conj(v[n]))``.

    Args:
        a, v: numbers on one axis each.
        mode: as for `convolve`.

    Returns:
        An array on one axis.

    Raises:
        ShapeError: a sequence is empty, or has not one axis.
        ValueError: there is no such mode.

    >>> import functensor.numpy as np
    >>> np.correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    Array([3.5], dtype=float64, device='cpu')
    """
    a, v, word = _pair_of_sequences("correlate", a, v, mode)
    shorter = min(a.shape[0], v.shape[0])
    offset = (shorter - 1) // 2 if a.shape[0] >= v.shape[0] else shorter // 2
    return _convolved(a, ops.conj(ops.flip(v, 0)), word, offset)


# -- derivatives by differences


def _slices_along(f: Array, axis: int, start: int | None, stop: int | None) -> Array:
    return ops.index(f, (*(slice(None),) * axis, slice(start, stop)))


def _weighted_slices(f: Array, axis: int, start: int, weights: tuple[float | Array, ...]) -> Array:
    """Returns one slice: the sum of slices from a place on, each times a number."""
    total: Array | int = 0
    for i, weight in enumerate(weights):
        part = _slices_along(f, axis, start + i, start + i + 1 or None)
        total = ops.add(total, ops.multiply(part, weight))
    return asarray(total)


def _evenly_spaced_gradient(f: Array, h: float | Array, axis: int, order: int) -> Array:
    n = f.shape[axis]
    apart = ops.subtract(_slices_along(f, axis, 2, None), _slices_along(f, axis, None, n - 2))
    # Python divides Python's numbers: they stay weak.
    inner = ops.divide(apart, 2.0 * h)
    first: tuple[float, ...] = (-1.0, 1.0)
    last: tuple[float, ...] = (-1.0, 1.0)
    if order == 2:
        first, last = (-1.5, 2.0, -0.5), (0.5, -2.0, 1.5)
    ends = [
        ops.divide(_weighted_slices(f, axis, 0, first), h),
        ops.divide(_weighted_slices(f, axis, -len(last), last), h),
    ]
    return ops.concatenate([ends[0], inner, ends[1]], axis=axis)


def _unevenly_spaced_gradient(f: Array, x: Array, axis: int, order: int) -> Array:
    """Second order inside where the distances differ: the parabola through three points."""
    steps = diff(x)
    wide = (-1, *(1,) * (len(f.shape) - axis - 1))
    d1 = ops.reshape(ops.index(steps, slice(None, -1)), wide)
    d2 = ops.reshape(ops.index(steps, slice(1, None)), wide)
    n = f.shape[axis]
    middle = _slices_along(f, axis, 1, n - 1)
    # Between equal distances it has no part, not even where it is infinite or NaN.
    apart = ops.logical_and(ops.equal(d1, d2), ops.logical_not(ops.isfinite(middle)))
    inner = (
        -d2 / (d1 * (d1 + d2)) * _slices_along(f, axis, None, n - 2)
        + (d2 - d1) / (d1 * d2) * ops.where(apart, 0, middle)
        + d1 / (d2 * (d1 + d2)) * _slices_along(f, axis, 2, None)
    )
    h, k = ops.index(steps, 0), ops.index(steps, -1)
    if order == 1:
        rises = [_weighted_slices(f, axis, start, (-1.0, 1.0)) for start in (0, -2)]
        ends = [rises[0] / h, rises[1] / k]
    else:
        h, k = ops.index(steps, 0), ops.index(steps, 1)
        first = (-(2 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k)))
        ends = [_weighted_slices(f, axis, 0, first)]
        h, k = ops.index(steps, -2), ops.index(steps, -1)
        last = (k / (h * (h + k)), -(k + h) / (h * k), (2 * k + h) / (k * (h + k)))
        ends.append(_weighted_slices(f, axis, -3, last))
    return ops.concatenate([ends[0], inner, ends[1]], axis=axis)


@ops.add_function
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1
) -> Array | tuple[Array, ...]:
    """Returns numerical derivatives along axes: central differences inside, one-sided at the ends.

    For the derivative of a function, rather than of sampled values, there is ``functensor.grad``.

    Args:
        f: an array.
        varargs: the distance of neighbours: one number for all axes, by default 1, or for each axis
            a number or the coordinates of the samples.
        axis: along which axes: None for all, an integer or a tuple.
        edge_order: whether the ends are of first or second order.

    Returns:
        An array of f's shape, of its dtype where that is inexact and the distances are real; of
        several axes a tuple of them. Derivatives flow to f and to the
        distances.

    Raises:
        ShapeError: an axis has fewer than ``edge_order + 1`` elements, or coordinates do not fit.

    Source: B. Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids",
    Mathematics of Computation 51 (1988)

    >>> import functensor.numpy as np
    >>> np.gradient(np.array([1.0, 2.0, 4.0, 7.0]))
    Array([1. , 1.5, 2.5, 3. ], dtype=float64, device='cpu')
    """
    f, *distances = operands_together("gradient", f, *varargs)
    f = as_inexact(f)
    rank = len(f.shape)
    if isinstance(axis, tuple | list):
        axes = [canonical_axis(i, rank) for i in axis]
    else:
        axes = list(canonical_axes(axis, rank))
    order = operator.index(edge_order)
    if order not in (1, 2):
        raise ValueError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    spacings: list[float | Array] = [
        s if isinstance(s, int | float) else asarray(s) for s in distances or (1.0,)
    ]
    if len(spacings) == 1 and not _shape_of_spacing(spacings[0]):
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError(f"gradient: {len(spacings)} distances for {len(axes)} axes")
    out = []
    for i, h in zip(axes, spacings, strict=True):
        length = f.shape[i]
        if length <= order:
            raise misfit(
                f"gradient: axis {i} has {length} elements; edge_order={order} takes at least "
                f"{order + 1}",
                "np.gradient(x, axis=...), with the axes that are long enough",
            )
        shape = _shape_of_spacing(h)
        if not shape:
            out.append(_evenly_spaced_gradient(f, h, i, order))
        elif shape == (length,):
            out.append(_unevenly_spaced_gradient(f, as_inexact(h), i, order))
        else:
            raise misfit(
                f"gradient: coordinates of shape {shape} for axis {i}, {length} long",
                "np.gradient(x, coordinates, axis=...), with a coordinate for each slice",
            )
    # Distances do not decide the dtype, unless they are complex.
    out = [ops.astype(x, f.dtype) if x.dtype.kind != "c" else x for x in out]
    return out[0] if len(out) == 1 else tuple(out)


def _shape_of_spacing(h: float | Array) -> tuple[int, ...]:
    return () if isinstance(h, int | float) else tuple(h.shape)


@ops.add_function
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: ArrayLike = 2 * pi
) -> Array:
    """Returns angles with whole periods added, so that neighbours are less than half of one apart.

    Args:
        p: angles.
        discont: how far neighbours have to be apart to be changed; at least half a period.
        axis: along which axis.
        period: after which the angles come again.

    Returns:
        An array of p's shape, of the dtype to which p and the period promote; the derivative by p
        is 1.

    >>> import functensor.numpy as np
    >>> np.unwrap(np.array([0.0, 1.0, 5.0, 6.0]), period=4)
    Array([0., 1., 1., 2.], dtype=float64, device='cpu')
    """
    p = asarray(p)
    axis = canonical_axis(axis, len(p.shape))
    steps = diff(p, axis=axis)
    period = period if isinstance(period, int | float) else asarray(period)
    kind = result_type(steps.dtype, getattr(period, "dtype", period))
    if kind.kind in "iu":
        half, ambiguous = period // 2, period % 2 == 0
    else:
        half, ambiguous = period / 2, True
    wrapped = ops.subtract(ops.remainder(ops.add(steps, half), period), half)
    # Both ways around are equal here: the angle keeps its own.
    up = ops.logical_and(ops.equal(wrapped, -half), ops.greater(steps, 0))
    wrapped = ops.where(ops.logical_and(up, ambiguous), half, wrapped)
    limit = period / 2 if discont is None else discont
    moved = ops.where(ops.less(ops.abs(steps), limit), 0, ops.subtract(wrapped, steps))
    total = ops.cumsum(moved, axis)
    start = _slices_along(p, axis, None, 1)
    later = ops.add(_slices_along(p, axis, 1, None), total)
    return ops.astype(ops.concatenate([start, later], axis=axis), kind)
