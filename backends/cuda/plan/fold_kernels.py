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
from .map_kernels import load_packs, pack_name, pack_type, store_element, store_packs
from .points import Points, PointSegment

if TYPE_CHECKING:
    from ...annotations import DType
    from ...kernels.graph import Expr, GridAxes
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
# Neighbouring columns of a thread, and the folds of such threads; as much of that memory.
WIDEST_COLUMNS, MOST_FOLDS_OF_WIDE_COLUMNS = 4, 4


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


def begun(text: KernelText, sinks: Sequence[FoldSink], width: int = 1) -> None:
    """Adds what folds begin with, of so many neighbours."""
    for sink in sinks:
        first = shown_number(fold_identity(sink.fold.detail, sink.fold.dtype))
        kind = accumulator_type(sink.fold.dtype)
        if width == 1:
            text.add(f"{kind} f{sink.fold.number} = {first};")
        else:
            text.add(f"{kind} f{sink.fold.number}[{width}] = {{{', '.join([first] * width)}}};")


def fold_one_more(text: KernelText, sink: FoldSink, value: str, at: str = "") -> None:
    """Adds one more number to a fold; ``at`` says which of neighbours."""
    name, kind = f"f{sink.fold.number}{at}", accumulator_type(sink.fold.dtype)
    text.add(f"{name} = {fold_functor(sink.fold.detail)}()({name}, ({kind}){value});")


def over_block(text: KernelText, sinks: Sequence[FoldSink]) -> None:
    """Adds the folds of what all threads of a block have found."""
    for sink in sinks:
        name, dtype = f"f{sink.fold.number}", sink.fold.dtype
        first = shown_number(fold_identity(sink.fold.detail, dtype))
        kind, functor = accumulator_type(dtype), fold_functor(sink.fold.detail)
        text.add(f"{name} = block_reduce({name}, {functor}(), ({kind}){first});")


def store_fold(text: KernelText, sink: FoldSink, points: Points, at: str = "") -> None:
    """Adds the stores of a complete fold; ``at`` says which of neighbours."""
    for room, divisor in sink.rooms:
        value = f"f{sink.fold.number}{at}"
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
    width = width_of_columns(source, sinks, stored, rows, over) if across else 1
    groups = -(-count // (columns * width))
    share = threads // columns * FEWEST_POINTS // width
    parts = max(min(ENOUGH_BLOCKS // groups, -(-length // share)), 1)
    text = KernelText(name, threads, source.place_type)
    points = Points(source.lengths, [PointSegment(rows, "k"), PointSegment(over, "g")])
    outer = Points(source.lengths, [PointSegment(rows, "k")])
    final = sinks
    if parts > 1:
        final = [sink_of_parts(source, sink, parts, count) for sink in sinks]
    body = FoldBody(source, text, points, outer, final, stored)
    if width > 1:
        body.across_packs(count, length, ColumnBlock(columns, threads // columns, width), parts)
    elif across:
        body.across(count, length, ColumnBlock(columns, threads // columns, 1), parts)
    else:
        body.along(length, parts)
    kernels = [text.finished([groups, parts], width)]
    if parts > 1:
        kernels.append(finishing_kernel(source, f"{name}_end", final, sinks, parts, count))
    return kernels


def width_of_columns(
    source: RegionRooms,
    sinks: Sequence[FoldSink],
    stored: Sequence[StoreSink],
    rows: Sequence[int],
    over: Sequence[int],
) -> int:
    """Returns how many neighbouring columns a thread folds, which one instruction loads."""
    width = min(source.width, WIDEST_COLUMNS)
    few = len(sinks) > MOST_FOLDS_OF_WIDE_COLUMNS or source.lanes == 1
    count = prod(source.lengths[a] for a in rows)
    if few or count % width or count < COLUMNS * width:
        return 1
    points = columns_of(source, rows, over, "first")
    rooms = [sink.room.strides or {} for sink in stored]
    return width if all(points.is_packed(strides, width) for strides in rooms) else 1


def columns_of(
    source: RegionRooms, rows: Sequence[int], over: Sequence[int], number: str
) -> Points:
    """Returns the points of columns, whose neighbours are neighbours in memory."""
    segments = [PointSegment(tuple(over), "g"), PointSegment(tuple(rows), number)]
    return Points(source.lengths, segments)


def sink_of_parts(source: RegionRooms, sink: FoldSink, parts: int, count: int) -> FoldSink:
    """Returns a fold whose parts are stored, one behind the other."""
    room = source.scratch_room((parts, count), memory_dtype(sink.fold.dtype), {})
    return FoldSink(sink.fold, [(room, 1)])


def memory_dtype(dtype: DType) -> DType:
    """Returns the dtype in which parts lie in memory: that in which they are folded."""
    if dtype.char in "eE":
        return np.dtype(np.float32)
    return np.dtype(np.int32) if accumulator_type(dtype) == "int" else dtype


class ColumnBlock(NamedTuple):
    """The threads of a block that folds columns.

    Attributes:
        columns: how many threads there are side by side.
        rows: how many go over the same columns.
        width: the neighbouring columns of a thread.
    """

    columns: int
    rows: int
    width: int


def name_threads(text: KernelText, place: str, block: ColumnBlock) -> None:
    """Adds the numbers of a thread: of its columns within the block, and of its points."""
    columns = block.columns
    text.add(f"const {place} column = threadIdx.x % {columns}, row = threadIdx.x / {columns};")


def share_found(text: KernelText, sinks: Sequence[FoldSink], block: ColumnBlock) -> None:
    """Adds the stores of what threads have found, where the first row of threads reads it."""
    width, columns = block.width, block.columns
    for sink in sinks:
        kind = accumulator_type(sink.fold.dtype)
        shared, found = f"shared_{sink.fold.number}", f"f{sink.fold.number}"
        text.add(f"__shared__ {kind} {shared}[{block.rows}][{width * columns} + 1];")
        if width == 1:
            text.add(f"{shared}[row][column] = {found};")
        for lane in range(width) if width > 1 else ():
            text.add(f"{shared}[row][{lane * columns} + column] = {found}[{lane}];")
    text.add("__syncthreads();")


def add_rows(text: KernelText, sinks: Sequence[FoldSink], block: ColumnBlock) -> None:
    """Adds the folds of what other rows of threads have found."""
    if block.rows == 1:
        return
    at, place = "", "column"
    if block.width > 1:
        at, place = "[lane]", f"lane * {block.columns} + column"
    text.unroll()
    text.open(f"for (int other = 1; other < {block.rows}; ++other)")
    for sink in sinks:
        fold_one_more(text, sink, f"shared_{sink.fold.number}[other][{place}]", at)
    text.close()


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

    def across(self, count: int, length: int, block: ColumnBlock, parts: int) -> None:
        """Writes a block for some neighbouring folds: a thread has one, and some of its points."""
        text, place = self.text, self.source.place_type
        name_threads(text, place, block)
        text.add(f"{UNUSED} const {place} part = blockIdx.y;")
        text.add(f"const {place} k = blockIdx.x * ({place}){block.columns} + column;")
        begun(text, self.sinks)
        text.open(f"if (k < {count})")
        text.compute(self.once, self.outer, self.source.rooms, {})
        text.unroll("4")
        self._loop(self._over_points(length, block, parts))
        text.close()
        share_found(text, self.sinks, block)
        text.open(f"if (row == 0 && k < {count})")
        add_rows(text, self.sinks, block)
        self._store(parts)
        text.close()

    def across_packs(self, count: int, length: int, block: ColumnBlock, parts: int) -> None:
        """Writes the same where a thread has neighbouring folds, which it loads at once."""
        text, place = self.text, self.source.place_type
        width, source = block.width, self.source
        rows, over = (tuple(sorted(axes)) for axes in self._kept_and_gone())
        self.points = columns_of(source, rows, over, "k")
        at_first = columns_of(source, rows, over, "first")
        name_threads(text, place, block)
        text.add(f"{UNUSED} const {place} part = blockIdx.y;")
        thread = f"blockIdx.x * ({place}){block.columns} + column"
        text.add(f"const {place} first = ({thread}) * {width};")
        begun(text, self.sinks, width)
        text.open(f"if (first < {count})")
        packs = load_packs(text, self.once, at_first, source.rooms, width)
        text.unroll("2")
        text.open(self._over_points(length, block, parts))
        packs |= load_packs(text, self.needed - self.once, at_first, source.rooms, width)
        for store in self.stored:
            text.add(f"{pack_type(store.room, width)} {pack_name(store.room)};")
        names = dict(text.names)
        self._open_lanes(width)
        text.compute(self.needed, self.points, source.rooms, packs)
        for sink in self.sinks:
            fold_one_more(text, sink, text.names[sink.fold.operands[0]], "[lane]")
        for store in self.stored:
            store_element(text, store.node, store.room, self.points, width)
        text.close()
        text.names = names
        store_packs(text, [store.room for store in self.stored], at_first, width)
        text.close()
        text.close()
        share_found(text, self.sinks, block)
        text.open(f"if (row == 0 && first < {count})")
        self._open_lanes(width)
        add_rows(text, self.sinks, block)
        self._store(parts, "[lane]")
        text.close()
        text.close()

    def _kept_and_gone(self) -> tuple[GridAxes, GridAxes]:
        fold = self.sinks[0].fold
        return fold.axes, fold.operands[0].axes - fold.axes

    def _over_points(self, length: int, block: ColumnBlock, parts: int) -> str:
        """Returns the head of the loop over a thread's points."""
        place, rows = self.source.place_type, block.rows
        begin = f"part * {rows} + row" if parts > 1 else "row"
        return f"for ({place} g = {begin}; g < {length}; g += {parts * rows})"

    def _open_lanes(self, width: int) -> None:
        """Opens the loop over neighbouring columns."""
        self.text.unroll()
        self.text.open(f"for (int lane = 0; lane < {width}; ++lane)")
        self.text.add(f"{UNUSED} const {self.source.place_type} k = first + lane;")

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

    def _store(self, parts: int, at: str = "") -> None:
        for sink in self.sinks:
            if parts == 1:
                store_fold(self.text, sink, self.outer, at)
            else:
                ((room, _),) = sink.rooms
                count = self.source.scratch[room.place.number].shape[1]
                target = f"{self.text.written(room)}[part * {count} + k]"
                self.text.add(f"{target} = f{sink.fold.number}{at};")


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
    threads = FOLD_THREADS if source.lanes > 1 else 1
    columns = min(COLUMNS, threads) if is_across(sinks[0].fold) else 1
    block = ColumnBlock(columns, threads // columns, 1)
    text = KernelText(name, threads, place)
    begin, step, writes = "threadIdx.x", threads, "threadIdx.x == 0"
    if columns == 1:
        text.add(f"{UNUSED} const {place} k = blockIdx.x;")
    else:
        name_threads(text, place, block)
        text.add(f"const {place} k = blockIdx.x * ({place}){columns} + column;")
        begin, step, writes = "row", block.rows, f"row == 0 && k < {count}"
    begun(text, sinks)
    inside = f"part < {parts}" if columns == 1 else f"k < {count} && part < {parts}"
    text.open(f"for (int part = {begin}; {inside}; part += {step})")
    for sink, parted in zip(sinks, made, strict=True):
        ((room, _),) = parted.rooms
        fold_one_more(text, sink, f"{text.read(room)}[part * {count} + k]")
    text.close()
    if columns == 1:
        over_block(text, sinks)
    else:
        share_found(text, sinks, block)
    text.open(f"if ({writes})")
    if columns > 1:
        add_rows(text, sinks, block)
    rows = tuple(sorted(sinks[0].fold.axes))
    for sink in sinks:
        store_fold(text, sink, Points(source.lengths, [PointSegment(rows, "k")]))
    text.close()
    return text.finished([-(-count // columns)])
