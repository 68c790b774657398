"""Prints kernels as LLVM's text.

A loop with lanes becomes a loop over vectors, and one masked step for the places that are left. All
that it computes is a vector; what loops around it computed is spread over the lanes.

A loop over tiles gives the loops in it the places of one tile. Those with lanes have one masked
step. Others may take several places together: what is in them is written once for each of these,
step by step, so that sums of one row do not wait for those of another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np

from ..kernels.kernel import Fold, For, Let, LoopKernel, all_statements
from ..kernels.operations import KERNEL_FUNCTIONS
from .instructions import constant, memory_type, shown_type
from .running_folds import RunningFold
from .scratch import aligned_bytes
from .statement_printer import Copy, Mask, StatementPrinter

__all__ = ["Module", "Printer", "printed_module"]

# Functions that are called at more places stay functions, which compile sooner.
MOST_INLINED_CALLS = 12
# Longer bodies are not written again for the last places of a loop.
LONGEST_REPEATED_BODY = 24
# A loop of few steps that are short is written without one: this is how many statements all steps
# have at most.
MOST_STATEMENTS_IN_A_ROW = 32
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
        self._names: dict[LoopKernel, str] = {}
        self._parts: dict[str, str] = {}
        self._inner: dict[str, str] = {}
        self._inner_names = 0
        # How often functions are called.
        self.calls: Counter[str] = Counter()

    def kernel(self, kernel: LoopKernel) -> str:
        """Returns the name of a kernel's function; equal kernels are one."""
        if kernel in self._names:
            return self._names[kernel]
        calls = self.calls.copy()
        body = Printer(kernel, self).text().partition("(")[2]
        name = self._kernels.get(body)
        if name is None:
            name = self._kernels[body] = f"kernel_{len(self._kernels)}"
            body = body.replace(") {", ") noinline {", 1)
            self.functions[name] = f"define internal void @{name}({body}"
        else:
            self.calls = calls
        self._names[kernel] = name
        return name

    def part(self, body: str) -> str:
        """Returns the name of a function of a part of some work, of its text behind the name."""
        name = self._parts.setdefault(body, f"part_{len(self._parts)}")
        self.functions[name] = f"define internal void @{name}{body}"
        return name

    def inner_name(self) -> str:
        """Returns a new name for a function of several, which begin with that name."""
        self._inner_names += 1
        return f"inner_{self._inner_names}"

    def first_of_equals(self, name: str) -> str:
        """Returns the name of the first function with the same text; a later one is dropped."""
        own = [x for x in self.functions if x == name or x.startswith(f"{name}_")]
        text = "\n".join(self.functions[x] for x in own)
        first = self._inner.setdefault(re.sub(rf"@{name}(?=[_(])", "@inner", text), name)
        if first != name:
            for x in own:
                del self.functions[x]
        return first

    def text(self, *functions: str) -> str:
        """Returns the text of the module, with some functions more."""
        own = [
            text.replace(" alwaysinline {", " noinline {", 1)
            if self.calls[name] > MOST_INLINED_CALLS
            else text
            for name, text in self.functions.items()
        ]
        return "\n".join([*self.declared.values(), *own, *functions, ""])


class Printer(StatementPrinter):
    """Prints a kernel."""

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

    # -- loops

    def _loop(self, loop: For) -> None:
        if loop.lanes & (loop.lanes - 1):
            # Its last places would be computed at places that others have.
            raise ValueError(f"{self.kernel.name}: {loop.lanes} lanes are no power of two")
        low, high = ("%low", "%high") if loop.axis.block else ("0", str(loop.axis.extent))
        low, high = self._tiles.get(loop.axis, (low, high))
        inner, width = self._within_lanes, max(loop.lanes, self._width)
        folds = [
            RunningFold(fold, loop, self.lines, width, inner, copy, self._begin_of(fold))
            for copy in self._copies
            for fold in loop.folds
        ]
        self._within_lanes = inner or loop.lanes > 1
        if loop.tile:
            self._each_tile(loop, low, high, folds)
        elif loop.lanes == 1:
            self._turns(loop, low, high, folds)
        elif loop.axis in self._tiles:
            # A step for a whole tile is one with a mask, too: it is written once.
            self._axis, self._width = loop.axis, loop.lanes
            self._rest(loop, low, high, folds)
            self._axis, self._width = None, 1
        else:
            whole = self._whole_end(loop, low, high)
            self._axis, self._width = loop.axis, loop.lanes
            if has_few_steps(loop):
                self._steps(loop, int(whole))
            elif whole != low:
                self._turns(loop, low, whole, folds)
            if has_cheap_rest(loop):
                self._pieces(loop, int(whole))
            elif whole != high:
                self._rest(loop, whole, high, folds)
            self._axis, self._width, self._mask = None, 1, None
        self._within_lanes = inner
        for fold in folds:
            fold.copy.values[fold.fold.value] = fold.result(), self._width

    def _begin_of(self, fold: Fold) -> str | None:
        """Returns the name of what a fold begins with; None for its identity."""
        return None if fold.begin is None else self._operand(fold.begin)

    def _whole_end(self, loop: For, low: str, high: str) -> str:
        """Returns where the last full step of a loop ends."""
        if not loop.axis.block:
            return str(loop.axis.extent // loop.lanes * loop.lanes)
        length = self.lines.let(f"sub i64 {high}, {low}")
        whole = self.lines.let(f"and i64 {length}, {-loop.lanes}")
        return self.lines.let(f"add i64 {low}, {whole}")

    def _each_tile(self, loop: For, low: str, high: str, folds: Sequence[RunningFold]) -> None:
        """Writes the loop over tiles, of which the last one may have fewer places."""
        pointers = self._pointers.copy()
        self._turns(loop, low, high, folds)
        self._pointers = pointers
        del self._tiles[loop.axis]

    def _enter_tile(self, loop: For, place: str, high: str) -> None:
        """Writes where a tile ends, and where the rows lie that memory keeps of it."""
        lines = self.lines
        end = lines.let(f"add i64 {place}, {loop.tile}")
        end = lines.call("llvm.smin.i64", "i64", [("i64", end), ("i64", high)])
        self._tiles[loop.axis] = place, end
        for buffer in self.kernel.scratch:
            if buffer.tile:
                row = prod(buffer.shape[1:])
                begin = lines.let(f"mul i64 {place}, {-row}")
                kind, pointer = memory_type(buffer.dtype), self._pointers[buffer]
                address = lines.let(f"getelementptr {kind}, ptr {pointer}, i64 {begin}")
                self._pointers[buffer] = address

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
        step, around = loop.tile or loop.lanes, self._copies
        self._forget()
        if loop.tile:
            self._enter_tile(loop, place, high)
        elif loop.together > 1:
            step = loop.together
            self._copies = [self._copy_at(loop, place, high, i) for i in range(step)]
        else:
            self._stand(loop.axis, place)
        self._statements(loop.body)
        self._copies, self._here = around, around[0]
        for fold in folds:
            self._here = fold.copy
            fold.take(*map(self._operand, fold.fold.operands))
        lines.add(f"{following} = add i64 {place}, {step}")
        end = lines.block
        lines.add(f"br label %{head}")
        written = [
            f"  {place} = phi i64 [ {low}, %{before} ], [ {following}, %{end} ]",
            *[line for fold in folds for line in fold.phis(before, end)],
        ]
        lines.text[phis:phis] = written
        lines.begin(behind)
        self._forget()

    def _steps(self, loop: For, end: int) -> None:
        """Writes full steps one behind the other, without a loop."""
        for place in range(0, end, loop.lanes):
            self._stand(loop.axis, str(place))
            self._forget()
            self._statements(loop.body)
        self._forget()

    def _copy_at(self, loop: For, place: str, high: str, number: int) -> Copy:
        """Returns the copy for a place of several; behind the last one it is that again."""
        if number:
            lines = self.lines
            place = lines.let(f"add i64 {place}, {number}")
            last = lines.let(f"sub i64 {high}, 1")
            place = lines.call("llvm.smin.i64", "i64", [("i64", place), ("i64", last)])
        return Copy(self._here.values.copy(), {**self._here.places, loop.axis: place})

    def _pieces(self, loop: For, low: int) -> None:
        """Writes the last places as steps of fewer and fewer lanes."""
        width = loop.lanes // 2
        while width:
            if (loop.axis.extent - low) & width:
                self._axis, self._width = (loop.axis if width > 1 else None), width
                self._stand(loop.axis, str(low))
                self._forget()
                self._statements(loop.body)
                low += width
            width //= 2
        self._forget()

    def _rest(self, loop: For, low: str, high: str, folds: Sequence[RunningFold]) -> None:
        """Writes the last step, in which some lanes are idle."""
        lines, width = self.lines, loop.lanes
        left = lines.let(f"sub i64 {high}, {low}")
        left = lines.let(f"trunc i64 {left} to i32")
        every = lines.spread(left, np.dtype(np.int32), width)
        steps = ", ".join(f"i32 {i}" for i in range(width))
        mask = lines.let(f"icmp ult <{width} x i32> <{steps}>, {every}")
        self._mask = Mask(mask)
        self._stand(loop.axis, low)
        self._forget()
        self._statements(loop.body)
        for fold in folds:
            kind = lines.type(fold.dtype, width)
            chosen = shown_type("i1", width)
            self._here = fold.copy
            given = [
                lines.let(f"select {chosen} {mask}, {kind} {x}, {kind} {constant(idle, width)}")
                for x, idle in zip(map(self._operand, fold.fold.operands), fold.idle)
            ]
            fold.enter_rest(*given)
        self._mask = None
        self._forget()


def has_cheap_rest(loop: For) -> bool:
    """Says whether the last places are steps of fewer lanes, and not one step with idle lanes.

    Processors with AVX2 take many cycles for a store with a mask.
    """
    return (
        not loop.axis.block
        and not loop.folds
        and len(loop.body) <= LONGEST_REPEATED_BODY
        and not calls_functions(loop)
    )


def has_few_steps(loop: For) -> bool:
    """Says whether a loop with lanes is written as full steps one behind the other.

    Stores that cross the lines of a cache, as most of NumPy's arrays make them, wait for each
    other in a loop: 256 outer products of 64 numbers take an eighth less without one.
    """
    return (
        not loop.axis.block
        and not loop.folds
        and loop.axis.extent // loop.lanes * len(loop.body) <= MOST_STATEMENTS_IN_A_ROW
        and not any(isinstance(s, For) for s in loop.body)
        and not calls_functions(loop)
    )


def calls_functions(loop: For) -> bool:
    """Says whether a loop calls functions that are written out, which are long."""
    return any(
        isinstance(s, Let) and s.operation in KERNEL_FUNCTIONS for s in all_statements(loop.body)
    )
