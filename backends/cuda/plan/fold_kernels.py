"""Kernels that fold over axes, and store at the points that they go over.

Where one block would have too many points, several have parts of them, and a second kernel folds
what they found, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...kernels.kernel import fold_identity
from .cpp import fold_functor, held_type, shown_number
from .kernel_text import UNUSED, GeneratedKernel, KernelText, Room
from .points import Points, PointSegment

if TYPE_CHECKING:
    from ...annotations import DType
    from ...kernels.graph import Expr
    from .map_kernels import StoreSink
    from .region_rooms import RegionRooms

__all__ = [
    *("MOST_FOLDS_OF_COLUMNS", "FoldSink", "accumulator_type", "fold_kernels", "is_across"),
    "store_fold",
]

FOLD_THREADS = 256
# Blocks that keep a large GPU busy, and the points that a thread has at least if there are more.
ENOUGH_BLOCKS, FEWEST_POINTS = 1024, 16
# The columns of a block that folds columns.
COLUMNS = 32
# Each of them has up to 2112 of the 49,152 bytes of a block's shared memory.
MOST_FOLDS_OF_COLUMNS = 16


class FoldSink(NamedTuple):
    """A fold that is stored.

    Attributes:
        fold: the fold.
        rooms: where it is stored, and by what it is divided there.
    """

    fold: Expr
    rooms: Sequence[tuple[Room, int]]


def accumulator_type(dtype: DType) -> str:
    """Returns the type in which a fold is made: warps pass no smaller whole numbers."""
    return "int" if dtype.kind in "biu" and dtype.itemsize < 4 else held_type(dtype)


def begun(text: KernelText, sinks: Sequence[FoldSink]) -> None:
    """Adds what folds begin with."""
    for sink in sinks:
        first = shown_number(fold_identity(sink.fold.detail, sink.fold.dtype))
        kind = accumulator_type(sink.fold.dtype)
        text.add(f"{kind} f{sink.fold.number} = {first};")


def fold_one_more(text: KernelText, sink: FoldSink, value: str) -> None:
    """Adds one more number to a fold."""
    name, kind = f"f{sink.fold.number}", accumulator_type(sink.fold.dtype)
    text.add(f"{name} = {fold_functor(sink.fold.detail)}()({name}, ({kind}){value});")


def over_block(text: KernelText, sinks: Sequence[FoldSink]) -> None:
    """Adds the folds of what all threads of a block have found."""
    for sink in sinks:
        name, dtype = f"f{sink.fold.number}", sink.fold.dtype
        first = shown_number(fold_identity(sink.fold.detail, dtype))
        kind, functor = accumulator_type(dtype), fold_functor(sink.fold.detail)
        text.add(f"{name} = block_reduce({name}, {functor}(), ({kind}){first});")


def store_fold(text: KernelText, sink: FoldSink, points: Points) -> None:
    """Adds the stores of a complete fold."""
    for room, divisor in sink.rooms:
        value = f"f{sink.fold.number}"
        if divisor != 1:
            value = f"{value} / {shown_number(sink.fold.dtype.type(divisor))}"
        text.store(room, points, value)


def is_across(fold: Expr) -> bool:
    """Says whether neighbours in memory are of different folds, as in sums of columns."""
    kept = fold.axes
    return bool(kept) and max(kept) > max(fold.operands[0].axes - kept)


def fold_kernels(
    source: RegionRooms, name: str, sinks: Sequence[FoldSink], stored: Sequence[StoreSink]
) -> list[GeneratedKernel]:
    """Returns the kernels of folds of nodes with the same axes over the same axes.

    Args:
        source: the kernels of the region.
        name: the name of the first of them.
        sinks: the folds.
        stored: what is stored at the points.
    """
    axes, kept = sinks[0].fold.operands[0].axes, sinks[0].fold.axes
    over = tuple(sorted(axes - kept))
    rows = tuple(sorted(kept))
    count = prod(source.lengths[a] for a in rows)
    length = prod(source.lengths[a] for a in over)
    across = is_across(sinks[0].fold)
    threads = FOLD_THREADS if source.lanes > 1 else 1
    columns = min(COLUMNS, threads) if across else 1
    groups = -(-count // columns)
    share = threads // columns * FEWEST_POINTS
    parts = max(min(ENOUGH_BLOCKS // groups, -(-length // share)), 1)
    text = KernelText(name, threads, source.place_type)
    points = Points(source.lengths, [PointSegment(rows, "k"), PointSegment(over, "g")])
    outer = Points(source.lengths, [PointSegment(rows, "k")])
    final = sinks
    if parts > 1:
        final = [sink_of_parts(source, sink, parts, count) for sink in sinks]
    body = FoldBody(source, text, points, outer, final, stored)
    if across:
        body.across(count, length, columns, threads // columns, parts)
    else:
        body.along(length, parts)
    kernels = [text.finished([groups, parts])]
    if parts > 1:
        kernels.append(finishing_kernel(source, f"{name}_end", final, sinks, parts, count))
    return kernels


def sink_of_parts(source: RegionRooms, sink: FoldSink, parts: int, count: int) -> FoldSink:
    """Returns a fold whose parts are stored, one behind the other."""
    room = source.scratch_room((parts, count), memory_dtype(sink.fold.dtype), {})
    return FoldSink(sink.fold, [(room, 1)])


def memory_dtype(dtype: DType) -> DType:
    """Returns the dtype in which parts lie in memory: that in which they are folded."""
    if dtype.char in "eE":
        return np.dtype(np.float32)
    return np.dtype(np.int32) if accumulator_type(dtype) == "int" else dtype


class FoldBody:
    """Writes the loop of a kernel that folds.

    Args:
        source: the kernels of the region.
        text: the kernel.
        points: the points of all axes.
        outer: those of the axes that are kept.
        sinks: the folds, all over the same axes.
        stored: what is stored at the points.
    """

    def __init__(
        self,
        source: RegionRooms,
        text: KernelText,
        points: Points,
        outer: Points,
        sinks: Sequence[FoldSink],
        stored: Sequence[StoreSink],
    ) -> None:
        self.source = source
        self.text = text
        self.points = points
        self.outer = outer
        self.sinks = sinks
        self.stored = stored
        targets = [sink.fold.operands[0] for sink in sinks] + [sink.node for sink in stored]
        self.needed = source.needed(targets)
        kept = sinks[0].fold.axes
        # What is the same for all points that are folded is computed once.
        self.once = {x for x in self.needed if x.axes <= kept}

    def along(self, length: int, parts: int) -> None:
        """Writes a block for each fold: its threads go over neighbours."""
        text, place = self.text, self.source.place_type
        text.add(f"{UNUSED} const {place} k = blockIdx.x;")
        text.add(f"{UNUSED} const {place} part = blockIdx.y;")
        text.compute(self.once, self.outer, self.source.rooms, {})
        begun(text, self.sinks)
        text.unroll("4")
        step = f"({place}){text.threads}"
        begin = f"part * {step} + threadIdx.x" if parts > 1 else "threadIdx.x"
        self._loop(f"for ({place} g = {begin}; g < {length}; g += {parts} * {step})")
        over_block(text, self.sinks)
        text.open("if (threadIdx.x == 0)")
        self._store(parts)
        text.close()

    def across(self, count: int, length: int, columns: int, rows: int, parts: int) -> None:
        """Writes a block for some neighbouring folds: a thread has one, and some of its points."""
        text, place = self.text, self.source.place_type
        text.add(f"const {place} column = threadIdx.x % {columns}, row = threadIdx.x / {columns};")
        text.add(f"const {place} k = blockIdx.x * ({place}){columns} + column;")
        text.add(f"{UNUSED} const {place} part = blockIdx.y;")
        begun(text, self.sinks)
        text.open(f"if (k < {count})")
        text.compute(self.once, self.outer, self.source.rooms, {})
        text.unroll("4")
        begin = f"part * {rows} + row" if parts > 1 else "row"
        self._loop(f"for ({place} g = {begin}; g < {length}; g += {parts * rows})")
        text.close()
        for sink in self.sinks:
            kind = accumulator_type(sink.fold.dtype)
            shared = f"shared_{sink.fold.number}"
            text.add(f"__shared__ {kind} {shared}[{rows}][{columns} + 1];")
            text.add(f"{shared}[row][column] = f{sink.fold.number};")
        text.add("__syncthreads();")
        text.open(f"if (row == 0 && k < {count})")
        if rows > 1:
            text.unroll()
            text.open(f"for (int other = 1; other < {rows}; ++other)")
            for sink in self.sinks:
                fold_one_more(text, sink, f"shared_{sink.fold.number}[other][column]")
            text.close()
        self._store(parts)
        text.close()

    def _loop(self, head: str) -> None:
        text = self.text
        names = dict(text.names)
        text.open(head)
        text.compute(self.needed, self.points, self.source.rooms, {})
        for sink in self.sinks:
            fold_one_more(text, sink, text.names[sink.fold.operands[0]])
        for store in self.stored:
            text.store(store.room, self.points, text.names[store.node])
        text.close()
        text.names = names

    def _store(self, parts: int) -> None:
        for sink in self.sinks:
            if parts == 1:
                store_fold(self.text, sink, self.outer)
            else:
                ((room, _),) = sink.rooms
                count = self.source.scratch[room.place.number].shape[1]
                target = f"{self.text.written(room)}[part * {count} + k]"
                self.text.add(f"{target} = f{sink.fold.number};")


def finishing_kernel(
    source: RegionRooms,
    name: str,
    made: Sequence[FoldSink],
    sinks: Sequence[FoldSink],
    parts: int,
    count: int,
) -> GeneratedKernel:
    """Returns the kernel that folds the parts of folds.

    Args:
        source: the kernels of the region.
        name: its name.
        made: where the parts are.
        sinks: where folds are to be stored.
        parts: how many parts a fold has.
        count: the number of folds.
    """
    place = source.place_type
    text = KernelText(name, FOLD_THREADS if source.lanes > 1 else 1, place)
    text.add(f"{UNUSED} const {place} k = blockIdx.x;")
    begun(text, sinks)
    text.open(f"for (int part = threadIdx.x; part < {parts}; part += {text.threads})")
    for sink, parted in zip(sinks, made, strict=True):
        ((room, _),) = parted.rooms
        fold_one_more(text, sink, f"{text.read(room)}[part * {count} + k]")
    text.close()
    over_block(text, sinks)
    text.open("if (threadIdx.x == 0)")
    rows = tuple(sorted(sinks[0].fold.axes))
    for sink in sinks:
        store_fold(text, sink, Points(source.lengths, [PointSegment(rows, "k")]))
    text.close()
    return text.finished([count])


