"""Kernels that go over points and store what they find there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from .cpp import MEMORY_TYPES
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
    order = tuple(sorted(axes))
    points = Points(source.lengths, [PointSegment(order, "i")])
    size = prod(source.lengths[a] for a in order)
    width = source.width if size % source.width == 0 else 1
    threads = MAP_THREADS if source.lanes > 1 else 1
    text = KernelText(name, threads, source.place_type, shares=True)
    place = source.place_type
    needed = source.needed([sink.node for sink in sinks])
    thread = f"blockIdx.x * ({place}){threads} + threadIdx.x"
    text.add(f"const {place} first = ({thread}) * {width};")
    text.add(f"if (first >= {size}) return;")
    at_first = Points(source.lengths, [PointSegment(order, "first")])
    packs = load_packs(text, needed, at_first, source.rooms, width)
    if width > 1:
        for sink in sinks:
            text.add(f"{pack_type(sink.room, width)} {pack_name(sink.room)};")
        text.unroll()
        text.open(f"for (int lane = 0; lane < {width}; ++lane)")
        text.add(f"{UNUSED} const {place} i = first + lane;")
    else:
        text.add(f"const {place} i = first;")
    text.compute(needed, points, source.rooms, packs)
    for sink in sinks:
        store_element(text, sink.node, sink.room, points, width)
    if width > 1:
        text.close()
        store_packs(text, [sink.room for sink in sinks], at_first, width)
    return text.finished([-(-size // (width * text.threads))], width)


def pack_type(room: Room, width: int) -> str:
    """Returns the type of neighbouring elements of memory."""
    return f"pack<{MEMORY_TYPES[room.dtype.char]}, {width}>"


def pack_name(room: Room) -> str:
    """Returns the name of the elements that one instruction stores."""
    return f"pack_{room.place.kind}_{room.place.number}"


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
        kind = pack_type(room, width)
        pointer = f"{text.read(room)} + ({points.offset(room.strides)})"
        text.add(f"const {kind} w{node.number} = *reinterpret_cast<const {kind} *>({pointer});")
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
