"""The text of a generated kernel while it is written: parameters, lines, and names of nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .cpp import (
    LONG_FUNCTIONS,
    MEMORY_TYPES,
    SINE_AND_COSINE,
    called_function,
    held_type,
    read_element,
    shown_number,
    shown_operation,
    sines_and_cosines,
)
from .points import Points

if TYPE_CHECKING:
    from ...annotations import DType
    from ...kernels.graph import Expr

__all__ = ["UNUSED", "Argument", "GeneratedKernel", "KernelText", "Room"]

# A function that stands so often in a kernel is called. Written out, it is read from memory at each
# place anew, which takes longer than a call.
MANY_CALLS = 24
LONG_CALLS = re.compile(rf"\b({'|'.join(sorted(LONG_FUNCTIONS))})\(")
# What some kernels do not need.
UNUSED = "[[maybe_unused]]"


class Argument(NamedTuple):
    """The memory, or the number, of an argument of a region's kernels.

    Attributes:
        kind: ``in`` for inputs, ``out`` for results, ``scratch`` for memory between kernels.
        number: the number among those of its kind.
    """

    kind: str
    number: int


class Room(NamedTuple):
    """The memory where the elements of a node lie.

    Attributes:
        place: the argument.
        dtype: the dtype of the elements.
        strides: the strides of its axes, in elements; None for a number that is passed by value.
    """

    place: Argument
    dtype: DType
    strides: Mapping[int, int] | None


class GeneratedKernel(NamedTuple):
    """A kernel of a region.

    Attributes:
        name: its name.
        text: its text.
        blocks: the numbers of blocks.
        threads: the threads of a block.
        arguments: what it is given.
        width: how many elements one load takes at most, of memory that begins at a multiple of so
            many; 1 where memory may begin anywhere.
    """

    name: str
    text: str
    blocks: tuple[int, ...]
    threads: int
    arguments: tuple[Argument, ...]
    width: int


class KernelText:
    """Writes a kernel.

    Args:
        name: its name.
        threads: the threads of a block.
        place_type: the type of places in memory.
        shares: whether results may lie in the memory of inputs.
    """

    def __init__(self, name: str, threads: int, place_type: str, shares: bool = False) -> None:
        self.name = name
        self.threads = threads
        self.place_type = place_type
        self._apart = "" if shares else "__restrict__ "
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self._indent = 1
        self._parameters: dict[Argument, str] = {}

    # -- lines

    def add(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(f"{'    ' * self._indent}{line}")

    def open(self, line: str) -> None:
        """Adds a line that opens a block."""
        self.add(f"{line} {{")
        self._indent += 1

    def close(self) -> None:
        """Closes a block."""
        self._indent -= 1
        self.add("}")

    def unroll(self, count: str = "") -> None:
        """Says that the next loop is written out."""
        self.lines.append(f"#pragma unroll {count}".rstrip())

    # -- memory

    def read(self, room: Room) -> str:
        """Returns the name of the pointer, or of the number, that is read."""
        letter = {"in": "x", "scratch": "s", "out": "y"}[room.place.kind]
        name = f"{letter}{room.place.number}"
        if room.place not in self._parameters:
            if room.strides is None:
                shown = f"const {held_type(room.dtype)} {name}"
            else:
                shown = f"const {MEMORY_TYPES[room.dtype.char]} *{self._apart}{name}"
            self._parameters[room.place] = shown
        return name

    def written(self, room: Room) -> str:
        """Returns the name of the pointer to what is written."""
        name = f"{'y' if room.place.kind == 'out' else 's'}{room.place.number}"
        kind = MEMORY_TYPES[room.dtype.char]
        self._parameters[room.place] = f"{kind} *{self._apart}{name}"
        return name

    def store(self, room: Room, points: Points, value: str) -> None:
        """Adds the store of an element."""
        assert room.strides is not None
        target = f"{self.written(room)}[{points.offset(room.strides)}]"
        self.add(f"{target} = ({MEMORY_TYPES[room.dtype.char]})({value});")

    # -- nodes

    def compute(
        self,
        nodes: Iterable[Expr],
        points: Points,
        rooms: Mapping[Expr, Room],
        packs: Mapping[Expr, str],
        quick: bool = False,
    ) -> None:
        """Adds what computes nodes, operands before what is made of them.

        Args:
            nodes: the nodes.
            points: where they are computed.
            rooms: where nodes lie that are in memory.
            packs: the expressions of what was loaded for several points at once.
            quick: whether a flag ``rare`` may say that nodes are other numbers.
        """
        ordered = sorted(set(nodes), key=lambda x: x.number)
        left = [x for x in ordered if not (x in self.names or x in packs or x in rooms)]
        pairs = sines_and_cosines(left)
        for node in ordered:
            if node in self.names:
                continue
            if node in packs:
                text = read_element(packs[node], node.dtype)
            elif node in rooms:
                text = self._load(rooms[node], points)
            elif node.operation == "constant":
                self.names[node] = shown_number(node.detail)
                continue
            elif node.operation == "spread":
                self.names[node] = self.names[node.operands[0]]
                continue
            elif node.operation == "place":
                text = f"(int)({points.coordinate(node.detail)})"
            elif node.operation in ("sin", "cos") and node in pairs.get(node.operands[0], ()):
                self._turn(node, pairs[node.operands[0]])
                continue
            else:
                text = shown_operation(node, [self.names[x] for x in node.operands], quick)
            self.names[node] = f"v{node.number}"
            self.add(f"const {held_type(node.dtype)} v{node.number} = {text};")

    def _turn(self, first: Expr, pair: tuple[Expr, ...]) -> None:
        """Adds what computes a sine and a cosine, of which one comes first."""
        function = SINE_AND_COSINE if first.dtype.char == "d" else f"{SINE_AND_COSINE}f"
        name = f"w{first.number}"
        self.add(f"const auto {name} = {function}({self.names[first.operands[0]]});")
        self.names.update(zip(pair, (f"{name}.sine", f"{name}.cosine"), strict=True))

    def _load(self, room: Room, points: Points) -> str:
        name = self.read(room)
        if room.strides is None:
            return name
        return read_element(f"{name}[{points.offset(room.strides)}]", room.dtype)

    def finished(self, blocks: Sequence[int], width: int = 1) -> GeneratedKernel:
        """Returns the kernel."""
        parameters = ", ".join(self._parameters.values())
        head = (
            f'extern "C" __global__ void __launch_bounds__({self.threads})\n'
            f"{self.name}({parameters}) {{"
        )
        apart, body = self._with_calls("\n".join(self.lines))
        text = f"{apart}{head}\n{body}\n}}\n"
        given = tuple(self._parameters)
        return GeneratedKernel(self.name, text, tuple(blocks), self.threads, given, width)

    def _with_calls(self, body: str) -> tuple[str, str]:
        """Returns the functions that the kernel calls, and its lines, which call them."""
        often = {f for f, n in Counter(LONG_CALLS.findall(body)).items() if n >= MANY_CALLS}
        own = {function: f"{self.name}_{function}" for function in sorted(often)}
        body = LONG_CALLS.sub(lambda found: f"{own.get(found[1], found[1])}(", body)
        return "".join(called_function(name, function) for function, name in own.items()), body
