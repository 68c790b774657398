"""Functions of PyTorch that put a tensor into a part of another, and related ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import canonical_axis
from .diagonals import diagonal
from .indexing import COMBINED, along, as_elements, check_slices, neutral_extreme
from .naming import as_tensor_result, copied
from .reductions import total_dtype
from .shapes import narrow, places_by_strides

__all__ = [
    "as_strided_scatter", "diagonal_scatter", "index_reduce", "narrow_copy", "nonzero_static",
    "put", "select_scatter", "slice_scatter", "unravel_index", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes",
]  # fmt: skip


def check_part(name: str, part: tuple[int, ...], src: Any) -> None:
    """Raises an error where a tensor does not fit into a part."""
    if tuple(src.shape) != part:
        raise RuntimeError(f"{name}: src has the shape {tuple(src.shape)}, and its place {part}")


def select_scatter(input: Array, src: Any, dim: int, index: int) -> Any:
    """Returns the tensor with another at one place of an axis.

    Raises:
        RuntimeError: the other has not the shape of that place.

    >>> import functensor.torch as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    axis = canonical_axis(dim, input.ndim)
    check_part("select_scatter", (*input.shape[:axis], *input.shape[axis + 1 :]), src)
    return ops.index_set(input, along(input, dim, index), as_elements(src, input))


def slice_scatter(
    input: Array, src: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """Returns the tensor with another in a slice of an axis.

    Raises:
        RuntimeError: the other has not the shape of the slice.
    """
    axis = canonical_axis(dim, input.ndim)
    cut = slice(start, end, step)
    length = len(range(*cut.indices(input.shape[axis])))
    check_part("slice_scatter", (*input.shape[:axis], length, *input.shape[axis + 1 :]), src)
    return ops.index_set(input, along(input, dim, cut), as_elements(src, input))


def places_in_a_row(input: Array) -> np.ndarray[Any, Any]:
    """Returns the number of every element in a row, in the tensor's shape."""
    return np.arange(input.size).reshape(input.shape)


def diagonal_scatter(input: Array, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Returns the tensor with another on a diagonal of two axes.

    Raises:
        RuntimeError: the other has not the shape of the diagonal.
    """
    places = places_in_a_row(input).diagonal(offset, dim1, dim2)
    check_part("diagonal_scatter", places.shape, src)
    return with_elements(input, places, src)


def with_elements(input: Array, places: np.ndarray[Any, Any], src: Any) -> Any:
    """Returns the tensor with another's elements at places in a row."""
    flat = ops.index_set(ops.reshape(input, -1), places, as_elements(src, input))
    return ops.reshape(flat, input.shape)


def as_strided_scatter(
    input: Array, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0
) -> Any:
    """Returns the tensor with another at places by their distances in a row.

    Raises:
        RuntimeError: the other has not the shape ``size``.
    """
    check_part("as_strided_scatter", tuple(size), src)
    places = places_by_strides(size, stride, storage_offset)
    return with_elements(input, places, src)


def put(input: Array, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Returns the tensor with elements put, or added, at their numbers in a row."""
    change = ops.index_add if accumulate else ops.index_set
    flat = change(ops.reshape(input, -1), index, ops.reshape(source, index.shape))
    return ops.reshape(flat, input.shape)


def index_reduce(
    input: Array, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Returns the tensor with slices combined at some indices of an axis.

    Args:
        input: a tensor.
        dim: the axis.
        index: a vector of integers.
        source: the slices, along the same axis.
        reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the elements that are there already take part.
    """
    if reduce not in COMBINED or reduce == "sum":
        raise ValueError(f"index_reduce: reduce is prod, mean, amax or amin, not {reduce!r}")
    check_slices("index_reduce", input, dim, index, source)
    key = along(input, dim, index)
    name, neutral = COMBINED[reduce]
    start = input
    if not include_self:
        first = neutral_extreme(input, reduce) if neutral is None else neutral
        start = ops.index_set(input, key, first)
    out = getattr(ops, name)(start, key, source)
    if reduce != "mean":
        return out
    ones = ops.astype(ops.zeros_like(input), np.dtype(np.int64))
    counts = ops.maximum(ops.index_add(ones + 1 if include_self else ones, key, 1), 1)
    whole = input.dtype.kind in "iu"
    return ops.astype(out // counts, input.dtype) if whole else out / counts


def unravel_index(indices: Any, shape: int | Sequence[int]) -> tuple[Array, ...]:
    """Returns the coordinates of elements by their numbers in a row."""
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    found = []
    indices = ops.astype(indices, np.dtype(np.int64))
    for length in reversed(lengths):
        found.append(indices % length)
        indices = indices // length
    return tuple(reversed(found))


def nonzero_static(input: Array, *, size: int, fill_value: int = -1) -> Any:
    """Returns a row of indices for the first elements that are not zero.

    Args:
        input: a tensor.
        size: the number of rows.
        fill_value: what stands in rows that are left over.
    """
    if not input.ndim:
        raise RuntimeError("nonzero_static: a tensor of one axis at least")
    found = ops.nonzero(input, size=size, fill_value=fill_value)
    return ops.stack(list(map(as_tensor_result, found)), 1)


def narrow_copy(input: Array, dim: int, start: int, length: int) -> Any:
    """Returns a part of an axis, as a copy."""
    return copied(narrow(input, dim, start, length))


def unsafe_split(tensor: Any, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    """Returns the pieces of an axis, as views; see `split`."""
    return tuple(tensor.split(split_size, dim))


def unsafe_split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Returns the pieces of an axis, of given lengths, as views; see `split`."""
    return input.split(list(split_sizes), dim)


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """Returns at most so many pieces of an axis, as views; see `chunk`."""
    return input.chunk(chunks, dim)


def fill_diagonal(input: Any, fill_value: float, wrap: bool = False) -> Any:
    """Returns a matrix with a number on its diagonal.

    ``wrap`` begins the diagonal anew below itself in matrices that are higher than wide.
    """
    if input.ndim < 2 or (input.ndim > 2 and len(set(input.shape)) > 1):
        raise RuntimeError(f"fill_diagonal_: a matrix, or axes of one length, not {input.shape}")
    numbers = places_in_a_row(input)
    if input.ndim == 2 and wrap:
        places = np.arange(0, input.size, input.shape[1] + 1)
    elif input.ndim == 2:
        places = diagonal(numbers)
    else:
        places = numbers[(np.arange(input.shape[0]),) * input.ndim]
    return with_elements(input, places, fill_value)


def sum_to_size(input: Array, *size: Any) -> Any:
    """Returns sums over axes such that a shape is left that broadcasts to the tensor's.

    Raises:
        RuntimeError: the shape does not broadcast to it.
    """
    nested = len(size) == 1 and isinstance(size[0], tuple | list)
    wanted = tuple(size[0]) if nested else size
    ahead = input.ndim - len(wanted)
    if ahead < 0 or any(w not in (1, n) for w, n in zip(wanted, input.shape[ahead:])):
        raise RuntimeError(f"sum_to_size: {wanted} does not broadcast to {input.shape}")
    axes = [*range(ahead)]
    axes += [i + ahead for i, w in enumerate(wanted) if w == 1 and input.shape[i + ahead] != 1]
    if not axes:
        return input
    return ops.reshape(ops.sum(input, tuple(axes), total_dtype(input, None)), wanted)
