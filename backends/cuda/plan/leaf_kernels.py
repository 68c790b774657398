"""Kernels that compute the same for many leaves: one launch reads where they lie from a table.

The text of such a kernel has no sizes, so that regions which differ in those alone have the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .cpp import MEMORY_TYPES
from .kernel_text import UNUSED, Argument, KernelText, Room
from .map_kernels import MAP_THREADS, load_packs, pack_name, pack_type, store_element, store_packs
from .points import Points, PointSegment

if TYPE_CHECKING:
    from ...cpu.plan.annotations import RegionLike
    from ...kernels.graph import Expr
    from ...kernels.kernel_result import KernelResult
    from .region_source import RegionSource

__all__ = ["WORD_BYTES", "LeafKernel", "is_of_leaves", "leaf_kernel"]

WORD_BYTES = 8
# The words of a row behind the addresses: the number of elements, and the first block.
WORDS_BEHIND = 2


class LeafKernel(NamedTuple):
    """A kernel for many leaves.

    Attributes:
        name: its name.
        text: its text.
        threads: the threads of a block.
        step: how many elements a block goes over at once.
        columns: the arrays whose addresses rows of the table have.
        numbers: the numbers that it is given behind the table and the two counts.
        rows: the leaves of a launch, at most.
    """

    name: str
    text: str
    threads: int
    step: int
    columns: tuple[Argument, ...]
    numbers: tuple[Argument, ...]
    rows: int

    @property
    def row_bytes(self) -> int:
        """The bytes of a leaf's row in the table."""
        return bytes_of_row(len(self.columns))


def bytes_of_row(columns: int) -> int:
    """Returns the bytes of a row with so many addresses."""
    return WORD_BYTES * (columns + WORDS_BEHIND)


def is_of_leaves(region: RegionLike) -> bool:
    """Says whether a region does the same with each element of arrays of one shape.

    Beside these it may read numbers.
    """
    program = region.program
    shapes = {x.type.shape for x in program.outputs}
    return len(shapes) == 1 and all(x.type.shape in ((), *shapes) for x in program.inputs)


class LeafText(KernelText):
    """Writes a kernel whose arrays lie where a row of a table says."""

    def __init__(self, name: str, threads: int, place_type: str) -> None:
        super().__init__(name, threads, place_type, shares=True)
        # By the argument its name and the type of the pointer.
        self._columns: dict[Argument, tuple[str, str]] = {}

    def read(self, room: Room) -> str:
        """Returns the name of the pointer, or of the number, that is read."""
        if not room.strides:
            return super().read(room)
        return self._column(room, "const ", "x")

    def written(self, room: Room) -> str:
        """Returns the name of the pointer to what is written."""
        return self._column(room, "", "y")

    def _column(self, room: Room, constant: str, letter: str) -> str:
        name = f"{letter}{room.place.number}"
        self._columns[room.place] = name, f"{constant}{MEMORY_TYPES[room.dtype.char]} *"
        return name

    def whole(self, most_bytes: int, leaves: int, step: int, loops: Sequence[str]) -> LeafKernel:
        """Returns the kernel.

        Args:
            most_bytes: the bytes of a table, at most.
            leaves: how many leaves there are.
            step: how many elements a block goes over at once.
            loops: the lines that go over the elements from ``begin`` to ``end``.
        """
        columns = tuple(self._columns)
        rows = max(min(most_bytes // bytes_of_row(len(columns)), leaves), 1)
        words, place = len(columns) + WORDS_BEHIND, self.place_type
        table = f"const __grid_constant__ leaf_table<{rows},{words}> table"
        parameters = [table, "long long leaves", "long long piece", *self._parameters.values()]
        row = [
            "const int row = table.row_of(blockIdx.x, (int)leaves);",
            *[
                f"{kind}const {name} = ({kind})table.rows[row][{i}];"
                for i, (name, kind) in enumerate(self._columns.values())
            ],
            f"const {place} size = ({place})table.rows[row][{words - 2}];",
            f"const {place} block = blockIdx.x - ({place})table.rows[row][{words - 1}];",
            f"const {place} begin = block * ({place})piece;",
            f"const {place} end = size < begin + ({place})piece ? size : begin + ({place})piece;",
        ]
        head = (
            f'extern "C" __global__ void __launch_bounds__({self.threads})\n'
            f"{self.name}({', '.join(parameters)}) {{"
        )
        text = "\n".join([head, *[f"    {line}" for line in row], *loops, "}", ""])
        given = tuple(self._parameters)
        return LeafKernel(self.name, text, self.threads, step, columns, given, rows)

    def addresses(self) -> str:
        """Returns the expression of the bits that are set in any address."""
        return " | ".join([f"(unsigned long long){name}" for name, _ in self._columns.values()])


def leaf_kernel(source: RegionSource, leaves: int, most_bytes: int) -> LeafKernel | None:
    """Returns the kernel that does for many leaves what a region does for one; None without one.

    Args:
        source: the kernels of the region.
        leaves: how many leaves there are.
        most_bytes: the bytes that may be passed by value, at most.
    """
    results = source.results
    strides = [room.strides for room in (*source.rooms.values(), *[room for _, room in results])]
    nodes = source.needed([r.node for r, _ in results])
    if len(source.lengths) != 1 or any(known and known != {0: 1} for known in strides):
        return None
    if any(x.operation in ("fold", "gather", "place", "within") for x in nodes):
        return None
    if any(r.axes != frozenset([0]) or r.divisor != 1 for r, _ in results):
        return None
    threads = MAP_THREADS if source.lanes > 1 else 1
    text = LeafText(source.name, threads, source.place_type)
    width, place = source.width, source.place_type
    wide = element_loop(text, source, results, nodes, width) if width > 1 else []
    narrow = element_loop(text, source, results, nodes, 1)
    begin = ["    const " + place + " behind = begin;"]
    if width > 1:
        begin = [
            f"    const bool wide = ({text.addresses()}) % 16 == 0 && begin < end;",
            f"    const {place} behind = wide ? end - (end - begin) % {width} : begin;",
        ]
    return text.whole(most_bytes, leaves, threads * width, [*begin, *wide, *narrow])


def element_loop(
    text: LeafText,
    source: RegionSource,
    results: Sequence[tuple[KernelResult, Room]],
    nodes: set[Expr],
    width: int,
) -> list[str]:
    """Returns the lines of a loop over elements, so many of them at once."""
    place, threads = source.place_type, text.threads
    text.lines, text.names = [], {}
    begin, end, name = ("begin", "behind", "first") if width > 1 else ("behind", "end", "i")
    step = f"{threads * width}"
    start = f"{begin} + ({place})threadIdx.x * {width}"
    text.open(f"for ({place} {name} = {start}; {name} < {end}; {name} += {step})")
    # Texts are the same for all sizes.
    lengths = (width,)
    points = Points(lengths, [PointSegment((0,), "i")])
    packs: dict[Expr, str] = {}
    if width > 1:
        at_first = Points(lengths, [PointSegment((0,), "first")])
        packs = load_packs(text, nodes, at_first, source.rooms, width)
        for _, room in results:
            text.add(f"{pack_type(room, width)} {pack_name(room)};")
        text.unroll()
        text.open(f"for (int lane = 0; lane < {width}; ++lane)")
        text.add(f"{UNUSED} const {place} i = first + lane;")
    text.compute(nodes, points, source.rooms, packs)
    for r, room in results:
        store_element(text, r.node, room, points, width)
    if width > 1:
        text.close()
        store_packs(text, [room for _, room in results], at_first, width)
    text.close()
    return text.lines
