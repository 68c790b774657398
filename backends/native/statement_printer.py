"""Prints the statements of kernels as LLVM's text: arithmetic, functions, loads and stores.

Where lanes take each second element, as those of real parts, a vector of twice the lanes is loaded
and one half of it taken. The stores of both halves, one behind the other, are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, zip_longest
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from ..kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    PlaceOf,
    PlaceWithin,
    Statement,
    Store,
    UpdateOf,
)
from ..kernels.operations import KERNEL_FUNCTIONS
from .aligned_memory import LINE
from .element_pairs import are_halves, half_of_pairs, is_of_pairs, load_pairs, store_pairs
from .function_printer import FunctionPrinter
from .instructions import Lines, constant, memory_type, ones, overloaded, shown_type
from .joint_functions import joint_functions
from .places import load_of_run, place_within, run_of_lanes

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["Copy", "Mask", "StatementPrinter"]


# What fills more bytes of a buffer than a core has near it asks for lines so many bytes ahead: a
# result of 4 MiB is written in nine tenths of the time. To ask for a line behind it does no harm.
SMALLEST_PREPARED, PREPARED_AHEAD = 1 << 20, 1024
# A statement that is no loop.
InLoops: TypeAlias = Let | Load | PlaceOf | PlaceWithin | Store | UpdateOf


class SharedParts(Protocol):
    """The part of a module that printers need: functions, declarations, and counts of calls."""

    declared: dict[str, str]
    functions: dict[str, str]
    calls: Counter[str]


class Mask:
    """The lanes of a step that count.

    Attributes:
        name: the vector of booleans.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class Copy:
    """The names that statements know: once, or for one of several places of a loop.

    Attributes:
        values: the name and the width of each value.
        places: the names of the places of loops.
        spread: what was spread over lanes in the current loop.
        pairs: what was loaded of pairs of inputs in the current loop.
    """

    def __init__(
        self, values: dict[LoopValue, tuple[str, int]], places: dict[LoopAxis, str]
    ) -> None:
        self.values = values
        self.places = places
        self.spread: dict[tuple[LoopValue, int], str] = {}
        self.pairs: dict[tuple[Buffer, Index], str] = {}


class StatementPrinter:
    """Prints what stands in loops; a subclass prints the loops."""

    def __init__(self, kernel: LoopKernel, module: SharedParts) -> None:
        self.kernel = kernel
        self.module = module
        self.lines = Lines()
        self._pointers: dict[Buffer, str] = {}
        # What is written for, and all that each statement is written for, one after the other.
        self._here = Copy({}, {BLOCK_NUMBER: "%number"})
        self._copies = [self._here]
        # What computes numbers that name places.
        self._makers: dict[LoopValue, Let | PlaceOf | PlaceWithin] = {}
        # The axis of the loop with lanes, its width and its mask.
        self._axis: LoopAxis | None = None
        self._width = 1
        self._mask: Mask | None = None
        self._within_lanes = False
        # Where the tile begins and ends.
        self._tiles: dict[LoopAxis, tuple[str, str]] = {}

    # -- copies

    def _forget(self) -> None:
        """Forgets what is known in the current loop alone."""
        for copy in self._copies:
            copy.spread, copy.pairs = {}, {}

    def _stand(self, axis: LoopAxis, place: str) -> None:
        """Enters the name of the place of a loop."""
        for copy in self._copies:
            copy.places[axis] = place

    # -- statements

    def _statements(self, body: Sequence[Statement]) -> None:
        """Writes statements in order, those between two loops for one copy after the other."""
        for _, some in groupby(body, lambda s: isinstance(s, For)):
            run: list[InLoops] = []
            for statement in some:
                if isinstance(statement, For):
                    self._loop(statement)
                else:
                    run.append(statement)
            for copy in self._copies if run else ():
                self._here = copy
                self._run(run)

    def _run(self, body: Sequence[InLoops]) -> None:
        """Writes statements without loops."""
        joint = joint_functions(body)
        first: Store | UpdateOf | None = None
        for statement, following in zip_longest(body, body[1:]):
            if isinstance(statement, Let | PlaceOf | PlaceWithin):
                self._makers[statement.value] = statement
            if statement in joint:
                if joint[statement]:
                    self._joint_functions(joint[statement])
            elif isinstance(statement, Let):
                self._here.values[statement.value] = self._let(statement), self._width
            elif isinstance(statement, PlaceOf):
                self._here.values[statement.value] = self._place(statement.axis), self._width
            elif isinstance(statement, PlaceWithin):
                place = place_within(self.lines, statement, self._operand, self._width)
                self._here.values[statement.value] = place, self._width
            elif isinstance(statement, Load):
                found = self._load(statement.buffer, statement.index)
                self._here.values[statement.value] = found, self._width
            elif first is not None:
                self._store_pairs(first, statement)
                first = None
            elif are_halves(statement, following, self._axis):
                first = statement
            else:
                self._store(statement.buffer, statement.index, self._stored(statement))

    def _stored(self, statement: Store | UpdateOf) -> str:
        """Returns the element that a statement stores."""
        if isinstance(statement, Store):
            return self._operand(statement.operand)
        dtype = statement.buffer.dtype
        given = [self._load(statement.buffer, statement.index), self._operand(statement.operand)]
        return self.lines.operation(statement.operation, dtype, given, dtype, self._width)

    def _place(self, axis: LoopAxis) -> str:
        """Returns the numbers of the places of all lanes."""
        place = self.lines.let(f"trunc i64 {self._here.places[axis]} to i32")
        if self._width == 1:
            return place
        every = self.lines.spread(place, np.dtype(np.int32), self._width)
        if axis is not self._axis:
            return every
        steps = ", ".join(f"i32 {i}" for i in range(self._width))
        return self.lines.let(f"add <{self._width} x i32> {every}, <{steps}>")

    def _operand(self, operand: Operand) -> str:
        """Returns the name of an operand with as many lanes as the loop has."""
        if not isinstance(operand, LoopValue):
            return constant(operand, self._width)
        name, width = self._here.values[operand]
        if width == self._width:
            return name
        key = operand, self._width
        if key not in self._here.spread:
            self._here.spread[key] = self.lines.spread(name, operand.dtype, self._width)
        return self._here.spread[key]

    def _joint_functions(self, both: Sequence[Let]) -> None:
        """Writes the call of two functions as one."""
        (operand,), dtype = both[0].operands, both[0].value.dtype
        names = [statement.operation for statement in both]
        name, kind = self._function(names, dtype, self._width)
        one = self.lines.type(dtype, self._width)
        found = self.lines.let(f"call {kind} @{name}({one} {self._operand(operand)})")
        for number, statement in enumerate(both):
            part = self.lines.let(f"extractvalue {kind} {found}, {number}")
            self._here.values[statement.value] = part, self._width

    def _let(self, statement: Let) -> str:
        operands = [self._operand(x) for x in statement.operands]
        taken = statement.operands[1 if statement.operation == "select" else 0].dtype
        dtype = statement.value.dtype
        if statement.operation in KERNEL_FUNCTIONS:
            name, kind = self._function([statement.operation], dtype, self._width)
            shown = ", ".join(f"{kind} {x}" for x in operands)
            return self.lines.let(f"call {kind} @{name}({shown})")
        return self.lines.operation(statement.operation, dtype, operands, taken, self._width)

    def _function(self, names: Sequence[str], dtype: DType, width: int) -> tuple[str, str]:
        """Returns the name and the type of a function of some lanes, which the module then has."""
        own = f"{'_and_'.join(names)}_{dtype.name}_{width}"
        self.module.calls[own] += 1
        printer = FunctionPrinter(own, names, dtype, width)
        if own not in self.module.functions:
            self.module.functions[own] = printer.text()
            self.module.declared.update(printer.lines.declared)
        return own, printer.kind

    # -- memory

    def _address(self, buffer: Buffer, index: Index) -> str:
        lines = self.lines
        total = str(index.begin)
        for axis, stride in index.terms:
            place = self._here.places[axis]
            if stride != 1:
                place = lines.let(f"mul i64 {place}, {stride}")
            total = place if total == "0" else lines.let(f"add i64 {total}, {place}")
        for value, stride in index.picks:
            place, width = self._here.values[value]
            if width == 1:
                place = lines.let(f"mul i64 {place}, {stride}")
                total = lines.let(f"add i64 {total}, {place}")
        kind = memory_type(buffer.dtype)
        return lines.let(f"getelementptr {kind}, ptr {self._pointers[buffer]}, i64 {total}")

    def _lane_addresses(
        self, buffer: Buffer, address: str, stride: int, picks: Sequence[tuple[LoopValue, int]] = ()
    ) -> str:
        """Returns the addresses of lanes that are no neighbours."""
        lines, width = self.lines, self._width
        many = f"<{width} x i64>"
        steps = f"<{', '.join(f'i64 {stride * i}' for i in range(width))}>"
        for value, by in picks:
            place = lines.let(f"mul {many} {self._here.values[value][0]}, splat (i64 {by})")
            steps = lines.let(f"add {many} {steps}, {place}")
        kind = memory_type(buffer.dtype)
        return lines.let(f"getelementptr {kind}, ptr {address}, {many} {steps}")

    def _load(self, buffer: Buffer, index: Index) -> str:
        lines, width = self.lines, self._width
        address = self._address(buffer, index)
        element = memory_type(buffer.dtype)
        kind = shown_type(element, width)
        stride = 1 if self._axis is None else index.stride(self._axis)
        size = buffer.dtype.itemsize
        picks = [(value, by) for value, by in index.picks if self._here.values[value][1] > 1]
        if width > 1 and stride == 2 and not index.picks and is_of_pairs(buffer, index):
            pairs = self._load_pairs(buffer, index)
            found = half_of_pairs(lines, buffer.dtype, pairs, width, index.begin % 2)
        elif stride == 0 and not picks:
            one = lines.let(f"load {element}, ptr {address}, align {size}")
            found = self._copied(one, buffer.dtype)
        elif width > 1 and stride == -1 and not picks and self._mask is None:
            first = lines.let(f"getelementptr {element}, ptr {address}, i64 {1 - width}")
            found = lines.let(f"load {kind}, ptr {first}, align {size}")
            turned = ", ".join(f"i32 {i}" for i in reversed(range(width)))
            turned = f"{kind} poison, <{width} x i32> <{turned}>"
            found = lines.let(f"shufflevector {kind} {found}, {turned}")
        elif width > 1 and (stride != 1 or picks or self._mask is not None):
            given = [("i32", str(size)), (shown_type("i1", width), self._shown_mask())]
            given.append((kind, ones(element, width)))
            neighbours = stride == 1 and not picks
            if neighbours:
                name, end = "load", "p0"
            else:
                name, end = "gather", f"v{width}p0"
            shape = overloaded(element, width)
            first = shown_type("ptr", 1 if neighbours else width)
            call = f"llvm.masked.{name}.{shape}.{end}"

            def gathered() -> str:
                there = address if neighbours else self._lane_addresses(*lanes)
                return lines.call(call, kind, [(first, there), *given])

            lanes = buffer, address, stride, picks
            run = None
            if self._axis is not None and self._mask is None and not stride and len(picks) == 1:
                run = run_of_lanes(picks[0], self._axis, self._makers, width)
            if run is None or self._axis is None:
                found = gathered()
            else:
                place = self._here.places[self._axis]
                found = load_of_run(gathered, lines, address, place, run, buffer.dtype, width)
        else:
            found = lines.let(f"load {kind}, ptr {address}, align {size}")
        if buffer.dtype.kind == "b":
            zero = "0" if width == 1 else "zeroinitializer"
            found = lines.let(f"icmp ne {kind} {found}, {zero}")
        return found

    def _copied(self, one: str, dtype: DType) -> str:
        """Returns an element of memory in all lanes."""
        element, width = memory_type(dtype), self._width
        kind = shown_type(element, width)
        first = self.lines.let(f"insertelement {kind} poison, {element} {one}, i32 0")
        places = f"<{width} x i32> zeroinitializer"
        return self.lines.let(f"shufflevector {kind} {first}, {kind} poison, {places}")

    def _shown_mask(self) -> str:
        return f"splat ({'i1 true'})" if self._mask is None else self._mask.name

    def _store(self, buffer: Buffer, index: Index, value: str) -> None:
        lines, width = self.lines, self._width
        address = self._address(buffer, index)
        element = memory_type(buffer.dtype)
        kind = shown_type(element, width)
        if buffer.dtype.kind == "b":
            value = lines.let(f"zext {shown_type('i1', width)} {value} to {kind}")
        stride = 1 if self._axis is None else index.stride(self._axis)
        size = buffer.dtype.itemsize
        if width > 1 and (stride != 1 or self._mask is not None):
            mask = ("i32", str(size)), (shown_type("i1", width), self._shown_mask())
            if stride == 1:
                call, first = f"llvm.masked.store.{overloaded(element, width)}.p0", "ptr"
            else:
                address = self._lane_addresses(buffer, address, stride)
                call = f"llvm.masked.scatter.{overloaded(element, width)}.v{width}p0"
                first = shown_type("ptr", width)
            lines.call(call, "void", [(kind, value), (first, address), *mask])
        else:
            lines.add(f"store {kind} {value}, ptr {address}, align {size}")
            # Folds of a block are updated again and again; behind them lie those of another thread.
            large = prod(buffer.shape) * size >= SMALLEST_PREPARED and buffer.role != "part"
            if width * size == LINE and large:
                self._prepare(address)

    def _prepare(self, address: str) -> None:
        """Asks for a line of memory that is stored soon: its owner is found meanwhile."""
        ahead = self.lines.let(f"getelementptr i8, ptr {address}, i64 {PREPARED_AHEAD}")
        how = [("i32 immarg", "1"), ("i32 immarg", "3"), ("i32 immarg", "1")]
        self.lines.call("llvm.prefetch.p0", "void", [("ptr", ahead), *how])

    # -- pairs of elements, of which lanes take one each

    def _load_pairs(self, buffer: Buffer, index: Index) -> str:
        """Returns the pairs of elements that all lanes have, one behind the other."""
        begin = Index(index.terms, index.begin // 2 * 2)
        found = self._here.pairs.get((buffer, begin))
        if found is None:
            address = self._address(buffer, begin)
            mask = None if self._mask is None else self._mask.name
            found = load_pairs(self.lines, buffer.dtype, address, self._width, mask)
            if buffer.role == "in":
                self._here.pairs[buffer, begin] = found
        return found

    def _store_pairs(self, first: Store | UpdateOf, second: Store | UpdateOf) -> None:
        """Writes two statements that store the two elements of pairs."""
        halves = [self._stored(first), self._stored(second)]
        address = self._address(first.buffer, first.index)
        mask = None if self._mask is None else self._mask.name
        store_pairs(self.lines, first.buffer.dtype, address, halves, self._width, mask)

    def _loop(self, loop: For) -> None:
        """Writes a loop."""
        raise NotImplementedError
