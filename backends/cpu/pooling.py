"""Pooling on the CPU: a few whole-array operations for each place in the window.

Results keep the order of their operands' axes in memory, so that the channels-last arrays of
convolution stay fast. Winners are chosen by arithmetic on masks: NumPy's masked copies take
ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import row_blocks
from .parallel import side_by_side

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape, WindowsLike

__all__ = ["avg_pool", "avg_pool_grad", "max_pool", "max_pool_argmax", "pool_scatter", "pool_take"]

# Images are pooled in twice as many elements as other work is done in.
BLOCKS_OF_IMAGES = 2


def max_pool(x: Buffer, *, windows: WindowsLike) -> Buffer:
    """Returns the maximum of every window of x (N, C, *spatial)."""
    given, x = x, padded_with(x, windows, lowest(x.dtype))
    parts = blocks_of_images(x)
    if len(parts) < 2:
        out = reduced_windows(np.maximum, x, windows)
        # For windows of one element it may be the operand, or a part of it.
        return out.copy("K") if np.may_share_memory(out, given) else out
    sizes = zip(x.shape[2:], windows.window, windows.stride)
    out = np.empty_like(x, shape=(*x.shape[:2], *((n - k) // s + 1 for n, k, s in sizes)))

    def fill(blocks: Iterable[slice]) -> None:
        for many in blocks:
            np.copyto(out[many], reduced_windows(np.maximum, x[many], windows))

    side_by_side(fill, parts)
    return out


def max_pool_argmax(x: Buffer, *, windows: WindowsLike) -> Buffer:
    """Returns the number of the first place in every window that has the maximum, or is NaN."""
    x = padded_with(x, windows, lowest(x.dtype))
    dtype = np.min_scalar_type(-prod(windows.window))
    first, *others = every_place(windows, x.shape)
    winner = np.zeros_like(x[first], dtype)

    def fill(blocks: Iterable[slice]) -> None:
        for many in blocks:
            values, won = x[many], winner[many]
            best = values[first]
            for number, place in enumerate(others, 1):
                # Numbers grow: the last place that was better than all before it wins.
                better = (values[place] > best).view(np.int8)
                np.maximum(won, np.multiply(better, number, dtype=dtype), out=won)
                best = np.maximum(best, values[place])
            if best.dtype.kind not in "biu" and np.isnan(best).any():
                for number, place in reversed([*enumerate(others, 1)]):
                    won[np.isnan(values[place])] = number
                won[np.isnan(values[first])] = 0

    side_by_side(fill, blocks_of_images(x))
    return winner


def pool_take(x: Buffer, winner: Buffer, *, windows: WindowsLike) -> Buffer:
    """Returns of every window of x the element at the place that has won."""
    x = padded_with(x, windows, 0)
    first, *others = every_place(windows, x.shape)
    out = masked(x[first], winner == 0)
    for number, place in enumerate(others, 1):
        np.add(out, masked(x[place], winner == number), out=out)
    return out


def pool_scatter(g: Buffer, winner: Buffer, *, spatial: Shape, windows: WindowsLike) -> Buffer:
    """Adds a value for every window to the element at the place that has won."""
    full = padded_lengths(spatial, windows)
    g = ordered_like(g, winner)
    overlap = any(s < k for k, s in zip(windows.window, windows.stride))
    tiled = not overlap and all(
        n == k * count for n, k, count in zip(full, windows.window, g.shape[2:])
    )
    out = np.empty_like(g, shape=(*g.shape[:2], *full))

    def fill(blocks: Iterable[slice]) -> None:
        for many in blocks:
            values, won, into = g[many], winner[many], out[many]
            if not tiled:
                into[...] = 0
            part = np.empty_like(values) if overlap else None
            for number, place in enumerate(every_place(windows, out.shape)):
                if overlap:
                    into[place] += masked(values, won == number, part)
                else:
                    masked(values, won == number, into[place])

    side_by_side(fill, blocks_of_images(out))
    return cropped(out, spatial, windows)


def avg_pool(x: Buffer, *, windows: WindowsLike, count_include_pad: bool) -> Any:
    """Returns the mean of every window of x (N, C, *spatial)."""
    spatial = x.shape[2:]
    if x.dtype.kind in "?biu":
        x = x.astype(np.float64)
    x = reduced_windows(np.add, padded_with(x, windows, 0), windows)
    return averaged(x, spatial, windows, count_include_pad)


def avg_pool_grad(
    g: Buffer, *, spatial: Shape, windows: WindowsLike, count_include_pad: bool
) -> Buffer:
    """Transposes ``avg_pool``: every window spreads its value over its elements."""
    g = averaged(g, spatial, windows, count_include_pad)
    for axis, (n, k, s) in enumerate(
        zip(padded_lengths(spatial, windows), windows.window, windows.stride), 2
    ):
        out = np.zeros_like(g, shape=(*g.shape[:axis], n, *g.shape[axis + 1 :]))
        for place in places_along(axis, n, k, s):
            if s < k:
                out[place] += g
            else:
                out[place] = g
        g = out
    return cropped(g, spatial, windows)


def blocks_of_images(x: Buffer) -> list[slice]:
    """Returns slices of images that are pooled together: their elements stay in the cache."""
    return list(row_blocks(len(x), x.size // BLOCKS_OF_IMAGES // max(len(x), 1)))


# -- places


def places_along(axis: int, length: int, window: int, stride: int) -> list[tuple[slice, ...]]:
    """Returns for every place in a window the key of the elements that are there in any window."""
    last = (length - window) // stride * stride + 1
    return [(slice(None),) * axis + (slice(i, i + last, stride),) for i in range(window)]


def every_place(windows: WindowsLike, shape: Shape) -> Iterator[tuple[slice, ...]]:
    """Yields the key of every place in a window over all spatial axes, in C order."""
    sizes = zip(shape[2:], windows.window, windows.stride)
    keys = [[key[-1] for key in places_along(0, *size)] for size in sizes]
    return ((slice(None), slice(None), *key) for key in product(*keys))


def reduced_windows(ufunc: np.ufunc, x: Buffer, windows: WindowsLike) -> Buffer:
    """Reduces windows by a ufunc, one axis after the other."""
    for axis, (k, s) in enumerate(zip(windows.window, windows.stride), 2):
        first, *others = places_along(axis, x.shape[axis], k, s)
        out = x[first]
        for number, place in enumerate(others):
            out = ufunc(out, x[place], out=out if number else None)
        x = out
    return x


# -- padding


def padded_lengths(spatial: Shape, windows: WindowsLike) -> list[int]:
    """Returns the lengths of the spatial axes with their padding."""
    return [n + lo + hi for n, (lo, hi) in zip(spatial, windows.padding)]


def inner(spatial: Shape, windows: WindowsLike) -> tuple[slice, ...]:
    """Returns the key of the elements inside of the padding."""
    spans = (slice(lo, lo + n) for n, (lo, _) in zip(spatial, windows.padding))
    return slice(None), slice(None), *spans


def padded_with(x: Buffer, windows: WindowsLike, value: float) -> Buffer:
    """Returns x with a value around."""
    if not any(map(any, windows.padding)):
        return x
    out = np.full_like(x, value, shape=(*x.shape[:2], *padded_lengths(x.shape[2:], windows)))
    out[inner(x.shape[2:], windows)] = x
    return out


def cropped(out: Buffer, spatial: Shape, windows: WindowsLike) -> Buffer:
    """Returns an array without its padding."""
    return out[inner(spatial, windows)] if any(map(any, windows.padding)) else out


def lowest(dtype: DType) -> float:
    """Returns the smallest value of a dtype."""
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def averaged(x: Buffer, spatial: Shape, windows: WindowsLike, count_include_pad: bool) -> Any:
    """Divides by the number of elements in each window, with or without those of the padding."""
    if count_include_pad or not any(map(any, windows.padding)):
        return x / prod(windows.window)
    for axis, (n, k, s, (lo, _)) in enumerate(
        zip(spatial, windows.window, windows.stride, windows.padding), 2
    ):
        start = np.arange(x.shape[axis]) * s
        inside = np.minimum(start + k, lo + n) - np.maximum(start, lo)
        x = x / inside.astype(x.real.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return x


# -- masks


def masked(values: Buffer, mask: Buffer, out: Buffer | None = None) -> Buffer:
    """Returns the values where a mask holds and zero elsewhere, also for infinite values."""
    if out is None:
        out = np.empty_like(values)
    if values.dtype.itemsize > 8:
        out[...] = 0
        np.copyto(out, values, where=mask)
    else:
        bits = f"i{values.dtype.itemsize}"
        np.bitwise_and(values.view(bits), np.negative(mask.view(np.int8)), out=out.view(bits))
    return out


def ordered_like(g: Buffer, like: Buffer) -> Buffer:
    """Returns g with its axes in memory in the order of another array's."""
    out = np.empty_like(like, g.dtype)
    if out.strides == g.strides:
        return g
    np.copyto(out, g)
    return out
