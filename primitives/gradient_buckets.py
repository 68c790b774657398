"""Means over processes of many arrays at once, which go on their way while others are computed.

``begin_mean`` puts arrays into one bucket, and has the processes begin to average their buckets;
``end_mean`` waits for the mean. The value between the two is memory that is still being written:
it is for ``end_mean`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

from ..backends.annotations import ArrayModule, Buffer
from ..backends.devices import backend_of
from .core.annotations import Value
from .core.annotations import operations as ops
from .core.array import Array
from .core.derivative_rules import shape_of
from .core.families import filled_operands
from .core.primitive import Primitive
from .core.shape_dtype import ShapeDtype
from .core.test_samples import Sample

__all__ = ["begin_mean", "end_mean", "keep", "let_go", "let_go_of_thread", "shard_length"]


class _Mean:
    """A mean on its way.

    Attributes:
        pending: what it is waited for by.
        memory: the memory that stands for it.
        thread: the thread whose plan began it; 0 where something that is no plan looks after it.
    """

    __slots__ = ("memory", "pending", "thread")

    def __init__(self, pending: Any, memory: Buffer) -> None:
        self.pending = pending
        self.memory = memory
        self.thread = get_ident()


# Means on their way, by the address of the memory that stands for them.
_on_their_way: dict[int, _Mean] = {}
# Those that nobody waits for, until they are there.
_unwanted: dict[int, _Mean] = {}


def shard_length(size: int, count: int) -> int:
    """Returns how many of an array's elements each of so many processes has, the last ones filled.

    >>> shard_length(10, 4)
    3
    """
    return -(-size // count)


class _Exchange(Primitive):
    """The class of both halves of a mean over processes."""

    collective = True

    def exchanges(self, params: Mapping[str, Any]) -> bool:
        return bool(params["axis_name"])


def _processes_along(axis_name: tuple[Any, ...]) -> int:
    return prod(axis.size for axis in axis_name)


def _bucket(xp: ArrayModule, xs: Sequence[Buffer], lead: int, count: int, owned: bool) -> Buffer:
    """Returns arrays one behind the other; where there is a count, cut into so many rows.

    If it is to be owned it has memory of its own.
    """
    rows = []
    for x in map(xp.asarray, xs):
        head, size = x.shape[:lead], prod(x.shape[lead:])
        row = x.reshape((*head, size))
        if count:
            length = shard_length(size, count)
            if length * count > size:
                row = xp.pad(row, (*((0, 0),) * lead, (0, length * count - size)))
            row = xp.moveaxis(row.reshape((*head, count, length)), lead, 0)
        rows.append(row)
    if len(rows) == 1 and not owned:
        return rows[0]
    # CuPy's concatenation reads a table of the host's, which no graph of a GPU takes.
    ends = [*accumulate((row.shape[-1] for row in rows), initial=0)]
    bucket: Buffer = xp.empty((*rows[0].shape[:-1], ends[-1]), rows[0].dtype)
    places = [bucket[..., begin:end] for begin, end in pairwise(ends)]
    backend_of(bucket).copy_all([*zip(rows, places, strict=True)])
    return bucket


def _begin_mean(
    xp: ArrayModule,
    *xs: Buffer,
    axis_name: tuple[Any, ...],
    scatter: bool,
    lead: int,
    owned: bool = True,
) -> Buffer:
    # What follows may write to the operands, unless a plan says that it does not. One process has
    # what it begins for a mean, which must not be an operand.
    count = _processes_along(axis_name)
    owned = owned or count == 1
    bucket = _bucket(xp, xs, lead, count if scatter else 0, owned)
    if not axis_name:
        row: Buffer = bucket[0] if scatter else bucket
        return row
    for earlier in [*_on_their_way.values()]:
        earlier.pending.advance()
    for place, earlier in [*_unwanted.items()]:
        if earlier.pending.advance():
            _unwanted.pop(place, None)
    name = "begin_scattered_mean" if scatter else "begin_mean"
    params = {"owned": owned or len(xs) > 1}
    pending = axis_name[0].collect(name, bucket, axis_name, params)
    out: Buffer = pending.out
    if out.dtype != bucket.dtype:
        # The mean is in a wider dtype; other memory stands for it.
        out = xp.empty(bucket.shape[1:] if scatter else bucket.shape, bucket.dtype)
    if out.size:
        _on_their_way[_address(out)] = _Mean(pending, out)
    return out


def keep(x: Buffer) -> None:
    """Has a mean that `begin_mean` began stay begun until it is ended, or let go of."""
    known = _on_their_way.get(_address(x))
    if known is not None:
        known.thread = 0


def let_go(x: Buffer) -> None:
    """Has a mean that `begin_mean` began wanted by nobody; its memory goes when it is there."""
    known = _on_their_way.pop(_address(x), None)
    if known is not None:
        _unwanted[id(known)] = known


def let_go_of_thread() -> None:
    """Lets go of the means that a plan of this thread began, which an error has ended."""
    thread = get_ident()
    for known in [*_on_their_way.values()]:
        if known.thread == thread:
            let_go(known.memory)


def _address(x: Any) -> int:
    """Returns where an array's elements begin."""
    if isinstance(x, np.ndarray):
        return int(x.__array_interface__["data"][0])
    return int(x.data.ptr)


def _infer_begin(
    primitive: Primitive, *xs: ShapeDtype, axis_name: tuple[Any, ...], scatter: bool, lead: int
) -> ShapeDtype:
    lengths = [prod(x.shape[lead:]) for x in xs]
    if scatter:
        count = _processes_along(axis_name)
        lengths = [shard_length(n, count) for n in lengths]
    return ShapeDtype((*xs[0].shape[:lead], sum(lengths)), xs[0].dtype)


def _begin_pullback(
    g: Array, xs: Sequence[Any], *, axis_name: tuple[Any, ...], scatter: bool, lead: int
) -> list[Any]:
    count = _processes_along(axis_name)
    if scatter:
        g = ops.all_gather(g, axis_name=axis_name, axis=lead, size=count)
    elif axis_name:
        g = ops.psum(g, axis_name=axis_name)
    if count > 1:
        g = ops.divide(g, count)
    parts, end = [], 0
    for shape in map(shape_of, xs):
        head, size = shape[:lead], prod(shape[lead:])
        length = shard_length(size, count) if scatter else size
        start, end = end, end + length
        part = g[..., start:end]
        if scatter:
            part = ops.reshape(part, (*head, count * length))[..., :size]
        parts.append(ops.reshape(part, shape))
    return parts


def _batch_begin(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    return primitive.bind(
        filled_operands(values, flags), {**params, "lead": params["lead"] + 1}
    )


begin_mean: Primitive = _Exchange(
    "begin_mean",
    compute=_begin_mean,
    infer=_infer_begin,
    batch=_batch_begin,
    keep=lambda ans, xs: (None, *map(shape_of, xs)),
    pullback=_begin_pullback,
    pushforward=lambda ts, **params: begin_mean.bind(ts, params),
    dtypes="fdD",
    reference=lambda *xs, axis_name, scatter, lead: np.concatenate([np.ravel(x) for x in xs]),
    samples=[
        Sample((2, 3), (4,), (), axis_name=(), scatter=False, lead=0),
        Sample((0, 3), (2,), axis_name=(), scatter=False, lead=0),
        Sample((2, 3), (), axis_name=(), scatter=True, lead=0),
    ],
    doc="Begins to average arrays over processes, all of them in one bucket.",
)


def _end_mean(xp: ArrayModule, x: Buffer, *, axis_name: tuple[Any, ...], parts: int) -> Buffer:
    mean: Any = xp.asarray(x)
    if axis_name and mean.size:
        mean = _on_their_way.pop(_address(mean)).pending.result()
    out: Buffer = mean if parts == 1 else (mean / mean.dtype.type(parts))[()]
    return out


end_mean: Primitive = _Exchange(
    "end_mean",
    compute=_end_mean,
    infer=lambda primitive, x, **params: x.strong(),
    batch=lambda primitive, values, flags, params: primitive.bind(values, params),
    vjp=(lambda g, *, parts: g if parts == 1 else ops.divide(g, parts),),
    jvp=(lambda g, **params: end_mean.bind((g,), params),),
    dtypes="fdD",
    reference=lambda x, axis_name, parts: x / parts,
    samples=[
        Sample((4,), axis_name=(), parts=2), Sample((0,), axis_name=(), parts=3),
        Sample((2, 3), axis_name=(), parts=1),
    ],
    doc="Waits for the mean that `begin_mean` began, and divides it by the parts of a batch.",
)
