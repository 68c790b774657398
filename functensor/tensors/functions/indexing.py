"""Functions of PyTorch that read and write at places, sort and search."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.buffers import beside, wrap
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import canonical_axis
from ..buffers import check_holds
from ..default_dtypes import TENSOR_DTYPES
from .looked_at import check_mask, check_places
from .naming import as_tensor_result, copied, first_places, on_host
from .reductions import ValuesIndices

__all__ = [
    "argsort", "argwhere", "bucketize", "gather", "index_add", "index_copy", "index_fill",
    "index_put", "index_select", "isin", "masked_fill", "masked_scatter", "masked_select", "msort",
    "nonzero", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "sort", "take",
    "take_along_dim", "topk", "unique", "unique_consecutive", "where",
]  # fmt: skip


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Returns elements of one tensor or another; of a condition alone, where it is true."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if getattr(condition, "dtype", condition) != np.uint8:
        check_mask("where", condition)
    out = ops.where(condition, input, other)
    numbers = (int, float, bool, complex)
    if isinstance(input, numbers) and isinstance(other, numbers):
        # Of numbers alone PyTorch makes its default dtypes.
        return ops.astype(out, TENSOR_DTYPES.get(out.dtype.kind, out.dtype))
    return out


def nonzero(input: Array, *, as_tuple: bool = False) -> Any:
    """Returns a row of indices for every element but zeros; ``as_tuple`` a vector for each axis."""
    vector = input if input.ndim else ops.reshape(input, -1)
    found = list(map(as_tensor_result, ops.nonzero(vector)))
    if as_tuple:
        return tuple(found)
    rows = ops.stack(found, 1)
    return rows if input.ndim else rows[:, :0]


def argwhere(input: Array) -> Any:
    """Returns a row of indices for every element that is not zero."""
    return nonzero(input)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Returns whether elements are among others."""
    return as_tensor_result(ops.isin(elements, test_elements, invert=invert))


# -- at places


def grid_places(input: Array, dim: int, index: Any) -> tuple[Any, ...]:
    """Returns the places of an index along an axis: itself there, and grids for the others."""
    check_places("index", index)
    axis = canonical_axis(dim, max(input.ndim, 1))
    if max(index.ndim, 1) != max(input.ndim, 1) and index.size:
        raise RuntimeError(
            f"an index of {input.ndim} axes, as many as the tensor's, not {index.ndim}"
        )
    for i, (wanted, length) in enumerate(zip(index.shape, input.shape)):
        if i != axis and wanted > length:
            raise RuntimeError(
                f"an index of the length {wanted} along axis {i}, where the tensor's is {length}"
            )
    if not index.ndim and input.ndim:
        return (index,)
    grids = np.ogrid[tuple([slice(n) for n in index.shape])]
    return tuple([index if i == axis else grid for i, grid in enumerate(grids)])


def gather(input: Array, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Returns elements along an axis, by an own index for every place on the others.

    Args:
        input: a tensor.
        dim: the axis.
        index: integers, with as many axes as ``input``, which may be shorter along the others.

    >>> import functensor.torch as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]])).tolist()
    [[1], [4]]
    """
    if not input.ndim:
        return ops.broadcast_to(input, index.shape)
    return ops.index(input, grid_places(input, dim, index))


def take_along_dim(input: Array, indices: Any, dim: int | None = None) -> Any:
    """Returns elements along an axis by own indices, both broadcast along the others."""
    if dim is None:
        return ops.take(ops.reshape(input, -1), ops.reshape(indices, -1), 0)
    return ops.take_along_axis(input, indices, dim)


def take(input: Array, index: Any) -> Any:
    """Returns elements by their numbers in a row."""
    return ops.take(ops.reshape(input, -1), index, 0)


def index_select(input: Array, dim: int, index: Any) -> Any:
    """Returns the slices at some indices of an axis."""
    check_places("index_select", index)
    if index.ndim > 1:
        raise IndexError(f"index_select: a vector of indices, not the shape {tuple(index.shape)}")
    return ops.take(input, ops.reshape(index, -1), dim)


def masked_select(input: Array, mask: Any) -> Any:
    """Returns a vector of the elements where a mask is true."""
    check_mask("masked_select", mask)
    shape = np.broadcast_shapes(input.shape, mask.shape)
    return ops.broadcast_to(input, shape)[ops.broadcast_to(mask, shape)]


def masked_fill(input: Array, mask: Any, value: Any) -> Any:
    """Returns the elements, a value in place of those where a mask is true."""
    check_mask("masked_fill", mask)
    return ops.where(mask, as_elements(value, input), input)


def masked_scatter(input: Array, mask: Any, source: Any) -> Any:
    """Returns the elements, those of another in order in place of those where a mask is true."""
    check_mask("masked_scatter", mask)
    shape = np.broadcast_shapes(input.shape, mask.shape)
    wide = ops.broadcast_to(mask, shape)
    counted = ops.cumsum(ops.astype(ops.reshape(wide, -1), np.dtype(np.int64)), 0)
    order = ops.maximum(ops.reshape(counted, shape) - 1, 0)
    values = ops.take(ops.reshape(source, -1), order, 0)
    return ops.where(wide, values, input)


def as_elements(value: Any, input: Array) -> Any:
    """Returns what is to stand among a tensor's elements, in its dtype.

    Raises:
        RuntimeError: an integer's place cannot hold a number.
    """
    dtype = getattr(value, "dtype", None)
    if type(value) in (int, float) and input.dtype.kind in "iub":
        if input.dtype.kind == "b":
            return bool(value)
        check_holds(np.asarray(value), input.dtype)
        return int(value)
    return value if dtype is None or dtype == input.dtype else ops.astype(value, input.dtype)


def along(input: Array, dim: int, index: Any) -> tuple[Any, ...]:
    """Returns the key of slices at some indices of an axis."""
    check_places("index", index)
    return (*(slice(None),) * canonical_axis(dim, input.ndim), index)


def check_slices(name: str, input: Array, dim: int, index: Any, source: Any) -> None:
    """Raises a ``RuntimeError`` where there is not one slice for every index."""
    part = list(input.shape)
    if part:
        part[dim] = source.shape[dim] if source.ndim == len(part) else -1
    if source.ndim and tuple(part) != tuple(source.shape):
        shapes = f"{tuple(source.shape)} for a tensor of shape {tuple(input.shape)}"
        raise RuntimeError(f"{name}: slices of shape {shapes}")
    count = source.shape[dim] if source.ndim else 1
    if index.ndim > 1 or index.size != count:
        shape = tuple(index.shape)
        raise RuntimeError(f"{name}: a vector of {count} indices, as many as slices, not {shape}")


def index_add(input: Array, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """Returns the tensor with slices added at some indices of an axis."""
    check_slices("index_add", input, dim, index, source)
    return ops.index_add(input, along(input, dim, index), source if alpha == 1 else alpha * source)


def index_copy(input: Array, dim: int, index: Any, source: Any) -> Any:
    """Returns the tensor with slices put at some indices of an axis."""
    check_slices("index_copy", input, dim, index, source)
    return ops.index_set(input, along(input, dim, index), source)


def index_fill(input: Array, dim: int, index: Any, value: Any) -> Any:
    """Returns the tensor with a number put at some indices of an axis."""
    # Negative indices count from the end here, as in PyTorch, and nowhere else.
    key = (*(slice(None),) * canonical_axis(dim, input.ndim), index)
    return ops.index_set(input, key, as_elements(value, input))


def index_put(input: Array, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Returns the tensor with values put, or added, where some indices say."""
    key = tuple([slice(None) if i is None else i for i in indices])
    return (ops.index_add if accumulate else ops.index_set)(input, key, values)


def part_for(src: Any, index: Any) -> Any:
    """Returns the part of a source that an index of its shape or a smaller one speaks of."""
    if getattr(src, "shape", index.shape) == index.shape:
        return src
    if not hasattr(src, "shape") or (not src.shape and index.size == 1):
        return src
    if src.ndim != max(index.ndim, 1) or any(n > m for n, m in zip(index.shape, src.shape)):
        raise RuntimeError(
            f"an index of shape {tuple(index.shape)} for elements of shape {tuple(src.shape)}, "
            "which is smaller"
        )
    if not index.ndim:
        return src[0]
    return src[tuple([slice(n) for n in index.shape])]


REDUCTIONS = {"add": "index_add", "multiply": "index_multiply"}


def scatter(
    input: Array,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """Returns the tensor with elements of a source put along an axis, each at an own index.

    Args:
        input: a tensor.
        dim: the axis.
        index: integers, with as many axes as ``input``.
        src: a tensor at least as large as ``index``, or a number.
        value: another name of ``src`` for a number.
        reduce: ``"add"`` or ``"multiply"`` to combine with what is there.
    """
    if reduce is not None and reduce not in REDUCTIONS:
        raise ValueError(f"scatter: reduce is None, 'add' or 'multiply', not {reduce!r}")
    if (src is None) == (value is None):
        raise TypeError("scatter: give src or value")
    src = value if src is None else src
    put = ops.index_set if reduce is None else getattr(ops, REDUCTIONS[reduce])
    return put(input, grid_places(input, dim, index), as_elements(part_for(src, index), input))


def scatter_add(input: Array, dim: int, index: Any, src: Any) -> Any:
    """Returns the tensor with elements of a source added along an axis, each at an own index."""
    return ops.index_add(input, grid_places(input, dim, index), part_for(src, index))


COMBINED = {
    "sum": ("index_add", 0), "prod": ("index_multiply", 1), "mean": ("index_add", 0),
    "amax": ("index_max", None), "amin": ("index_min", None),
}  # fmt: skip


def neutral_extreme(input: Array, reduce: str) -> float:
    """Returns the number below all others of a tensor's dtype, or for "amin" that above."""
    if input.dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    limits = np.iinfo(input.dtype)
    return int(limits.min if reduce == "amax" else limits.max)


def scatter_reduce(
    input: Array, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Returns the tensor with elements of a source combined along an axis, each at an own index.

    Args:
        input, dim, index, src: as for `scatter`.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the elements that are there already take part.
    """
    if reduce not in COMBINED:
        raise ValueError(f"scatter_reduce: reduce is one of {', '.join(COMBINED)}, not {reduce!r}")
    key, source = grid_places(input, dim, index), part_for(src, index)
    name, neutral = COMBINED[reduce]
    start = input
    if not include_self:
        start = ops.index_set(
            input, key, neutral_extreme(input, reduce) if neutral is None else neutral
        )
    out = getattr(ops, name)(start, key, source)
    if reduce != "mean":
        return out
    whole = input.dtype.kind in "iu"
    ones = ops.astype(ops.zeros_like(input), np.dtype(np.int64))
    counts = ops.index_add(ones + 1 if include_self else ones, key, 1)
    counts = ops.maximum(counts, 1)
    return ops.astype(out // counts, input.dtype) if whole else out / counts


# -- order


def sort(
    input: Array, dim: int = -1, descending: bool = False, stable: bool = False
) -> ValuesIndices:
    """Returns the elements in order along an axis, and where each was before.

    >>> import functensor.torch as torch
    >>> torch.sort(torch.tensor([3, 1, 2])).indices.tolist()
    [1, 2, 0]
    """
    x = ops.reshape(input, -1) if not input.ndim else input
    order = ops.argsort(x, dim, stable=True, descending=descending)
    values = ops.take_along_axis(x, order, dim)
    if input.ndim:
        return ValuesIndices(values, order)
    return ValuesIndices(ops.reshape(values, ()), ops.reshape(order, ()))


def argsort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Returns the indices that put the elements in order along an axis."""
    return sort(input, dim, descending, stable).indices


def msort(input: Array) -> Any:
    """Returns the elements in order along the first axis."""
    return sort(input, 0).values


def topk(
    input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """Returns the k greatest elements along an axis, the greatest first, and their indices.

    Args:
        input: a tensor.
        k: how many; at most the length of the axis.
        dim: the axis.
        largest: whether the greatest are meant; else the smallest, and the smallest first.
        sorted: has no effect: they are in order.
    """
    length = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"topk: k is at most {length}, the length of axis {dim}, not {k}")
    if not input.ndim:
        return ValuesIndices(copied(input), first_places(input))
    order = ops.argsort(input, dim, stable=True, descending=largest)
    first = order[along(input, dim, slice(k))]
    return ValuesIndices(ops.take_along_axis(input, first, dim), first)


def searchsorted(
    sorted_sequence: Any,
    input: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Returns where elements would be inserted into sorted rows, before or behind equal ones."""
    where_equal = side or ("right" if right else "left")
    rows = sorted_sequence if sorter is None else ops.take_along_axis(sorted_sequence, sorter, -1)
    if rows.ndim == 1:
        found = ops.searchsorted(rows, input, where_equal)
    else:
        below = ops.less_equal if where_equal == "right" else ops.less
        found = ops.sum(below(ops.expand_dims(rows, -2), ops.expand_dims(input, -1)), -1)
    out = ops.astype(found, np.dtype(np.int32)) if out_int32 else found
    return as_tensor_result(out)


def bucketize(
    input: Array, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Any:
    """Returns the numbers of the intervals between sorted boundaries in which elements lie."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def unique(
    input: Array,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Returns the different elements in order; with them where they stand, and how often.

    Each NaN differs from the others.
    """
    found = ops.unique(input, False, return_inverse, return_counts, dim, equal_nan=False)
    if not (return_inverse or return_counts):
        return as_tensor_result(found)
    out = list(map(as_tensor_result, found))
    if return_inverse:
        shape = input.shape if dim is None else (input.shape[dim],)
        out[1] = ops.reshape(out[1], shape)
    return tuple(out)


def counts_beside(input: Array, counts: Any) -> Any:
    """Returns integers as a tensor on the device of another."""
    return as_tensor_result(wrap(beside(input, counts)))


def unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Returns the elements without those that are equal to the one before."""
    x, axis = (ops.reshape(input, -1), 0) if dim is None else (input, dim)
    rows = ops.moveaxis(x, axis, 0)
    flat = ops.reshape(rows, (rows.shape[0], prod(rows.shape[1:])))
    new = ops.any(ops.not_equal(flat[1:], flat[:-1]), 1)
    first = np.concatenate([np.ones(min(1, rows.shape[0]), bool), on_host(new)])
    places = np.flatnonzero(first)
    out = [ops.take(x, places, axis)]
    if return_inverse:
        shape = input.shape if dim is None else (-1,)
        out.append(counts_beside(input, (np.cumsum(first) - 1).reshape(shape)))
    if return_counts:
        out.append(counts_beside(input, np.diff(np.append(places, rows.shape[0]))))
    return tuple(out) if len(out) > 1 else out[0]
