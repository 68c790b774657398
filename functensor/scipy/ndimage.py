"""SciPy's ``ndimage``: interpolation of an array at any places."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..backends.annotations import Buffer, DType, DTypeLike
from ..faces.publish import publish
from ..numpy import fft
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.shape_dtype import INEXACT, REAL, finfo, result_type

__all__ = ["map_coordinates"]

BOUNDARY_MODES = (
    "constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "wrap", "grid-wrap",
)  # fmt: skip
# The extensions of the array by which splines are defined; other modes have "mirror".
EXTENSIONS = {
    "nearest": "reflect", "reflect": "reflect", "grid-mirror": "reflect", "grid-wrap": "wrap",
}  # fmt: skip
# SciPy extends an array by so many elements before it finds a spline with such an edge.
EXTENSION_ELEMENTS = 12

ArrayOrFloat = TypeVar("ArrayOrFloat", Array, float)


def _spline_basis(t: ArrayOrFloat, order: int) -> list[ArrayOrFloat]:
    """Returns the values of the ``order + 1`` splines that are not zero at a fraction of a cell.

    Source: C. de Boor, "On calculating with B-splines", 1972: the recurrence for knots one apart.
    """
    values = [t * 0 + 1]
    for k in range(1, order + 1):
        carried = t * 0
        grown: list[ArrayOrFloat] = []
        for r, value in enumerate(values):
            share = value / k
            grown.append(carried + (r + 1 - t) * share)
            carried = (t + (k - r - 1)) * share
        grown.append(carried)
        values = grown
    return values


def _extended_index(i: Array | Buffer, n: int, extension: str) -> Array:
    """Returns the index of the element that an extended array has at an index."""
    if n == 1:
        return ops.multiply(i, 0)
    if extension == "wrap":
        return ops.remainder(i, n)
    # A mirror at the edge's elements does not repeat them, one at their far sides does.
    period, last = (2 * n - 2, 2 * n - 2) if extension == "mirror" else (2 * n, 2 * n - 1)
    i = ops.remainder(i, period)
    return ops.where(ops.less(i, n), i, ops.subtract(last, i))


def _spline_coefficients(x: Array, order: int, axis: int, extension: str) -> Array:
    """Returns the coefficients of the spline through the elements along an axis.

    The extended array is periodic. It is the circular convolution of its coefficients with the
    splines' values at whole places, which are symmetric: a division of spectra undoes it.
    """
    n = x.shape[axis]
    if n == 1:
        return x
    period = {"mirror": 2 * n - 2, "reflect": 2 * n, "wrap": n}[extension]
    taps = np.zeros(period)
    places = (np.arange(order + 1) - order // 2) % period
    np.add.at(taps, places, _spline_basis(0.0 if order % 2 else 0.5, order))
    spectrum = np.fft.fft(taps).real.astype(finfo(x.dtype).dtype)
    spectrum = beside(x, spectrum.reshape(-1, *(1,) * (len(x.shape) - axis - 1)))
    whole = ops.take(x, _extended_index(beside(x, np.arange(period)), n, extension), axis)
    if x.dtype.kind == "c":
        whole = fft.ifft(fft.fft(whole, axis=axis) / spectrum, axis=axis)
    else:
        half = spectrum[: period // 2 + 1]
        whole = fft.irfft(fft.rfft(whole, axis=axis) / half, period, axis)
    return ops.index(whole, (*(slice(None),) * axis, slice(n)))


def _wrapped_coordinate(c: Array, n: int) -> Array:
    """Returns coordinates in mode "wrap", whose period is the distance of the outer elements."""
    if n == 1:
        return ops.multiply(c, 0)
    period = n - 1
    below = c + period * (ops.trunc(-c / period) + 1)
    above = c - period * ops.trunc(c / period)
    return ops.where(ops.less(c, 0), below, ops.where(ops.greater(c, period), above, c))


def _spline_weights(
    x: Array, c: Array, order: int, mode: str, axis: int
) -> tuple[Array, Array, Array | None]:
    """Returns the indices and weights of coefficients along an axis, for a coordinate of places.

    Both have an axis of ``order + 1`` in front. Modes with constants have a third result: which
    indices are inside.
    """
    n = x.shape[axis]
    if mode == "wrap":
        c = _wrapped_coordinate(c, n)
    elif mode == "nearest":
        c = ops.clip(c, 0, n - 1)
    shift = 0.0 if order % 2 else 0.5
    below = ops.floor(ops.stop_gradient(c) + shift)
    weights = ops.stack(_spline_basis(c + shift - below, order))
    # A coordinate that is not finite has weights of NaN, and any index.
    first = ops.astype(ops.where(ops.isfinite(below), below, 0), np.int64)
    offsets = (np.arange(order + 1) - order // 2).reshape(-1, *(1,) * len(c.shape))
    indices = ops.add(first, beside(x, offsets))
    inside = None
    if mode == "grid-constant":
        inside = ops.logical_and(ops.greater_equal(indices, 0), ops.less(indices, n))
        indices = ops.clip(indices, 0, n - 1)
    return _extended_index(indices, n, EXTENSIONS.get(mode, "mirror")), weights, inside


def _as_output(values: Array, dtype: DType) -> Array:
    """Returns values in the dtype of the output: those of integers are rounded, halves up."""
    if dtype.kind in "iu":
        halves = ops.where(ops.less(values, 0), -0.5, 0.5)
        values = ops.trunc(values + halves)
        if dtype.kind == "u":
            values = ops.maximum(values, 0)
    return ops.astype(values, dtype)


def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Returns values of an array between its elements, by splines.

    Derivatives flow to the array, to the coordinates and to ``cval``. By coordinates, those of
    order 0 are zero, and those of order 1 jump where a coordinate is whole.

    Args:
        input: a real or complex array of n axes.
        coordinates: an array of shape (n, ...), or a list of n: for every place its coordinates,
            counted in elements.
        output: the result's dtype; by default that of ``input``, to which values are rounded if
            it is an integer's.
        order: the degree of the splines: 0 takes the nearest element, 1 is linear, 3 cubic.
        mode: the values beyond the edges: "constant" (``cval``), "grid-constant" (elements of
            ``cval``), "nearest" (the last element), "mirror" (at the last element), "reflect" or
            "grid-mirror" (at its far side), "wrap" (the first element lies on the last),
            "grid-wrap" (the first element follows the last).
        cval: the value beyond the edges.
        prefilter: whether to find the spline through the elements, for an order above 1; False if
            ``input`` has its coefficients already.

    Returns:
        An array of the shape of one coordinate.

    Raises:
        ValueError: the coordinates do not fit the array, or there is no such mode or order.
        TypeError: coordinates are complex, or ``output`` is an array.

    Source: M. Unser, "Splines: a perfect fit for signal and image processing", 1999.

    >>> import functensor as ft, functensor.numpy as np
    >>> x = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> ft.scipy.ndimage.map_coordinates(x, [[0.5, 1.0], [0.5, 0.25]], order=1)
    Array([1.5 , 2.25], dtype=float64, device='cpu')
    """
    x = asarray(input)
    if isinstance(coordinates, list | tuple):
        coordinates = ops.stack(ops.broadcast_arrays(*map(asarray, coordinates)))
    places = asarray(coordinates)
    if mode not in BOUNDARY_MODES:
        raise ValueError(f"map_coordinates: mode={mode!r}: modes are {', '.join(BOUNDARY_MODES)}")
    if order not in range(6):
        raise ValueError(f"map_coordinates: order={order!r}: splines of orders 0 to 5 are known")
    if not x.shape or not places.shape or places.shape[0] != len(x.shape):
        raise ValueError(
            f"map_coordinates: coordinates of shape {places.shape} for an array of shape "
            f"{x.shape}: give one coordinate for each of at least one axis, coordinates[axis]"
        )
    if 0 in x.shape:
        raise ValueError(f"map_coordinates: the array, of shape {x.shape}, has no elements")
    if places.dtype.kind == "c":
        raise TypeError("map_coordinates: coordinates are real numbers, not complex ones")
    if hasattr(output, "shape"):
        raise TypeError("map_coordinates: arrays are immutable; output= takes a dtype")
    dtype = np.dtype(x.dtype if output is None else output)
    kind = result_type(x.dtype if x.dtype.kind in INEXACT else np.float64, np.float32)
    real = finfo(kind).dtype
    if places.dtype.kind in REAL:
        real = result_type(places.dtype, real)
    places = ops.astype(places, real)
    values, outside = ops.astype(x, kind), None
    if mode == "constant":
        lengths = np.array(x.shape).reshape(-1, *(1,) * (len(places.shape) - 1))
        last = beside(places, lengths - 1)
        beyond = ops.logical_or(ops.less(places, 0), ops.greater(places, last))
        outside = ops.any(beyond, axis=0)
    if order > 1 and prefilter:
        values, moved = _splined(values, order, mode, cval)
        places = places + moved
    return _as_output(_interpolated(values, places, order, mode, cval, outside), dtype)


def _splined(x: Array, order: int, mode: str, cval: ArrayLike) -> tuple[Array, int]:
    """Returns a spline's coefficients and by how many elements the array was extended."""
    moved = 0
    if mode in ("nearest", "grid-constant"):
        moved = EXTENSION_ELEMENTS
        index = [np.clip(np.arange(-moved, n + moved), 0, n - 1) for n in x.shape]
        inner = np.zeros([n + 2 * moved for n in x.shape], bool)
        inner[tuple(slice(moved, moved + n) for n in x.shape)] = True
        x = ops.index(x, np.ix_(*index))
        if mode == "grid-constant":
            x = ops.where(beside(x, inner), x, cval)
    for axis in range(len(x.shape)):
        x = _spline_coefficients(x, order, axis, EXTENSIONS.get(mode, "mirror"))
    return x, moved


def _interpolated(
    x: Array, places: Array, order: int, mode: str, cval: ArrayLike, outside: Array | None
) -> Array:
    """Returns the weighted sums of coefficients around places."""
    ndim = len(x.shape)
    spread = len(places.shape) - 1
    parts = [_spline_weights(x, places[axis], order, mode, axis) for axis in range(ndim)]

    def apart(v: Array, axis: int) -> Array:
        """Puts the first axis, of the coefficients along one axis, among those of the others."""
        ones = [1] * ndim
        ones[axis] = order + 1
        return ops.reshape(v, (*ones, *v.shape[1:]))

    key = tuple(apart(indices, axis) for axis, (indices, _, _) in enumerate(parts))
    values = ops.index(x, key)
    for axis, (_, _, inside) in enumerate(parts):
        if inside is not None:
            values = ops.where(apart(inside, axis), values, cval)
    for _, weights, _ in parts:
        more = len(values.shape) - spread - 1
        weights = ops.reshape(weights, (order + 1, *(1,) * more, *weights.shape[1:]))
        values = ops.sum(values * weights, axis=0)
    return values if outside is None else ops.where(outside, cval, values)


publish(globals())
