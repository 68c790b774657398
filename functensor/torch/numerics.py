"""Functions of PyTorch that integrate, differentiate, count, or make windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named as dtype_named
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import canonical_axis
from ..tensors import Tensor, tensor_over
from ..tensors.buffers import check_holds
from ..tensors.default_dtypes import TENSOR_DTYPES
from ..tensors.functions.naming import as_floats, as_tensor_result, on_host, with_words
from ..tensors.functions.shapes import narrow
from .creation import made

__all__ = [
    "Histogram", "HistogramDD", "bartlett_window", "blackman_window", "can_cast",
    "cumulative_trapezoid", "fill", "frobenius_norm", "from_dlpack", "frombuffer", "gradient",
    "hamming_window", "hann_window", "histogram", "histogramdd", "kaiser_window",
    "norm_except_dim", "nuclear_norm", "rsub", "vander",
]  # fmt: skip


class Histogram(NamedTuple):
    """Counts, and the edges of the intervals."""

    hist: Any
    bin_edges: Any


class HistogramDD(NamedTuple):
    """Counts in boxes, and the edges along each axis."""

    hist: Any
    bin_edges: Any


def fill(input: Array, value: Any) -> Any:
    """Returns a tensor of one number, of the shape and dtype of another."""
    if not isinstance(value, Array):
        check_holds(np.asarray(value), input.dtype)
    wide = ops.broadcast_to(ops.to_device(value, input.device), input.shape)
    return as_tensor_result(ops.astype(wide, input.dtype))


def rsub(input: Array, other: Any, *, alpha: float = 1) -> Any:
    """Returns ``other - alpha * input``."""
    return other - (input if alpha == 1 else alpha * input)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Returns the matrix of powers of a vector's elements, the highest first by default."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: a vector, not the shape {tuple(x.shape)}")
    x = ops.astype(x, np.dtype(np.int64)) if x.dtype.kind in "iub" else x
    count = x.shape[0] if N is None else N
    powers = [x**i for i in range(count)]
    if not count:
        return as_tensor_result(wrap(beside(x, np.zeros((x.shape[0], 0), x.dtype))))
    return ops.stack(powers if increasing else powers[::-1], 1)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Returns integrals up to every place of an axis but the first, by the trapezoidal rule."""
    length = y.shape[dim]
    pairs = narrow(y, dim, 1, length - 1) + narrow(y, dim, 0, length - 1)
    if x is None:
        areas = pairs * (dx / 2)
    else:
        steps = x[..., 1:] - x[..., :-1]
        if x.ndim == 1:
            after = y.ndim - 1 - canonical_axis(dim, y.ndim)
            areas = pairs * ops.reshape(steps, (-1, *(1,) * after)) / 2
        else:
            areas = pairs * (narrow(x, dim, 1, length - 1) - narrow(x, dim, 0, length - 1)) / 2
    return ops.cumsum(areas, dim)


def slopes(x: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    """Returns the slopes along an axis, at places of a distance, or at given coordinates."""
    n = x.shape[axis]
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    if n < edge_order + 1:
        raise RuntimeError(f"gradient: {edge_order + 1} places along an axis at least, not {n}")
    after = (1,) * (x.ndim - 1 - axis)
    even = not hasattr(spacing, "shape") or not spacing.shape
    places = on_host(spacing) if hasattr(spacing, "device") else np.asarray(spacing)
    steps = np.full(n - 1, places, np.float64) if even else np.diff(places.astype(np.float64))
    left, right = steps[:-1], steps[1:]

    def part(a: int, b: int) -> Any:
        return narrow(x, axis, a, b - a)

    def times(weights: Any, values: Any) -> Any:
        column = np.asarray(weights, np.float64).reshape(-1, *after).astype(x.dtype)
        return values * beside(values, column)

    if even:
        inner = times(0.5 / left, part(2, n) - part(0, n - 2))
    else:
        inner = times(-right / (left * (left + right)), part(0, n - 2))
        inner = inner + times((right - left) / (left * right), part(1, n - 1))
        inner = inner + times(left / (right * (left + right)), part(2, n))
    if edge_order == 1:
        first = times([1 / steps[0]], part(1, 2) - part(0, 1))
        last = times([1 / steps[-1]], part(n - 1, n) - part(n - 2, n - 1))
    else:
        a, b = steps[0], steps[1]
        first = times([-(2 * a + b) / (a * (a + b))], part(0, 1))
        first = first + times([(a + b) / (a * b)], part(1, 2))
        first = first + times([-a / (b * (a + b))], part(2, 3))
        a, b = steps[-2], steps[-1]
        last = times([b / (a * (a + b))], part(n - 3, n - 2))
        last = last + times([-(a + b) / (a * b)], part(n - 2, n - 1))
        last = last + times([(2 * b + a) / (b * (a + b))], part(n - 1, n))
    return ops.concatenate([first, inner, last], axis)


def gradient(
    input: Array, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Array, ...]:
    """Returns the slopes of values along axes, by differences of second order.

    Args:
        input: the values.
        spacing: the distance of places, or for every axis a distance or the coordinates.
        dim: the axes; by default all.
        edge_order: the order of the differences at the ends: 1 or 2.

    Raises:
        RuntimeError: an axis is too short, or ``spacing`` has another number of axes.

    >>> import functensor.torch as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0]))[0].tolist()
    [3.0, 4.0, 5.0]
    """
    input = as_floats(input)
    axes = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [canonical_axis(axis, input.ndim) for axis in axes]
    each = spacing if isinstance(spacing, tuple | list) else [spacing] * len(axes)
    if len(each) != len(axes):
        raise RuntimeError(f"gradient: {len(each)} spacings for {len(axes)} axes")
    return tuple([slopes(input, axis, space, edge_order) for axis, space in zip(axes, each)])


def histogram(
    input: Array, bins: Any = 100, *, range: Sequence[float] | None = None, weight: Any = None,
    density: bool = False,
) -> Histogram:  # fmt: skip
    """Returns how many elements lie in intervals, and the edges of these.

    Args:
        input: floats.
        bins: the number of intervals, or their edges.
        range: the first and the last edge; by default the extremes of the elements.
        weight: what every element counts.
        density: whether the result is a density of probability.
    """
    where = bins if isinstance(bins, int) else on_host(bins)
    weights = None if weight is None else on_host(weight).reshape(-1)
    values = on_host(input).reshape(-1)
    limits = None if range is None else (range[0], range[1])
    counts, edges = np.histogram(values, where, limits, density, weights)
    return Histogram(*(made(x.astype(values.dtype), None, input.device, False)
                       for x in (counts, edges)))  # fmt: skip


def histogramdd(
    input: Array, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None,
    density: bool = False,
) -> HistogramDD:  # fmt: skip
    """Returns how many rows lie in boxes, and the edges of these along each axis.

    Args:
        input: rows of coordinates.
        bins: the number of intervals, one for each axis, or their edges.
        range: the first and the last edge of every axis, one behind the other.
        weight: what every row counts.
        density: whether the result is a density of probability.
    """
    values = on_host(input)
    rows = values.reshape(-1, values.shape[-1])
    where: Any = bins if isinstance(bins, int) else [
        x if isinstance(x, int) else on_host(x) for x in bins
    ]  # fmt: skip
    limits = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    weights = None if weight is None else on_host(weight).reshape(-1)
    counts, edges = np.histogramdd(rows, where, limits, density, weights)
    tensors = [made(x.astype(values.dtype), None, input.device, False) for x in (counts, *edges)]
    return HistogramDD(tensors[0], tuple(tensors[1:]))


# -- norms


def frobenius_norm(input: Array, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the square root of the sum of squares over axes, by default over all."""
    axes = (dim,) if isinstance(dim, int) else tuple(dim)
    squares = ops.abs(input) ** 2
    return ops.sqrt(ops.sum(squares, axes or None, keepdims=keepdim))


def nuclear_norm(input: Array, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Any:
    """Returns the sums of the singular values of matrices."""
    from .linalg import matrix_norm

    return matrix_norm(input, "nuc", dim, keepdim)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Returns the norms over all axes but one."""
    if dim == -1:
        return ops.sum(ops.abs(v) ** pow) ** (1 / pow)
    axes = tuple([i for i in range(v.ndim) if i != canonical_axis(dim, v.ndim)])
    return ops.sum(ops.abs(v) ** pow, axes, keepdims=True) ** (1 / pow)


# -- windows


def window(name: str, formula: Callable[..., Any], what: str, **options: float) -> Any:
    """Returns the function that makes a window: a period, or with an end like its beginning."""

    def function(
        window_length: int, periodic: bool = True, *args: float, dtype: DTypeLike | None = None,
        device: str | None = None, requires_grad: bool = False, **more: float,
    ) -> Tensor:  # fmt: skip
        given = {**options, **dict(zip(options, args)), **more}
        wanted = TENSOR_DTYPES["f"] if dtype is None else dtype_named(dtype)
        if window_length <= 1:
            values = np.ones(window_length)
        else:
            places = np.arange(window_length) / (window_length - (not periodic))
            values = formula(places, **given)
        return made(values.astype(wanted), None, device, requires_grad)

    return with_words(function, name, f"Returns {what}; float32 by default.")


def cosine_sum(x: Any, alpha: float, beta: float) -> Any:
    """Returns the window of Hann or Hamming."""
    return alpha - beta * np.cos(2 * pi * x)


def kaiser(x: Any, beta: float) -> Any:
    """Returns the window of Kaiser."""
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))) / np.i0(beta)


hann_window = window("hann_window", lambda x: cosine_sum(x, 0.5, 0.5), "a window of Hann")
hamming_window = window(
    "hamming_window", cosine_sum, "a window of Hamming: ``alpha - beta * cos``",
    alpha=0.54, beta=0.46,
)  # fmt: skip
blackman_window = window(
    "blackman_window", lambda x: 0.42 - 0.5 * np.cos(2 * pi * x) + 0.08 * np.cos(4 * pi * x),
    "a window of Blackman",
)  # fmt: skip
bartlett_window = window(
    "bartlett_window", lambda x: 1 - np.abs(2 * x - 1), "a triangular window"
)
kaiser_window = window("kaiser_window", kaiser, "a window of Kaiser", beta=12.0)


# -- dtypes and memory


def can_cast(from_: Any, to: Any) -> bool:
    """Says whether a cast keeps the kind: no floats to integers, nothing to booleans."""
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    return order[dtype_named(from_).kind] <= order[dtype_named(to).kind]


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Returns a vector of the numbers that lie in bytes; a copy where the bytes are read-only."""
    out = tensor_over(np.frombuffer(buffer, dtype_named(dtype), count, offset))
    return out.requires_grad_() if requires_grad else out


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Returns a tensor in the memory of another, or of another library's array.

    What is read-only is copied.
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    return tensor_over(np.from_dlpack(ext_tensor))
