"""Shards: arrays of which each process has its part, and what cuts and joins them.

A part is a row of elements. An array of n elements on p processes is cut, in C order, into p rows
of n / p elements, rounded up; zeros fill the last ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .. import tree
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import failure
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import slot
from ..primitives.gradient_buckets import shard_length
from .data_parallel import bucket_bytes
from .mesh import all_along, axes_by_name

__all__ = [
    "Shard", "axes_of_now", "gather", "is_shard", "join", "names_of", "own_part", "position",
    "shard_tree",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Shard:
    """An array of which this process has a part.

    Attributes:
        part: the elements of this process, along one axis.
        shape: the shape of the whole array.
        count: how many processes have a part of their own.
        place: the number of this part among those.
        axis: the names of the axes of processes along which it was cut; empty where that is not
            known.
    """

    part: Any
    shape: tuple[int, ...]
    count: int
    place: int
    axis: tuple[Hashable, ...] = ()

    @property
    def dtype(self) -> Any:
        """The elements' dtype."""
        return shape_dtype(self.part).dtype

    def __repr__(self) -> str:
        return f"<one of {self.count} shards of {self.dtype}{list(self.shape)}>"


tree.register_dataclass(Shard, ["part"], ["shape", "count", "place", "axis"])


def is_shard(x: Any) -> bool:
    """Says whether a node of a tree is a shard."""
    return type(x) is Shard


def axes_of_now(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the axes of processes of some names: those of the step that runs, or of all."""
    if slot.axes is not None and slot.axes.axes:
        return axes_by_name("sharded", slot.axes, names)
    found = all_along(names)
    return tuple([found.axes[name] for name in names])


def position(axes: Sequence[Any]) -> int:
    """Returns the number of this process among those along axes."""
    place = 0
    for axis in axes:
        place = place * axis.size + axis.index
    return place


def names_of(axes: Sequence[Any]) -> tuple[Hashable, ...]:
    """Returns the names of axes of processes."""
    return tuple(axis.name for axis in axes)


def own_part(x: Any, axes: Sequence[Any]) -> Any:
    """Returns the part of a whole array that this process has."""
    count, place = prod(axis.size for axis in axes), position(axes)
    size = prod(shape_of(x))
    length = shard_length(size, count)
    flat = ops.reshape(x, (size,))
    part = flat[min(place * length, size) : min((place + 1) * length, size)]
    missing = length - shape_of(part)[0]
    return ops.pad(part, ((0, missing),)) if missing else part


def join(
    parts: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    axes: tuple[Any, ...],
    bucket: int,
) -> Any:
    """Returns whole arrays of parts, of which those of one dtype go together in buckets.

    An array that fills a bucket goes alone, and is copied nowhere.

    Args:
        parts, shapes: the parts, and the shapes of the whole arrays.
        axes: of processes.
        bucket: how many bytes whole arrays of a bucket have.
    """
    count = prod(axis.size for axis in axes)
    out: list[Any] = [None] * len(parts)
    for members in _buckets(parts, bucket / count):
        own = [parts[i] for i in members]
        row = ops.concatenate(own, axis=0) if len(own) > 1 else own[0]
        rows = ops.all_gather(row, axis_name=axes, axis=0, size=count)
        end = 0
        for i in members:
            length = shape_of(parts[i])[0]
            start, end = end, end + length
            mine = rows if len(own) == 1 else rows[:, start:end]
            flat = ops.reshape(mine, (count * length,))
            size = prod(shapes[i])
            out[i] = ops.reshape(flat if size == count * length else flat[:size], shapes[i])
    return out


def _buckets(parts: Sequence[Any], most: float) -> list[list[int]]:
    """Returns the places of parts that go together, of at most so many bytes or alone.

    >>> import functensor.numpy as np
    >>> _buckets([np.zeros(2), np.zeros(3), np.zeros(9), np.zeros(1)], 40)
    [[0, 1], [2], [3]]
    """
    done: list[list[int]] = []
    filling: dict[Any, list[int]] = {}
    held: dict[Any, int] = {}
    for i, part in enumerate(parts):
        dtype = shape_dtype(part).dtype
        size = shape_of(part)[0] * dtype.itemsize
        if dtype in filling and held[dtype] + size > most:
            done.append(filling.pop(dtype))
        if dtype not in filling:
            filling[dtype], held[dtype] = [], 0
        filling[dtype].append(i)
        held[dtype] += size
    return [*done, *filling.values()]


def shard_tree(values: Any, axes: tuple[Any, ...]) -> Any:
    """Returns a tree with shards in the place of its arrays."""
    count, place = prod(axis.size for axis in axes), position(axes)

    def cut(x: Any) -> Any:
        if is_shard(x) or not is_array_like(x):
            return x
        return Shard(own_part(x, axes), shape_of(x), count, place, names_of(axes))

    return tree.map(cut, values, is_leaf=is_shard)


def gather(values: Any, axis: Any = "data", *, bucket_megabytes: float = 25.0) -> Any:
    """Returns a tree with whole arrays in the place of its shards.

    All processes call it. The gradient of a whole array goes back as each process's part of the
    sum.

    Args:
        values: a tree with shards, such as `sharded` makes.
        axis: the axis of processes along which it was cut, a name or a tuple of several.
        bucket_megabytes: arrays go together in buckets of so many units of 1,048,576 bytes; a
            larger one goes alone.

    Raises:
        TypeError: ``bucket_megabytes`` is no number.
        ValueError: it was cut along another axis, or for another number of processes, or
            ``bucket_megabytes`` is negative or infinite.

    >>> import functensor as ft, functensor.numpy as np
    >>> optimizer = ft.distributed.sharded(ft.optim.sgd(0.1), stage=3)
    >>> shards = optimizer.shard({"w": np.ones((2, 2))})
    >>> ft.distributed.gather(shards)["w"].shape
    (2, 2)
    """
    bucket = bucket_bytes("gather", bucket_megabytes)
    axes = axes_of_now(axis if isinstance(axis, tuple) else (axis,))
    leaves, treedef = tree.flatten(values, is_leaf=is_shard)
    places = [i for i, leaf in enumerate(leaves) if is_shard(leaf)]
    count = prod(own.size for own in axes)
    for i in places:
        if leaves[i].count != count or leaves[i].axis not in ((), names_of(axes)):
            along = f", but along {leaves[i].axis}" if leaves[i].axis else ""
            raise failure(
                ValueError,
                f"distributed.gather: {leaves[i]!r} is not cut along axis={axis!r}, of {count} "
                f"processes{along}",
                fix="the axis that sharded(optimizer, axis) was given; and Checkpoints for what "
                "another number of processes is to read",
                number=None,
            )
    parts, shapes = [leaves[i].part for i in places], [leaves[i].shape for i in places]
    wholes = join(parts, shapes, axes, bucket)
    for i, whole in zip(places, wholes, strict=True):
        leaves[i] = whole
    return treedef.unflatten(leaves)
