"""Prints kernels as LLVM's text.

A loop with lanes becomes a loop over vectors, and one masked step for the places that are left. All
that it computes is a vector; what loops around it computed is spread over the lanes.

Where lanes take each second element, as those of real parts, a vector of twice the lanes is loaded
and one half of it taken. The stores of both halves, one behind the other, are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

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
from .element_pairs import are_halves, half_of_pairs, is_of_pairs, load_pairs, store_pairs
from .function_printer import FunctionPrinter
from .instructions import Lines, constant, memory_type, ones, overloaded, shown_type
from .joint_functions import joint_functions
from .places import load_of_run, place_within, run_of_lanes
from .running_folds import RunningFold
from .scratch import aligned_bytes

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["Module", "Printer", "printed_module"]

# Functions that are called at more places stay functions, which compile sooner.
MOST_INLINED_CALLS = 12
# Longer bodies are not written again for the last places of a loop.
LONGEST_REPEATED_BODY = 24
SIGNATURE = "i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers"


def printed_module(kernels: Sequence[LoopKernel]) -> str:
    """Returns the text of a module with a function for each kernel, of its name.

    A function takes the number of the block, its first row and the one behind its last, the
    memory of its own, and an array of pointers to its buffers.
    """
    module = Module()
    texts = [Printer(kernel, module).text() for kernel in kernels]
    return module.text(*texts)


class Module:
    """The parts that kernels of a module share.

    Attributes:
        declared: the declarations of what is called, by the names.
        functions: the texts of functions, by the names.
    """

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self._kernels: dict[str, str] = {}
        self._parts: dict[str, str] = {}
        # How often functions are called.
        self.calls: Counter[str] = Counter()

    def kernel(self, kernel: LoopKernel) -> str:
        """Returns the name of a kernel's function; equal kernels are one."""
        body = Printer(kernel, self).text().partition("(")[2]
        name = self._kernels.get(body)
        if name is None:
            name = self._kernels[body] = f"kernel_{len(self._kernels)}"
            body = body.replace(") {", ") noinline {", 1)
            self.functions[name] = f"define internal void @{name}({body}"
        return name

    def part(self, body: str) -> str:
        """Returns the name of a function of a part of some work, of its text behind the name."""
        name = self._parts.setdefault(body, f"part_{len(self._parts)}")
        self.functions[name] = f"define internal void @{name}{body}"
        return name

    def text(self, *functions: str) -> str:
        """Returns the text of the module, with some functions more."""
        own = [
            text.replace(" alwaysinline {", " noinline {", 1)
            if self.calls[name] > MOST_INLINED_CALLS
            else text
            for name, text in self.functions.items()
        ]
        return "\n".join([*self.declared.values(), *own, *functions, ""])


class Mask:
    """The lanes of a step that count.

    Attributes:
        name: the vector of booleans.
    """

    def __init__(self, name: str) -> None:
        self.name = name


class Printer:
    """Prints a kernel."""

    def __init__(self, kernel: LoopKernel, module: Module) -> None:
        self.kernel = kernel
        self.module = module
        self.lines = Lines()
        self._pointers: dict[Buffer, str] = {}
        # The name and the width of each value, and of what was spread in the current loop.
        self._values: dict[LoopValue, tuple[str, int]] = {}
        self._spread: dict[tuple[LoopValue, int], str] = {}
        # What was loaded of pairs of inputs in the current loop.
        self._pairs: dict[tuple[Buffer, Index], str] = {}
        self._places: dict[LoopAxis, str] = {BLOCK_NUMBER: "%number"}
        # What computes numbers that name places.
        self._makers: dict[LoopValue, Let | PlaceOf | PlaceWithin] = {}
        # The axis of the loop with lanes, its width and its mask.
        self._axis: LoopAxis | None = None
        self._width = 1
        self._mask: Mask | None = None
        self._within_lanes = False

    def text(self) -> str:
        """Returns the text of the function."""
        lines = self.lines
        lines.begin("entry")
        for number, buffer in enumerate(self.kernel.buffers):
            place = lines.let(f"getelementptr ptr, ptr %buffers, i64 {number}")
            self._pointers[buffer] = lines.let(f"load ptr, ptr {place}")
        offset = 0
        for buffer in self.kernel.scratch:
            self._pointers[buffer] = lines.let(f"getelementptr i8, ptr %scratch, i64 {offset}")
            offset += aligned_bytes(buffer)
        self._statements(self.kernel.body)
        lines.add("ret void")
        self.module.declared.update(lines.declared)
        head = f"define void @{self.kernel.name}({SIGNATURE}) {{"
        return "\n".join([head, *lines.text, "}"])

    # -- statements

    def _statements(self, body: Sequence[Statement]) -> None:
        joint = joint_functions(body)
        first: Store | UpdateOf | None = None
        for statement, following in zip_longest(body, body[1:]):
            if isinstance(statement, Let | PlaceOf | PlaceWithin):
                self._makers[statement.value] = statement
            if isinstance(statement, For):
                self._loop(statement)
            elif statement in joint:
                if joint[statement]:
                    self._joint_functions(joint[statement])
            elif isinstance(statement, Let):
                self._values[statement.value] = self._let(statement), self._width
            elif isinstance(statement, PlaceOf):
                self._values[statement.value] = self._place(statement.axis), self._width
            elif isinstance(statement, PlaceWithin):
                place = place_within(self.lines, statement, self._operand, self._width)
                self._values[statement.value] = place, self._width
            elif isinstance(statement, Load):
                found = self._load(statement.buffer, statement.index)
                self._values[statement.value] = found, self._width
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
        place = self.lines.let(f"trunc i64 {self._places[axis]} to i32")
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
        name, width = self._values[operand]
        if width == self._width:
            return name
        key = operand, self._width
        if key not in self._spread:
            self._spread[key] = self.lines.spread(name, operand.dtype, self._width)
        return self._spread[key]

    def _joint_functions(self, both: Sequence[Let]) -> None:
        """Writes the call of two functions as one."""
        (operand,), dtype = both[0].operands, both[0].value.dtype
        names = [statement.operation for statement in both]
        name, kind = self._function(names, dtype, self._width)
        one = self.lines.type(dtype, self._width)
        found = self.lines.let(f"call {kind} @{name}({one} {self._operand(operand)})")
        for number, statement in enumerate(both):
            part = self.lines.let(f"extractvalue {kind} {found}, {number}")
            self._values[statement.value] = part, self._width

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
            place = self._places[axis]
            if stride != 1:
                place = lines.let(f"mul i64 {place}, {stride}")
            total = place if total == "0" else lines.let(f"add i64 {total}, {place}")
        for value, stride in index.picks:
            place, width = self._values[value]
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
            place = lines.let(f"mul {many} {self._values[value][0]}, splat (i64 {by})")
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
        picks = [(value, by) for value, by in index.picks if self._values[value][1] > 1]
        if width > 1 and stride == 2 and not index.picks and is_of_pairs(buffer, index):
            pairs = self._load_pairs(buffer, index)
            found = half_of_pairs(lines, buffer.dtype, pairs, width, index.begin % 2)
        elif stride == 0 and not picks:
            one = lines.let(f"load {element}, ptr {address}, align {size}")
            found = self._copied(one, buffer.dtype)
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
                place = self._places[self._axis]
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

    # -- pairs of elements, of which lanes take one each

    def _load_pairs(self, buffer: Buffer, index: Index) -> str:
        """Returns the pairs of elements that all lanes have, one behind the other."""
        begin = Index(index.terms, index.begin // 2 * 2)
        found = self._pairs.get((buffer, begin))
        if found is None:
            address = self._address(buffer, begin)
            mask = None if self._mask is None else self._mask.name
            found = load_pairs(self.lines, buffer.dtype, address, self._width, mask)
            if buffer.role == "in":
                self._pairs[buffer, begin] = found
        return found

    def _store_pairs(self, first: Store | UpdateOf, second: Store | UpdateOf) -> None:
        """Writes two statements that store the two elements of pairs."""
        halves = [self._stored(first), self._stored(second)]
        address = self._address(first.buffer, first.index)
        mask = None if self._mask is None else self._mask.name
        store_pairs(self.lines, first.buffer.dtype, address, halves, self._width, mask)

    # -- loops

    def _loop(self, loop: For) -> None:
        low, high = ("%low", "%high") if loop.axis.block else ("0", str(loop.axis.extent))
        inner, width = self._within_lanes, max(loop.lanes, self._width)
        folds = [RunningFold(fold, loop, self.lines, width, inner) for fold in loop.folds]
        self._within_lanes = inner or loop.lanes > 1
        if loop.lanes == 1:
            self._turns(loop, low, high, folds)
        else:
            whole = self._whole_end(loop, low, high)
            self._axis, self._width = loop.axis, loop.lanes
            if whole != low:
                self._turns(loop, low, whole, folds)
            if has_cheap_rest(loop):
                self._pieces(loop, int(whole))
            elif whole != high:
                self._rest(loop, whole, high, folds)
            self._axis, self._width, self._mask = None, 1, None
        self._within_lanes = inner
        for fold in folds:
            self._values[fold.fold.value] = fold.result(), self._width

    def _whole_end(self, loop: For, low: str, high: str) -> str:
        """Returns where the last full step of a loop ends."""
        if not loop.axis.block:
            return str(loop.axis.extent // loop.lanes * loop.lanes)
        length = self.lines.let(f"sub i64 {high}, {low}")
        whole = self.lines.let(f"and i64 {length}, {-loop.lanes}")
        return self.lines.let(f"add i64 {low}, {whole}")

    def _turns(self, loop: For, low: str, high: str, folds: Sequence[RunningFold]) -> None:
        """Writes the loop over full steps; the test is at its head, for blocks may be empty."""
        lines = self.lines
        before, head = lines.block, lines.label("head")
        body, behind = lines.label("body"), lines.label("behind")
        lines.add(f"br label %{head}")
        lines.begin(head)
        place, following = lines.name(), lines.name()
        phis = len(lines.text)
        for fold in folds:
            fold.enter()
        more = lines.let(f"icmp slt i64 {place}, {high}")
        lines.add(f"br i1 {more}, label %{body}, label %{behind}")
        lines.begin(body)
        self._places[loop.axis] = place
        self._spread, self._pairs = {}, {}
        self._statements(loop.body)
        for fold in folds:
            fold.take(*map(self._operand, fold.fold.operands))
        lines.add(f"{following} = add i64 {place}, {loop.lanes}")
        end = lines.block
        lines.add(f"br label %{head}")
        written = [
            f"  {place} = phi i64 [ {low}, %{before} ], [ {following}, %{end} ]",
            *[line for fold in folds for line in fold.phis(before, end)],
        ]
        lines.text[phis:phis] = written
        lines.begin(behind)
        self._spread, self._pairs = {}, {}

    def _pieces(self, loop: For, low: int) -> None:
        """Writes the last places as steps of fewer and fewer lanes."""
        width = loop.lanes // 2
        while width:
            if (loop.axis.extent - low) & width:
                self._axis, self._width = (loop.axis if width > 1 else None), width
                self._places[loop.axis] = str(low)
                self._spread, self._pairs = {}, {}
                self._statements(loop.body)
                low += width
            width //= 2
        self._spread, self._pairs = {}, {}

    def _rest(self, loop: For, low: str, high: str, folds: Sequence[RunningFold]) -> None:
        """Writes the last step, in which some lanes are idle."""
        lines, width = self.lines, loop.lanes
        left = lines.let(f"sub i64 {high}, {low}")
        left = lines.let(f"trunc i64 {left} to i32")
        every = lines.spread(left, np.dtype(np.int32), width)
        steps = ", ".join(f"i32 {i}" for i in range(width))
        mask = lines.let(f"icmp ult <{width} x i32> <{steps}>, {every}")
        self._mask = Mask(mask)
        self._places[loop.axis] = low
        self._spread, self._pairs = {}, {}
        self._statements(loop.body)
        for fold in folds:
            kind = lines.type(fold.dtype, width)
            chosen = shown_type("i1", width)
            given = [
                lines.let(f"select {chosen} {mask}, {kind} {x}, {kind} {constant(idle, width)}")
                for x, idle in zip(map(self._operand, fold.fold.operands), fold.idle)
            ]
            fold.enter_rest(*given)
        self._mask = None
        self._spread, self._pairs = {}, {}


def has_cheap_rest(loop: For) -> bool:
    """Says whether the last places are steps of fewer lanes, and not one step with idle lanes.

    Processors with AVX2 take many cycles for a store with a mask.
    """
    return (
        not loop.axis.block
        and not loop.folds
        and len(loop.body) <= LONGEST_REPEATED_BODY
        and not any(isinstance(s, Let) and s.operation in KERNEL_FUNCTIONS for s in loop.body)
    )
