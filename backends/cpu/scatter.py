"""Adding values into an array at positions that may repeat: the CPU's kernels.

``np.add.at`` is fast only for one flat index array. Embeddings and losses have keys of index arrays
after whole axes. Such keys are brought into that form, or added by rows if these are long.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..annotations import Buffer, KeyLike, Shape

__all__ = ["add_at", "index_add", "scatter_add"]

# Rows of fewer elements are added element by element.
SHORTEST_ADDED_ROW = 8
# The sum of a row takes the time of this many elements that are added one by one.
ROW_SUM_ELEMENTS = 2000
# Counting positions costs time in proportion to their range: the largest range per position.
LARGEST_COUNTED_RANGE = 16


def scatter_add(*operands: Any, shape: Shape, keys: Sequence[KeyLike]) -> Buffer:
    """Adds values into one array of zeros of the first values' dtype, each at its own key.

    Args:
        operands: the values for each key, then the index arrays of all keys in order.
        shape: the result's shape.
        keys: the keys of the values.
    """
    dtype = np.asarray(operands[0]).dtype
    if dtype.kind in "fc" and are_pieces(keys, shape):
        out = np.empty(shape, dtype)
        for values, key in zip(operands, keys, strict=True):
            # As where it is added to zeros, no zero is negative.
            np.add(values, 0, out=out[key.native], dtype=dtype)
        return out
    out = np.zeros(shape, dtype)
    start = len(keys)
    for values, key in zip(operands, keys, strict=False):
        if key.arrays:
            add_at(out, key, operands[start : start + key.arrays], values)
            start += key.arrays
        else:
            out[key.native] += values
    return out


def are_pieces(keys: Sequence[KeyLike], shape: Shape) -> bool:
    """Says whether keys cut an array into several pieces along an axis, and leave nothing out."""
    pieces = []
    for key in keys:
        if key.arrays or any(type(part) is not slice for part in key.native):
            return False
        spans = [part.indices(n) for part, n in zip(key.native, shape, strict=False)]
        cut = [(i, *span) for i, (span, n) in enumerate(zip(spans, shape)) if span != (0, n, 1)]
        if len(cut) != 1 or cut[0][3] != 1:
            return False
        pieces.append(cut[0])
    pieces.sort()
    whole = len(pieces) > 1 and pieces[0][0] == pieces[-1][0] and pieces[0][1] == 0
    ends = whole and pieces[-1][2] == shape[pieces[-1][0]]
    return ends and all(a[2] == b[1] for a, b in pairwise(pieces))


def index_add(x: Buffer, v: Buffer, *indices: Buffer, key: KeyLike) -> Buffer:
    """Returns a copy of an array with values added at a key that has index arrays."""
    out = np.array(x, order="C")
    v = np.asarray(v).astype(out.dtype, copy=False)
    if key.arrays:
        # NumPy 2.4 reads past the end of values that have fewer axes than the elements.
        add_at(out, key, indices, np.broadcast_to(v, key.shape(out, indices)))
    else:
        out[key.native] += v
    return out


def _whole_axes(key: KeyLike) -> int | None:
    """Returns how many whole axes stand before the index arrays; None for other kinds of keys."""
    whole = len(key.native) - key.arrays
    return whole if key.native[:whole] == (slice(None),) * whole else None


def _check_bounds(index: Buffer, length: int, axis: int) -> None:
    if index.size and not (-length <= index.min() and index.max() < length):
        wrong = index.min() if index.min() < -length else index.max()
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def add_at(out: Buffer, key: KeyLike, indices: Sequence[Any], values: Buffer) -> None:
    """Adds values of the shape of ``out[key]`` into a contiguous array; repeated places add up."""
    whole = _whole_axes(key)
    if whole is None or not out.size:
        np.add.at(out, key.fill(indices), values)
        return
    # Whole axes come first, then those that are indexed, then rows.
    indexed, width = out.shape[whole : len(key.native)], prod(out.shape[len(key.native) :])
    arrays = [np.asarray(index, np.intp) for index in indices]
    positions = np.reshape(_positions(arrays, indexed, whole), -1)
    if whole:
        blocks = np.arange(prod(out.shape[:whole])) * prod(indexed)
        positions = (blocks[:, None] + positions).reshape(-1)
    rows = np.reshape(values, (-1, width))
    if width >= SHORTEST_ADDED_ROW:
        _add_rows(out.reshape(-1, width), positions, rows)
    else:
        _add_flat(out.reshape(-1), positions, rows)


def _positions(arrays: Sequence[Buffer], shape: Shape, before: int) -> Buffer:
    """Returns the flat positions of indices in axes of a shape, which stand behind some others."""
    try:
        return np.ravel_multi_index(arrays, shape)
    except ValueError:
        # One of them is negative, and may be in bounds.
        for axis, (index, length) in enumerate(zip(arrays, shape, strict=True), before):
            _check_bounds(index, length, axis)
        return np.ravel_multi_index(arrays, shape, mode="wrap")


def _add_rows(out: Buffer, positions: Buffer, rows: Buffer) -> None:
    """Adds rows: at once if no place repeats, sum by sum if there are few places."""
    places = _distinct(positions, len(out))
    if places >= len(positions):
        out[positions] += rows
    elif places * ROW_SUM_ELEMENTS < rows.size:
        # Sixteen bits are sorted by radix, in linear time.
        small = positions.astype(np.uint16) if len(out) <= 1 << 16 else positions
        order = np.argsort(small, kind="stable")
        rows, positions = rows[order], positions[order]
        ends = [*(np.flatnonzero(positions[1:] != positions[:-1]) + 1).tolist(), len(rows)]
        for start, end in zip([0, *ends], ends, strict=False):
            out[positions[start]] += rows[start:end].sum(axis=0)
    else:
        _add_flat(out.reshape(-1), positions, rows)


def _distinct(positions: Buffer, length: int) -> int:
    """Returns how many positions, all below ``length``, differ."""
    if length <= LARGEST_COUNTED_RANGE * len(positions):
        return int(np.count_nonzero(np.bincount(positions)))
    ordered = np.sort(positions)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1


def _add_flat(out: Buffer, positions: Buffer, rows: Buffer) -> None:
    width = rows.shape[1]
    flat = positions if width == 1 else positions[:, None] * width + np.arange(width)
    np.add.at(out, flat.reshape(-1), rows.reshape(-1))
