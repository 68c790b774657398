"""PyTorch's functions that read images at any coordinates, and distances within a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors.functions.reductions import norm

__all__ = ["affine_grid", "grid_sample", "pdist"]


def pdist(input: Array, p: float = 2.0) -> Any:
    """Returns the distances of order ``p`` between all pairs of different rows of a matrix.

    >>> import functensor.torch as torch
    >>> torch.nn.functional.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [5.0]
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: a matrix, not the shape {tuple(input.shape)}")
    first, second = np.triu_indices(input.shape[0], 1)
    return norm(ops.take(input, first, 0) - ops.take(input, second, 0), p, -1)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Returns the coordinates of an image that affine maps take points to, for `grid_sample`.

    Args:
        theta: matrices of shape (batch, n, n + 1), for n = 2 or 3 spatial axes.
        size: the shape of the result of `grid_sample`: (batch, channels, ...).
        align_corners: whether -1 and 1 are the centres of pixels at the ends, not their outer ends.
    """
    lengths = tuple(size)[2:]
    n = len(lengths)
    if theta.shape[1:] != (n, n + 1):
        raise RuntimeError(f"affine_grid: theta of shape {theta.shape} and size={tuple(size)}")
    axes = []
    for length in lengths:
        places = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        axes.append(places if align_corners else places * (length - 1) / length)
    grids = np.meshgrid(*axes, indexing="ij")
    # The last axis of an image is the first coordinate.
    points = np.stack([*reversed(grids), np.ones(lengths)], -1).astype(theta.dtype)
    flat = beside(theta, points.reshape(-1, n + 1))
    out = ops.matmul(flat, ops.swapaxes(theta, -1, -2))
    return ops.reshape(out, (theta.shape[0], *lengths, n))


def reflected(x: Any, low: float, high: float) -> Any:
    """Returns coordinates that are reflected at two ends until they lie between them."""
    if low == high:
        return x * 0
    span = high - low
    far = ops.abs(x - low)
    times = ops.floor(far / span)
    rest = far - times * span
    return ops.where(times % 2 == 0, rest + low, span - rest + low)


def pixels(coordinate: Any, length: int, padding_mode: str, corners: bool) -> Any:
    """Returns where a coordinate between -1 and 1 lies among the pixels of an axis."""
    x = (coordinate + 1) / 2 * (length - 1) if corners else ((coordinate + 1) * length - 1) / 2
    return around(x, length, padding_mode, corners)


def around(x: Any, length: int, padding_mode: str, corners: bool) -> Any:
    """Returns places that are brought into an image, unless what is outside is zero.

    Of places at its ends, and of NaN, which becomes the first, the derivative is 0.
    """
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        x = reflected(x, 0, length - 1) if corners else reflected(x, -0.5, length - 0.5)
    fixed = ops.stop_gradient(x)
    limited = ops.where(ops.isnan(fixed), 0, ops.clip(fixed, 0, length - 1))
    return ops.where(ops.logical_and(fixed > 0, fixed < length - 1), x, limited)


def elements_at(x: Any, places: Sequence[Any]) -> Any:
    """Returns elements of images at integer places, zeros outside.

    ``x`` has the shape (batch, channels, ...), each of the places (batch, points).
    """
    lengths = x.shape[2:]
    within = [ops.logical_and(p >= 0, p <= length - 1) for p, length in zip(places, lengths)]
    inside: Any = True
    number: Any = 0
    for place, length, here in zip(places, lengths, within):
        inside = ops.logical_and(inside, here)
        # What is outside, NaN too, reads the first element, whatever its weight.
        number = number * length + ops.astype(ops.where(here, place, 0), np.dtype(np.int64))
    flat = ops.reshape(x, (*x.shape[:2], prod(lengths)))
    wide = ops.broadcast_to(number[:, None], (*x.shape[:2], number.shape[-1]))
    return ops.where(inside[:, None], ops.take_along_axis(flat, wide, -1), 0)


def cubic_weights(t: Any) -> list[Any]:
    """Returns the weights of four neighbours by the cubic of Keys, 1981, with a = -0.75."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((x - 5) * x + 8) * a * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(
    input: Array, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """Returns images at coordinates.

    Args:
        input: of shape (batch, channels, height, width), or with three spatial axes.
        grid: coordinates between -1 and 1, of shape (batch, ..., n), that of the last spatial axis
            first.
        mode: ``"bilinear"``, ``"nearest"``, or for two axes ``"bicubic"``.
        padding_mode: what lies outside: ``"zeros"``, ``"border"`` or ``"reflection"``.
        align_corners: whether -1 and 1 are the centres of pixels at the ends, not their outer ends.

    Raises:
        RuntimeError: the shapes do not fit.
        ValueError: there is no such mode.

    >>> import functensor.torch as torch
    >>> image = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2)).item()
    2.0
    """
    n = input.ndim - 2
    if n not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != n:
        raise RuntimeError(f"grid_sample: an input of shape {input.shape}, a grid of {grid.shape}")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and n == 3):
        raise ValueError(f"grid_sample: no mode {mode!r} for {n} axes")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: padding_mode is not {padding_mode!r}")
    corners = bool(align_corners)
    lengths = input.shape[2:]
    points = ops.reshape(grid, (grid.shape[0], prod(grid.shape[1:-1]), n))
    # What a cubic reads outside is brought into the image, not its centre.
    own = "zeros" if mode == "bicubic" else padding_mode
    xs = [pixels(points[..., n - 1 - i], lengths[i], own, corners) for i in range(n)]
    if mode == "nearest":
        found = elements_at(input, [ops.round(ops.stop_gradient(x)) for x in xs])
        # The grid has a gradient, of zeros.
        out = ops.where(False, sum(xs)[:, None], found)
    else:
        lows = [ops.floor(ops.stop_gradient(x)) for x in xs]
        if mode == "bicubic":
            weights = [cubic_weights(x - low) for x, low in zip(xs, lows)]
            steps = range(-1, 3)
        else:
            weights = [[low + 1 - x, x - low] for x, low in zip(xs, lows)]
            steps = range(2)
        out = 0
        for shifts in product(range(len(steps)), repeat=n):
            places = [low + steps[k] for low, k in zip(lows, shifts)]
            if mode == "bicubic":
                places = [
                    around(p, length, padding_mode, corners) for p, length in zip(places, lengths)
                ]
            weight: Any = 1
            for each, k in zip(weights, shifts):
                weight = weight * each[k]
            out = out + elements_at(input, places) * weight[:, None]
    return ops.reshape(out, (*input.shape[:2], *grid.shape[1:-1]))
