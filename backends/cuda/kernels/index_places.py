"""The places of ``x[key]`` in memory, in the one form that kernels know.

That form is three axes with one stride each: outer ones, those of the index arrays, inner ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Buffer, DType, Shape
from ..capturing import copied_once, kept_by_graph
from ..launch import BLOCK_THREADS, Kernel
from ..strides import merged_axes, strides_of

if TYPE_CHECKING:
    from ...annotations import KeyLike

__all__ = [
    "CODES", "IndexedPlaces", "Pointer", "broadcast", "key_on_device", "located", "pointed",
    "rows_grid", "uploaded",
]  # fmt: skip

# The numbers of index arrays' dtypes in kernels. Indices of 2^63 and more do not occur.
CODES = {"int64": 0, "uint64": 0, "int32": 1, "int16": 2, "int8": 3, "uint32": 4, "uint16": 5,
         "uint8": 6}
# Longer than every axis.
ENDLESS = 1 << 62
# The index arrays, and the axes of each, that the kernel takes at once.
MOST_INDEX_ARRAYS = MOST_INDEX_AXES = 3
# Host arrays of up to so many bytes stay on the device: training brings the same ones every step.
MOST_REMEMBERED_BYTES = 1 << 16

COMBINE = Kernel("index_places", "combine", "plll" + "pllllll" * MOST_INDEX_ARRAYS)


class IndexedPlaces(NamedTuple):
    """The elements of ``x[key]`` and the values that belong to them.

    Attributes:
        offset: where in x the first one lies, in elements, were all indices zero.
        outer, inner: length, stride in x, stride in the values of the axes before and after.
        total, step: how many places the index arrays name, and their stride in the values.
        axes: length and stride of every axis that is indexed.
        advanced: the shape to which the index arrays broadcast.
        shape: that of the elements.
    """

    offset: int
    outer: tuple[int, int, int]
    total: int
    step: int
    inner: tuple[int, int, int]
    axes: tuple[tuple[int, int], ...]
    advanced: Shape
    shape: Shape


class Pointer(NamedTuple):
    """One index array as kernels take it; ``limit`` is one more than the largest place in it."""

    data: ndarray
    code: int
    step: int
    length: int
    stride: int
    limit: int


def single(axes: Iterable[tuple[int, ...]], rank: int) -> Any:
    """Returns axes as one with ``rank`` numbers; None where that takes several."""
    rest = merged_axes(axes)
    return None if len(rest) > 1 else rest[0] if rest else (1, *(0,) * (rank - 1))


def taken_apart(
    native: Sequence[Any], shape: Shape, strides: Shape
) -> tuple[int, list[tuple[int, int]], list[tuple[int, int]], int]:
    """Applies a key but for its index arrays.

    Returns the offset, length and stride of the axes that slices leave and of those that index
    arrays index, and before which of the first the axes of index arrays stand, by NumPy's rule.
    """
    offset, axis, place, left = 0, 0, -1, False
    others: list[tuple[int, int]] = []
    indexed: list[tuple[int, int]] = []
    taken = sum(item is not None and item is not Ellipsis for item in native)
    if taken > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {taken} were "
            "indexed"
        )
    for item in native:
        if item is None:
            others.append((1, 0))
        elif item is Ellipsis:
            end = axis + len(shape) - taken
            others.extend(zip(shape[axis:end], strides[axis:end]))
            axis = end
        elif type(item) is slice:
            start, stop, step = item.indices(shape[axis])
            length = len(range(start, stop, step))
            offset += start * strides[axis] if length else 0
            others.append((length, strides[axis] * step))
            axis += 1
        else:
            if type(item) is int:
                if not -shape[axis] <= item < shape[axis]:
                    raise IndexError(
                        f"index {item} is out of bounds for axis {axis} with size {shape[axis]}"
                    )
                offset += (item + shape[axis] if item < 0 else item) * strides[axis]
            else:
                indexed.append((shape[axis], strides[axis]))
            axis += 1
            place = len(others) if place < 0 else 0 if left else place
            continue
        left = place >= 0
    others.extend(zip(shape[axis:], strides[axis:]))
    return offset, others, indexed, max(place, 0)


@lru_cache(maxsize=4096)
def located(
    key: KeyLike, shape: Shape, strides: Shape, advanced: Shape, values: Shape | None = None,
    value_strides: Shape = (),
) -> IndexedPlaces | None:
    """Returns where elements lie; None where they do not have the form that kernels know.

    Args:
        key: the key, with index arrays.
        shape, strides: the array's.
        advanced: the shape to which the index arrays broadcast.
        values, value_strides: the shape and strides of the elements' values, which broadcast;
            C-contiguous by default.
    """
    offset, others, axes, place = taken_apart(key.native, shape, strides)
    lengths = (*[n for n, _ in others[:place]], *advanced, *[n for n, _ in others[place:]])
    if 0 not in advanced and any(not length for length, _ in axes):
        raise IndexError("an index is out of bounds for an axis with size 0")
    if values is None:
        beside = [prod(lengths[i + 1 :]) for i in range(len(lengths))]
    else:
        missing = len(lengths) - len(values)
        beside = [0] * missing + [0 if n == 1 else s for n, s in zip(values, value_strides)]
    rank = len(advanced)
    before = single([(*a, s) for a, s in zip(others[:place], beside)], 3)
    step = single(zip(advanced, beside[place:]), 2)
    after = single([(*a, s) for a, s in zip(others[place:], beside[place + rank :])], 3)
    if before is None or step is None or after is None:
        return None
    count, beside_count = step
    return IndexedPlaces(offset, before, count, beside_count, after, tuple(axes), advanced, lengths)


def key_on_device(
    key: KeyLike, indices: Sequence[ndarray | Buffer | int], shape: Shape
) -> tuple[KeyLike, list[ndarray]]:
    """Returns a key and its index arrays on the device; plain numbers become a part of the key.

    An index that the host knows is an ``IndexError`` if it is out of bounds of the array's shape.
    """
    if all(type(index) is cupy.ndarray for index in indices):
        return key, list(indices)
    rest: Iterator[Any] = iter(indices)
    native: list[Any] = []
    arrays = []
    taken = sum(item is not None and item is not Ellipsis for item in key.native)
    axis = 0
    for item in key.native:
        if item is Ellipsis:
            axis += len(shape) - taken
        elif item is not None:
            axis += 1
        if type(item) is str:
            index = next(rest)
            if type(index) is not cupy.ndarray:
                if not np.ndim(index):
                    native.append(int(index))
                    continue
                if axis <= len(shape):
                    check_bounds(index, axis - 1, shape[axis - 1])
                index = uploaded(index)
            arrays.append(index)
        native.append(item)
    return type(key)(tuple(native), len(arrays)), arrays


def check_bounds(index: Buffer, axis: int, length: int) -> None:
    """Raises NumPy's error for an index on the host that is out of bounds."""
    if index.size and not (-length <= index.min() and index.max() < length):
        wrong = index.min() if index.min() < -length else index.max()
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def uploaded(array: ndarray) -> ndarray:
    """Returns a host's array on the device; a small one is copied the first time only."""
    if array.nbytes > MOST_REMEMBERED_BYTES:
        return cupy.asarray(array)
    device = cupy.cuda.runtime.getDevice()
    return kept_by_graph(remembered(array.tobytes(), array.dtype, array.shape, device))


@lru_cache(maxsize=256)
def remembered(content: bytes, dtype: DType, shape: Shape, device: int) -> ndarray:
    copied_once()
    return cupy.asarray(np.frombuffer(content, dtype).reshape(shape))


def broadcast(indices: Sequence[ndarray]) -> Shape:
    """Returns the shape to which index arrays broadcast."""
    if len(indices) == 1:
        return indices[0].shape  # type: ignore[no-any-return]
    shapes = [index.shape for index in indices]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            + " ".join(map(str, shapes))
        ) from None


def pointed(places: IndexedPlaces, indices: Sequence[ndarray]) -> Pointer:
    """Returns index arrays as one, whose elements are places at a distance of one stride."""
    if len(indices) == 1:
        (index,) = indices
        (axis,) = places.axes
        rest = single(zip(index.shape, strides_of(index)), 2)
        if rest is not None:
            return Pointer(index, CODES[index.dtype.name], rest[1], *axis, axis[0])
    unit = gcd(*[stride for _, stride in places.axes]) or 1
    limit = 1 + sum((length - 1) * (stride // unit) for length, stride in places.axes)
    rank, shape = len(places.advanced), places.advanced
    spread = [
        (0,) * (rank - index.ndim)
        + tuple([0 if n == 1 else s for n, s in zip(index.shape, strides_of(index))])
        for index in indices
    ]
    axes = merged_axes(zip(shape, *spread))
    if len(axes) > MOST_INDEX_AXES:
        indices = [cupy.ascontiguousarray(cupy.broadcast_to(index, shape)) for index in indices]
        axes = [(places.total, *(1,) * len(indices))]
    axes = [(1, *(0,) * len(indices))] * (MOST_INDEX_AXES - len(axes)) + axes
    out = cupy.empty(places.total, np.int64)
    parts = [
        (index, CODES[index.dtype.name], length, stride // unit, *[axis[i + 1] for axis in axes])
        for i, (index, (length, stride)) in enumerate(zip(indices, places.axes))
    ]
    inner = axes[1][0] * axes[2][0], axes[2][0]
    # The combined array is the first of the next group.
    so_far = (out, 0, ENDLESS, 1, *inner, 1)
    first = True
    while parts:
        room = MOST_INDEX_ARRAYS if first else MOST_INDEX_ARRAYS - 1
        group = parts[:room] if first else [so_far, *parts[:room]]
        parts, first = parts[room:], False
        nothing = (group[0][0], group[0][1], ENDLESS, 0, *group[0][4:])
        group += [nothing] * (MOST_INDEX_ARRAYS - len(group))
        COMBINE(
            "", -(-places.total // BLOCK_THREADS), BLOCK_THREADS, out, places.total,
            *inner, *[item for part in group for item in part],
        )
    return Pointer(out, 0, 1, ENDLESS, unit, limit)


def rows_grid(rows: int, columns: int) -> tuple[tuple[int, int], int]:
    """Returns the grid of blocks over rows, and the logarithm of the lanes of a row."""
    log = min(max(columns - 1, 0).bit_length(), BLOCK_THREADS.bit_length() - 1)
    tall = BLOCK_THREADS >> log
    # A thread has several columns, unless the device would not be full.
    wide = min(-(-columns // ((1 << log) * 4)), 65535)
    return (-(-rows // tall), wide), log
