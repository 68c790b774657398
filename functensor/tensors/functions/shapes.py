"""Functions of PyTorch that arrange elements in other shapes; where it gives views, so do these."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations_with_replacement, pairwise
from itertools import combinations as combined
from math import prod
from operator import index as whole_number
from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import INEXACT, canonical_axis, result_type
from .naming import as_tensor_result, copied, in_memory_of_its_own, on_host

__all__ = [
    "adjoint", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "broadcast_to", "cartesian_prod", "cat", "chunk", "clone",
    "column_stack", "combinations", "concat", "concatenate", "detach", "dsplit", "dstack",
    "expand_as", "flatten", "flip", "fliplr", "flipud", "hsplit", "hstack", "meshgrid",
    "moveaxis", "movedim", "narrow", "numel", "permute", "ravel", "repeat_interleave",
    "reshape", "reshape_as", "roll", "rot90", "row_stack", "select", "split",
    "split_with_sizes", "squeeze", "stack", "swapaxes", "swapdims", "t", "tensor_split",
    "tile", "transpose", "unbind", "unflatten", "unsqueeze", "view_as", "vsplit", "vstack",
]  # fmt: skip


def numel(input: Array) -> int:
    """Returns the number of elements."""
    return int(input.size)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Returns a copy, through which gradients flow back; all copies are laid out in rows."""
    return input.clone()


def detach(input: Any) -> Any:
    """Returns the tensor without its graph, sharing its memory."""
    return input.detach()


# -- axes


def reshape(input: Array, shape: Sequence[int]) -> Any:
    """Returns the elements in another shape; a view where it can be one."""
    return input.reshape(tuple(shape))


def reshape_as(input: Array, other: Any) -> Any:
    """Returns the elements in the shape of another tensor."""
    return input.reshape(other.shape)


def view_as(input: Array, other: Any) -> Any:
    """Returns a view in the shape of another tensor."""
    return input.view(other.shape)


def expand_as(input: Any, other: Any) -> Any:
    """Returns a view repeated along axes of length 1, to the shape of another tensor."""
    return input.expand(other.shape)


def ravel(input: Array) -> Any:
    """Returns the elements in a row."""
    return input.reshape(-1)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Returns the tensor with some axes in a row made into one."""
    return input.flatten(start_dim, end_dim)


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Returns the tensor with an axis split into several, of which one length may be -1."""
    axis = canonical_axis(dim, input.ndim)
    if -1 not in sizes and prod(sizes) != input.shape[axis]:
        given = tuple(sizes)
        raise RuntimeError(f"unflatten: {given} for an axis of length {input.shape[axis]}")
    known = prod([size for size in sizes if size != -1])
    if known and not input.size:
        # Of no elements a length that is left out follows from the axis.
        sizes = [input.shape[axis] // known if size == -1 else size for size in sizes]
    return input.view((*input.shape[:axis], *sizes, *input.shape[axis + 1 :]))


def squeeze(input: Array, dim: Any = None) -> Any:
    """Returns the tensor without axes of length 1; a longer ``dim`` stays."""
    return input.squeeze(dim)


def unsqueeze(input: Any, dim: int) -> Any:
    """Returns the tensor with a new axis of length 1."""
    return input.unsqueeze(dim)


def transpose(input: Array, dim0: int, dim1: int) -> Any:
    """Returns the tensor with two axes swapped."""
    return input.transpose(dim0, dim1)


swapaxes = swapdims = transpose


def t(input: Any) -> Any:
    """Returns the transpose of a matrix; a vector as it is."""
    return input.t()


def adjoint(input: Array) -> Any:
    """Returns the conjugate transpose of matrices, a view."""
    return input.transpose(-2, -1).conj()


def permute(input: Any, dims: Sequence[int]) -> Any:
    """Returns the tensor with its axes in another order."""
    return input.permute(tuple(dims))


def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Returns the tensor with axes moved to other places; the others stay in order."""
    n = input.ndim
    olds = [source] if isinstance(source, int) else list(source)
    news = [destination] if isinstance(destination, int) else list(destination)
    if len(olds) != len(news):
        raise ValueError(f"movedim: {len(olds)} axes for {len(news)} places")
    places = dict(zip([canonical_axis(a, n) for a in news], [canonical_axis(a, n) for a in olds]))
    rest = iter([axis for axis in range(n) if axis not in places.values()])
    if not len(places) == len(set(places.values())) == len(olds):
        raise RuntimeError(f"movedim: an axis is named twice: {source} to {destination}")
    return input.permute(tuple([places[i] if i in places else next(rest) for i in range(n)]))


moveaxis = movedim


def broadcast_to(input: Any, size: Sequence[int]) -> Any:
    """Returns the elements repeated to a shape; a view."""
    return input.expand(tuple(size))


def broadcast_tensors(*tensors: Any) -> tuple[Array, ...]:
    """Returns tensors repeated to their common shape."""
    shape = np.broadcast_shapes(*[x.shape for x in tensors])
    return tuple([x.expand(shape) for x in tensors])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Returns the shape to which arrays of some shapes broadcast."""
    return tuple(np.broadcast_shapes(*shapes))


def atleast(n: int, tensors: Sequence[Any]) -> Any:
    """Returns tensors with axes of length 1 where they have fewer than n."""
    found = []
    for x in tensors:
        if n == 3 and x.ndim == 2:
            found.append(x.unsqueeze(-1))
            continue
        while x.ndim < n:
            x = x.unsqueeze(-1 if x.ndim == 2 else 0)
        found.append(x)
    return found[0] if len(found) == 1 else tuple(found)


def atleast_1d(*tensors: Any) -> Any:
    """Returns tensors with one axis at least."""
    return atleast(1, as_one_list(tensors))


def atleast_2d(*tensors: Any) -> Any:
    """Returns tensors with two axes at least."""
    return atleast(2, as_one_list(tensors))


def atleast_3d(*tensors: Any) -> Any:
    """Returns tensors with three axes at least."""
    return atleast(3, as_one_list(tensors))


def as_one_list(tensors: Sequence[Any]) -> Sequence[Any]:
    """Returns tensors that were given one by one, or as one list."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors


# -- together


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Returns tensors one behind the other along an axis.

    Raises:
        ShapeError: they differ along another axis.

    >>> import functensor.torch as torch
    >>> torch.cat([torch.zeros(2), torch.ones(1)]).tolist()
    [0.0, 0.0, 1.0]
    """
    # PyTorch leaves out empty vectors, whatever the others are.
    alike = in_dtype_of_sum(tensors)
    some = [x for x in alike if x.shape != (0,)] or alike[:1]
    return ops.concatenate(some, dim)


def in_dtype_of_sum(tensors: Sequence[Any]) -> list[Any]:
    """Returns tensors in the dtype of their sum, to which integers beside floats do not add."""
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) < 2:
        return list(tensors)
    floats = {d for d in dtypes if d.kind in INEXACT}
    wanted = result_type(*(floats or dtypes))
    return [x if x.dtype == wanted else ops.astype(x, wanted) for x in tensors]


concat = concatenate = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Returns tensors of one shape side by side along a new axis."""
    return ops.stack(in_dtype_of_sum(tensors), dim)


def hstack(tensors: Sequence[Any]) -> Any:
    """Returns tensors one behind the other along the second axis; vectors along the first."""
    return ops.hstack(in_dtype_of_sum(tensors))


def vstack(tensors: Sequence[Any]) -> Any:
    """Returns tensors one below the other; vectors are rows."""
    return ops.vstack(in_dtype_of_sum(tensors))


row_stack = vstack


def dstack(tensors: Sequence[Any]) -> Any:
    """Returns tensors one behind the other along the third axis."""
    return ops.dstack(in_dtype_of_sum(tensors))


def column_stack(tensors: Sequence[Any]) -> Any:
    """Returns vectors as the columns of a matrix, beside matrices."""
    return ops.column_stack(in_dtype_of_sum(tensors))


def block_diag(*tensors: Any) -> Any:
    """Returns matrices along the diagonal of one, which is zero elsewhere."""
    some = in_dtype_of_sum([atleast(2, [x]) for x in as_one_list(tensors)])
    width = sum(x.shape[1] for x in some)
    rows, left = [], 0
    for x in some:
        pads = ((0, 0), (left, width - left - x.shape[1]))
        rows.append(ops.pad(x, pads))
        left += x.shape[1]
    return ops.concatenate(rows, 0)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Array, ...]:
    """Returns the coordinates of a grid: each vector, repeated along the axes of the others."""
    if not tensors:
        raise RuntimeError("meshgrid: there is one tensor at least")
    for x in as_one_list(tensors):
        if x.ndim > 1:
            raise RuntimeError(f"meshgrid: vectors, not the shape {tuple(x.shape)}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    vectors = [x.reshape(-1) for x in as_one_list(tensors)]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = tuple([len(vectors[i]) for i in order])
    return tuple(
        [
            x.reshape([-1 if j == i else 1 for j in order]).expand(shape)
            for i, x in enumerate(vectors)
        ]
    )


def cartesian_prod(*tensors: Any) -> Any:
    """Returns a row for every choice of one element from each vector."""
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"cartesian_prod: vectors, not the shape {tuple(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.reshape(x, -1) for x in meshgrid(*tensors)], 1)


def combinations(input: Array, r: int = 2, with_replacement: bool = False) -> Any:
    """Returns a row for every choice of r elements of a vector."""
    if input.ndim != 1:
        raise RuntimeError(f"combinations: a vector, not the shape {tuple(input.shape)}")
    choose = combinations_with_replacement if with_replacement else combined
    places = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return ops.take(input, places, 0)


# -- apart


def narrow(input: Array, dim: int, start: int, length: int) -> Any:
    """Returns a view of a part of an axis."""
    axis = canonical_axis(dim, input.ndim)
    size = input.shape[axis]
    begin = int(start) + (size if start < 0 else 0)
    if not 0 <= begin <= begin + length <= size:
        raise RuntimeError(f"narrow: {start} and {length} elements on, of an axis of length {size}")
    return input[(*(slice(None),) * axis, slice(begin, begin + length))]


def select(input: Array, dim: int, index: int) -> Any:
    """Returns a view of one place of an axis."""
    return input[(*(slice(None),) * canonical_axis(dim, input.ndim), index)]


def split(
    tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Array, ...]:
    """Returns views of the pieces of an axis.

    Args:
        tensor: a tensor.
        split_size_or_sections: the length of all pieces but the last, or that of each.
        dim: the axis.

    Raises:
        RuntimeError: lengths do not add up to that of the axis, or are not positive.

    >>> import functensor.torch as torch
    >>> [x.tolist() for x in torch.split(torch.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    length = tensor.shape[dim]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size < 0 or (size == 0 and length):
            raise RuntimeError(f"split: pieces have a positive length, not {size}")
        sizes = [min(size, length - i) for i in range(0, length, size)] if length else [0]
    else:
        sizes = [*map(whole_number, split_size_or_sections)]
        if sum(sizes) != length or min(sizes, default=0) < 0:
            raise RuntimeError(
                f"split: pieces of {sizes} add up to {sum(sizes)}, and the axis has length {length}"
            )
    axis = canonical_axis(dim, len(tensor.shape))
    before = (slice(None),) * axis
    starts = accumulate(sizes, initial=0)
    return tuple([tensor[(*before, slice(a, a + n))] for a, n in zip(starts, sizes)])


def split_with_sizes(input: Array, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    """Returns views of the pieces of an axis, of given lengths."""
    return split(input, list(split_sizes), dim)


def chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """Returns views of at most so many pieces of an axis, all of one length but the last."""
    if chunks <= 0:
        raise RuntimeError(f"chunk: there is one piece at least, not {chunks}")
    length = input.shape[dim]
    if not length:
        return split(input, [0] * chunks, dim)
    return split(input, -(-length // chunks), dim)


def tensor_split(
    input: Array,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    sections: int | None = None,
    indices: Sequence[int] | None = None,
) -> tuple[Array, ...]:
    """Returns views of pieces of an axis, of nearly one length, or between given places."""
    given = [x for x in (indices_or_sections, sections, indices) if x is not None]
    if len(given) != 1:
        raise TypeError("tensor_split: give the number of pieces, or the places between them")
    pieces = on_host(given[0]).tolist() if isinstance(given[0], Array) else given[0]
    length = input.shape[dim]
    if isinstance(pieces, int):
        n = pieces
        if n < 1:
            raise RuntimeError(f"tensor_split: there is one piece at least, not {n}")
        sizes = [length // n + (i < length % n) for i in range(n)]
        return split(input, sizes, dim)
    inner = [min(max(i + length if i < 0 else i, 0), length) for i in pieces]
    ends = [0, *inner, length]
    return tuple([narrow(input, dim, a, max(b - a, 0)) for a, b in pairwise(ends)])


def even_split(name: str, input: Array, pieces: Any, dim: int, axes: int) -> tuple[Array, ...]:
    """Returns views of pieces of an axis, of one length, or between given places."""
    if input.ndim < axes:
        raise RuntimeError(f"{name}: a tensor of {axes} axes at least, not {input.ndim}")
    if isinstance(pieces, int) and (pieces < 1 or input.shape[dim] % pieces):
        length = input.shape[dim]
        raise RuntimeError(f"{name}: {pieces} pieces of one length, of an axis of length {length}")
    return tensor_split(input, pieces, dim)


def hsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Array, ...]:
    """Returns views of pieces of the second axis; of a vector's only one."""
    return even_split("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


def vsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Array, ...]:
    """Returns views of pieces of the first axis."""
    return even_split("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Array, ...]:
    """Returns views of pieces of the third axis."""
    return even_split("dsplit", input, indices_or_sections, 2, 3)


def unbind(input: Array, dim: int = 0) -> tuple[Array, ...]:
    """Returns views of all places of an axis."""
    return tuple([select(input, dim, i) for i in range(input.shape[dim])])


def places_by_strides(size: Sequence[int], stride: Sequence[int], start: int) -> Any:
    """Returns the places of elements that lie at distances along each axis."""
    places = np.asarray(start)
    for length, distance in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(length) * distance
    return places


# -- in another order


def tile(input: Array, dims: Sequence[int]) -> Any:
    """Returns the tensor beside itself along axes."""
    return ops.tile(input, tuple(dims))


def repeat_interleave(
    input: Array,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Any:
    """Returns every element repeated, along an axis or, by default, in a row.

    Numbers of repeats alone give every place as often as they say.
    """
    if repeats is None:
        places: Any = beside(input, np.arange(input.shape[0]))
        return as_tensor_result(repeat_interleave(places, input, output_size=output_size))
    counts = repeats if isinstance(repeats, int) else on_host(repeats)
    found = ops.repeat(input, counts, dim)
    length = found.shape[0 if dim is None else dim]
    if output_size not in (None, length):
        raise RuntimeError(f"repeat_interleave: {length} elements, not {output_size}")
    return found


def roll(input: Array, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """Returns the elements moved along axes, those that leave an end coming in at the other."""
    places = shifts if isinstance(shifts, int) else tuple(shifts)
    axes = dims if dims is None or isinstance(dims, int) else tuple(dims)
    count = 1 if isinstance(places, int) else len(places)
    if count != (1 if axes is None or isinstance(axes, int) else len(axes)):
        raise RuntimeError(f"roll: {count} distances {shifts} for the axes {dims}")
    return ops.roll(input, places, axes)


def flip(input: Any, *places: Any, dims: Sequence[int] | None = None) -> Any:
    """Returns the elements in reverse order along axes; a copy."""
    axes = tuple(as_one_list(places) if dims is None else dims)
    return input.clone() if not axes else in_memory_of_its_own(ops.flip(input, axes))


def fliplr(input: Array) -> Any:
    """Returns the elements with their columns in reverse order."""
    return in_memory_of_its_own(ops.flip(input, 1))


def flipud(input: Array) -> Any:
    """Returns the elements with their rows in reverse order."""
    return in_memory_of_its_own(ops.flip(input, 0))


def rot90(input: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Returns the elements turned by k right angles in the plane of two axes."""
    turned = ops.rot90(input, k, tuple(dims))
    return copied(input) if turned is input else in_memory_of_its_own(turned)
