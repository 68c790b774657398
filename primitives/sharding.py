"""From a whole array to the parts of it that processes have, and back.

Outside, a value is one for all processes and counts once; inside, each process has one of its own.
So the way back of a cut adds up what comes from the processes that had the same part, and the way
back of a join, whose operands are the same on those processes, divides among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ..backends.annotations import ArrayModule, Buffer
from .core.annotations import Value
from .core.annotations import operations as ops
from .core.array import Array
from .core.primitive import Primitive
from .core.shape_dtype import ShapeDtype
from .core.test_samples import Sample

__all__ = ["join_shards", "shard"]

# For each axis of an array the axes of processes along which it is cut.
Cuts = tuple[tuple[Any, ...], ...]


def part_counts(cuts: Cuts, ndim: int) -> list[int]:
    """Returns into how many parts each axis of an array is cut."""
    found = [prod(axis.size for axis in axes) for axes in cuts]
    return found + [1] * (ndim - len(found))


def _cut(xp: ArrayModule, x: Buffer, *, cuts: Cuts, rest: tuple[Any, ...]) -> Buffer:
    x = xp.asarray(x)
    key = []
    for axes, length in zip(cuts, x.shape):
        place = 0
        for axis in axes:
            place = place * axis.size + axis.index
        part = length // prod(axis.size for axis in axes)
        key.append(slice(place * part, (place + 1) * part))
    return x[tuple(key)]


def _infer_cut(primitive: Primitive, x: ShapeDtype, *, cuts: Cuts, **rest: Any) -> ShapeDtype:
    counts = part_counts(cuts, len(x.shape))
    # A number stays one that gives way to the dtypes of arrays.
    return ShapeDtype(tuple(map(int.__floordiv__, x.shape, counts)), x.dtype, x.weak)


def _batch(primitive: Primitive, values: Any, flags: Any, params: dict[str, Any]) -> Array:
    """Batches by leaving the batch axis whole."""
    return primitive.bind(values, {**params, "cuts": ((), *params["cuts"])})


shard = Primitive(
    "shard",
    compute=_cut,
    infer=_infer_cut,
    batch=_batch,
    vjp=(lambda g, *, cuts, rest: ops.join_shards(g, cuts=cuts, rest=rest, adds=True),),
    linear=True,
    reference=lambda x, cuts, rest: x,
    samples=[
        Sample((2, 3), cuts=((), ()), rest=()), Sample((), cuts=(), rest=()),
        Sample((0, 3), cuts=((),), rest=()),
    ],
    dtypes="fdD",
    doc="Returns the part of an array that a process has.",
)


def _join_parts(
    xp: ArrayModule, x: Buffer, *, cuts: Cuts, rest: tuple[Any, ...], adds: bool
) -> Buffer:
    x = xp.asarray(x)
    if rest:
        if adds:
            x = rest[0].collect("psum", x, rest, {})
        else:
            rest[0].check_same("output", x, rest)
    for place, axes in enumerate(cuts):
        if axes:
            rows = axes[0].collect("all_gather", x, axes, {"axis": place})
            shape = rows.shape
            length = shape[place] * shape[place + 1]
            x = rows.reshape((*shape[:place], length, *shape[place + 2 :]))
    return x[()]


def _infer_joined(primitive: Primitive, x: ShapeDtype, *, cuts: Cuts, **rest: Any) -> ShapeDtype:
    return ShapeDtype(tuple(map(int.__mul__, x.shape, part_counts(cuts, len(x.shape)))), x.dtype)


def _share(g: Value, cuts: Cuts, rest: tuple[Any, ...], adds: bool) -> Array:
    part = ops.shard(g, cuts=cuts, rest=rest)
    count = 1 if adds else prod(axis.size for axis in rest)
    return part if count == 1 else ops.divide(part, count)


class _Join(Primitive):
    """The class of the join of parts."""

    collective = True

    def exchanges(self, params: Mapping[str, Any]) -> bool:
        # Where it adds nothing up it may compare.
        return any(params["cuts"]) or bool(params["rest"])


join_shards = _Join(
    "join_shards",
    compute=_join_parts,
    infer=_infer_joined,
    batch=_batch,
    vjp=(lambda g, *, cuts, rest, adds: _share(g, cuts, rest, adds),),
    linear=True,
    reference=lambda x, cuts, rest, adds: x,
    samples=[
        Sample((2, 3), cuts=((), ()), rest=(), adds=True),
        Sample((), cuts=(), rest=(), adds=False),
        Sample((0, 3), cuts=((),), rest=(), adds=True),
    ],
    dtypes="fdD",
    doc="Returns the whole array of the parts that processes have.",
)
