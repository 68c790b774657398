"""Kernels that go over points and store what they find there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ...kernels.efforts import operation_effort
from .cpp import MEMORY_TYPES, is_reciprocal
from .kernel_text import UNUSED, GeneratedKernel, KernelText, Room
from .points import Points, PointSegment

if TYPE_CHECKING:
    from ...kernels.graph import Expr, GridAxes
    from .region_rooms import RegionRooms

__all__ = [
    "MAP_THREADS",
    "StoreSink",
    "load_packs",
    "map_kernel",
    "pack_name",
    "pack_type",
    "store_element",
    "store_packs",
]

MAP_THREADS = 256
# Kernels without branches, and of no more effort, gain by two packs for each thread from so many
# points on. Those that memory alone bounds lose by it.
PACKS_OF_THREAD, THREADS_OF_PACKS = 2, 128
FEWEST_OF_PACKS, MOST_EFFORT_OF_PACKS = 1 << 24, 128
# Threads have several elements from so many points on: four, or two of many arrays or large words.
FEWEST_OF_ELEMENTS, FEW_ARRAYS, LARGEST_WORD = 1 << 20, 3, 4


class StoreSink(NamedTuple):
    """A node that is stored.

    Attributes:
        node: the node.
        axes: the axes that it is stored with.
        room: where it is stored.
    """

    node: Expr
    axes: GridAxes
    room: Room


def map_kernel(
    source: RegionRooms, name: str, axes: GridAxes, sinks: Sequence[StoreSink]
) -> GeneratedKernel:
    """Returns the kernel that stores nodes at all points of some axes."""
    body = MapBody(source, name, tuple(sorted(axes)), sinks)
    if body.size % source.width == 0 and source.width > 1:
        return body.by_packs(source.width)
    return body.by_elements()


class MapBody:
    """Writes a kernel that goes over points.

    Args:
        source: the kernels of the region.
        name: its name.
        order: the axes of the points.
        sinks: what is stored.
    """

    def __init__(
        self, source: RegionRooms, name: str, order: tuple[int, ...], sinks: Sequence[StoreSink]
    ) -> None:
        self.source = source
        self.name = name
        self.sinks = sinks
        self.size = prod(source.lengths[a] for a in order)
        self.points = Points(source.lengths, [PointSegment(order, "i")])
        self.at_first = Points(source.lengths, [PointSegment(order, "first")])
        self.needed = source.needed([sink.node for sink in sinks])
        self.computed = self.needed - source.rooms.keys()
        self.arrays = [
            node
            for node in sorted(self.needed - self.computed, key=lambda x: x.number)
            if source.rooms[node].strides
        ]
        self.text = self._begun(MAP_THREADS)

    def _begun(self, threads: int) -> KernelText:
        place, lanes = self.source.place_type, self.source.lanes
        return KernelText(self.name, threads if lanes > 1 else 1, place, shares=True)

    # -- neighbours, which one instruction loads or stores

    def by_packs(self, width: int) -> GeneratedKernel:
        """Returns the kernel whose threads have one pack of elements each, or several."""
        quick = any(map(is_reciprocal, self.computed))
        effort = sum(map(operation_effort, self.computed))
        if quick and self.size >= FEWEST_OF_PACKS and effort <= MOST_EFFORT_OF_PACKS:
            self.text = self._begun(THREADS_OF_PACKS)
            self._packs(width)
            step = self.text.threads * width * PACKS_OF_THREAD
        else:
            self._pack(width, quick)
            step = self.text.threads * width
        return self.text.finished([-(-self.size // step)], width)

    def _pack(self, width: int, quick: bool) -> None:
        text, place = self.text, self.source.place_type
        thread = f"blockIdx.x * ({place}){text.threads} + threadIdx.x"
        text.add(f"const {place} first = ({thread}) * {width};")
        text.add(f"if (first >= {self.size}) return;")
        packs = load_packs(text, self.needed, self.at_first, self.source.rooms, width)
        self._computed_packs(width, packs, quick)

    def _packs(self, width: int) -> None:
        """Writes a thread's packs, as far from each other as those of a block reach."""
        text, rooms, place = self.text, self.source.rooms, self.source.place_type
        step = text.threads * width
        text.add(f"const {place} block = blockIdx.x * ({place}){step * PACKS_OF_THREAD};")
        at = f"block + pack_number * {step} + threadIdx.x * {width}"
        loaded = [x for x in self.arrays if self.at_first.is_packed(rooms[x].strides or {}, width)]
        for node in loaded:
            text.add(f"{pack_type(rooms[node], width)} w{node.number}[{PACKS_OF_THREAD}];")
        self._open("pack_number", PACKS_OF_THREAD, "first", at)
        text.open(f"if (first < {self.size})")
        for node in loaded:
            pack = pack_at(text, rooms[node], self.at_first, width)
            text.add(f"w{node.number}[pack_number] = {pack};")
        text.close()
        text.close()
        self._open("pack_number", PACKS_OF_THREAD, "first", at)
        text.add(f"if (first >= {self.size}) return;")
        packs = {node: f"w{node.number}[pack_number][lane]" for node in loaded}
        self._computed_packs(width, packs, True)
        text.close()

    def _computed_packs(self, width: int, packs: Mapping[Expr, str], quick: bool) -> None:
        for sink in self.sinks:
            self.text.add(f"{pack_type(sink.room, width)} {pack_name(sink.room)};")
        self._compute(width, "first + lane", packs, quick)
        store_packs(self.text, [sink.room for sink in self.sinks], self.at_first, width)

    # -- elements that are loaded one by one

    def by_elements(self) -> GeneratedKernel:
        """Returns the kernel whose threads have one element each, or several."""
        rooms = [self.source.rooms[x] for x in self.arrays] + [sink.room for sink in self.sinks]
        wide = len(rooms) > FEW_ARRAYS or any(r.dtype.itemsize > LARGEST_WORD for r in rooms)
        count = 1 if self.size < FEWEST_OF_ELEMENTS else 2 if wide else 4
        if count > 1:
            self._elements(count)
        else:
            self._element()
        return self.text.finished([-(-self.size // (self.text.threads * count))])

    def _element(self) -> None:
        text, place = self.text, self.source.place_type
        text.add(f"const {place} i = blockIdx.x * ({place}){text.threads} + threadIdx.x;")
        text.add(f"if (i >= {self.size}) return;")
        text.compute(self.needed, self.points, self.source.rooms, {})
        for sink in self.sinks:
            text.store(sink.room, self.points, text.names[sink.node])

    def _elements(self, count: int) -> None:
        """Writes a thread's elements, as far from each other as a block has threads.

        All of them are loaded before the first is stored. What is computed behind the last point
        is not stored.
        """
        text, rooms, place = self.text, self.source.rooms, self.source.place_type
        step = text.threads * count
        text.add(f"const {place} first = blockIdx.x * ({place}){step} + threadIdx.x;")
        at = f"first + lane * {text.threads}"
        for node in self.arrays:
            kind = MEMORY_TYPES[rooms[node].dtype.char]
            text.add(f"{kind} w{node.number}[{count}] = {{}};")
        for sink in self.sinks:
            kind = MEMORY_TYPES[sink.room.dtype.char]
            text.add(f"{kind} {pack_name(sink.room)}[{count}];")
        self._open("lane", count, "i", at)
        text.open(f"if (i < {self.size})")
        for node in self.arrays:
            place_in_memory = self.points.offset(rooms[node].strides or {})
            text.add(f"w{node.number}[lane] = {text.read(rooms[node])}[{place_in_memory}];")
        text.close()
        text.close()
        packs = {node: f"w{node.number}[lane]" for node in self.arrays}
        self._compute(count, at, packs, any(map(is_reciprocal, self.computed)))
        self._open("lane", count, "i", at)
        text.open(f"if (i < {self.size})")
        for sink in self.sinks:
            text.store(sink.room, self.points, f"{pack_name(sink.room)}[lane]")
        text.close()
        text.close()

    # -- both

    def _open(self, number: str, count: int, name: str, at: str) -> None:
        """Opens a loop that is written out, and names a place in it."""
        self.text.unroll()
        self.text.open(f"for (int {number} = 0; {number} < {count}; ++{number})")
        self.text.add(f"{UNUSED} const {self.source.place_type} {name} = {at};")

    def _compute(self, count: int, at: str, packs: Mapping[Expr, str], quick: bool) -> None:
        """Writes what computes the results of several points, which are stored together.

        Args:
            count: the number of points.
            at: the expression of a point's place.
            packs: the expressions of what was loaded.
            quick: whether there are quotients that are computed without branches. All results are
                computed again, with them, where one of these may be wrong.
        """
        text = self.text
        if quick:
            text.add("bool rare = false;")
        self._lanes(count, at, packs, quick)
        if quick:
            text.open("if (rare)")
            self._lanes(count, at, packs, False)
            text.close()

    def _lanes(self, count: int, at: str, packs: Mapping[Expr, str], quick: bool) -> None:
        text, names = self.text, dict(self.text.names)
        self._open("lane", count, "i", at)
        text.compute(self.needed, self.points, self.source.rooms, packs, quick)
        for sink in self.sinks:
            kind = MEMORY_TYPES[sink.room.dtype.char]
            text.add(f"{pack_name(sink.room)}[lane] = ({kind})({text.names[sink.node]});")
        text.close()
        text.names = names


def pack_type(room: Room, width: int) -> str:
    """Returns the type of neighbouring elements of memory."""
    return f"pack<{MEMORY_TYPES[room.dtype.char]}, {width}>"


def pack_name(room: Room) -> str:
    """Returns the name of the elements that one instruction stores."""
    return f"pack_{room.place.kind}_{room.place.number}"


def pack_at(text: KernelText, room: Room, points: Points, width: int) -> str:
    """Returns the expression of neighbouring elements in memory."""
    pointer = f"{text.read(room)} + ({points.offset(room.strides or {})})"
    return f"*reinterpret_cast<const {pack_type(room, width)} *>({pointer})"


def load_packs(
    text: KernelText,
    needed: set[Expr],
    points: Points,
    rooms: Mapping[Expr, Room],
    width: int,
) -> dict[Expr, str]:
    """Adds loads of several neighbours at once, and returns the expressions of one of them."""
    packs: dict[Expr, str] = {}
    if width == 1:
        return packs
    for node in sorted(needed & rooms.keys(), key=lambda x: x.number):
        room = rooms[node]
        if node in text.names or not room.strides or not points.is_packed(room.strides, width):
            continue
        pack = pack_at(text, room, points, width)
        text.add(f"const {pack_type(room, width)} w{node.number} = {pack};")
        packs[node] = f"w{node.number}[lane]"
    return packs


def store_element(text: KernelText, node: Expr, room: Room, points: Points, width: int) -> None:
    """Adds the store of a node, or puts it beside those that one instruction stores."""
    value = text.names[node]
    if width > 1:
        kind = MEMORY_TYPES[room.dtype.char]
        text.add(f"{pack_name(room)}[lane] = ({kind})({value});")
    else:
        text.store(room, points, value)


def store_packs(text: KernelText, rooms: Sequence[Room], points: Points, width: int) -> None:
    """Adds stores of several neighbours at once."""
    for room in rooms:
        assert room.strides is not None
        kind = pack_type(room, width)
        pointer = f"{text.written(room)} + ({points.offset(room.strides)})"
        text.add(f"*reinterpret_cast<{kind} *>({pointer}) = {pack_name(room)};")
