"""Shapes and strides of arrays as numbers, for all modules of the CUDA backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cupy

    from ..annotations import Shape

__all__ = ["common_stride", "merged_axes", "strides_of", "strides_without_gaps"]


def strides_of(x: cupy.ndarray) -> Shape:
    """Returns an array's strides in elements."""
    size = x.dtype.itemsize
    return tuple([stride // size for stride in x.strides])


def strides_without_gaps(shape: Sequence[int], channels_last: bool = False) -> Shape:
    """Returns the strides of an array without gaps, in elements; channels are the second axis."""
    order = [0, *range(2, len(shape)), 1] if channels_last else range(len(shape))
    out = [0] * len(shape)
    stride = 1
    for axis in reversed(order):
        out[axis] = stride
        stride *= shape[axis]
    return tuple(out)


def common_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Returns the one stride of several axes as a single axis; None where it varies."""
    found = 0
    length = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n == 1:
            continue
        if length == 1:
            found = stride
        elif stride != found * length:
            return None
        length *= n
    return found


def merged_axes(axes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Returns axes, each a length and strides, with those made one that are one in memory."""
    out: list[tuple[int, ...]] = []
    for length, *strides in axes:
        if length == 1:
            continue
        if out and all(b == s * length for b, s in zip(out[-1][1:], strides)):
            out[-1] = (out[-1][0] * length, *strides)
        else:
            out.append((length, *strides))
    return out
