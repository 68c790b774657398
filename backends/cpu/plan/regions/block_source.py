"""The text of a region's loop over blocks, and the buffers of its values."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ....finiteness import INEXACT_KINDS
from ...parallel import CACHE_LINE_BYTES
from ..codegen.operands import constant, is_variable
from ..watched import HARMLESS, is_reported, quietly, quietly_called, report_results
from .block_steps import Blockwise
from .cost import step_effort
from .grid import Groups
from .steps import BlockStep, BlockValue

if TYPE_CHECKING:
    pass

__all__ = ["BlockCode"]

# The bytes of the cache that all values of a block take, bounds of a block's elements, and the
# number of blocks that are left for threads. Blocks that fit into the innermost cache would be
# quicker in one thread. Several threads wait for the interpreter's lock at every call.
BLOCK_CACHE_BYTES = 1 << 23
SMALLEST_BLOCK_ELEMENTS, LARGEST_BLOCK_ELEMENTS = 131072, 262144
FEWEST_BLOCKS = 8
# Beginnings of steps that compute nothing.
MOVING = "np.bitwise_", "np.broadcast_to", "np.copyto"


class BlockCode:
    """Writes the loop over the steps of a region as a function.

    Attributes:
        grid: the grid with its joined axes.
        blocks: numbers, beginnings and ends of blocks.
        shapes: for every input the axes and shape that bring it to the grid; None for numbers.
        outputs: the results.
        memory: the bytes of memory that a thread needs.
        effort: the work of all blocks, in tenths of a nanosecond.
    """

    def __init__(self, name: str, made: Blockwise, watched: bool = False) -> None:
        # True where it reports NaN and infinity.
        self.watched = watched
        self.source, self.grid, self.steps = made.source, made.grid, made.steps
        self.inputs, self.shapes, self.outputs = made.inputs, made.shapes, made.outputs
        # For every value that is returned, the numbers of the outputs.
        self._targets: dict[int, list[int]] = {}
        for number, output in enumerate(self.outputs):
            if output.value is not None:
                self._targets.setdefault(id(output.value), []).append(number)
        for number, step in enumerate(self.steps):
            for x in step.operands:
                if type(x) is BlockValue:
                    x.last = number
        for x in self.inputs:
            if id(x) in self._targets:
                x.last = len(self.steps)  # the last lines copy it
        # The dtype and the groups of every slot.
        self._slots: list[tuple[Any, Groups]] = []
        self._assign()
        self.blocks = self.grid.blocks(self._elements())
        self.effort = sum(step_effort(step, self.grid) for step in self.steps)
        self.memory = 0
        self._write(name)

    def can_take(self, number: int, out: int) -> bool:
        """Says whether an output may be written where an input lies, block by block."""
        given, output = self.inputs[number], self.outputs[out]
        made = output.value
        if made is None or made.step is None or given.groups != output.groups:
            return False
        if len(self._targets[id(made)]) > 1:
            return False
        step = self.steps.index(made.step)
        return given.last < step or (given.last == step and made.step.kind != "apart")

    def _whole(self, value: BlockValue) -> bool:
        return len(value.groups) == len(self.grid.shape)

    # -- memory

    def _assign(self) -> None:
        """Gives a slot to every value that is as large as the block and not returned."""
        free: dict[Any, list[Any]] = {}
        for number, step in enumerate(self.steps):
            ending = {id(x): x for x in step.operands if type(x) is BlockValue and x.last == number}
            ended = [x for x in ending.values() if x.slot is not None]
            made = step.made
            if step.kind == "apart" and made is not None:
                self._place(step, made, free)
            for x in ended:
                free.setdefault((x.dtype, x.groups), []).append(x.slot)
            if step.kind != "apart" and made is not None:
                self._place(step, made, free)

    def _place(self, step: BlockStep, made: BlockValue, free: dict[Any, list[Any]]) -> None:
        """Gives the result of a step a free or a new slot, if it needs one."""
        if not step.placeable or not self._whole(made) or self._direct(made) is not None:
            return
        key = made.dtype, made.groups
        if free.get(key):
            made.slot = free[key].pop()
        else:
            made.slot = len(self._slots)
            self._slots.append(key)

    def _direct(self, made: BlockValue) -> int | None:
        """Returns the number of the output that a value can be computed into."""
        for number in self._targets.get(id(made), ()):
            output = self.outputs[number]
            if output.groups == made.groups and output.type.dtype == made.dtype:
                return number
        return None

    def _elements(self) -> int:
        """Returns the number of elements of a block that stays in the cache."""
        axes = len(self.grid.shape)
        dtypes = [dtype for dtype, _ in self._slots]
        dtypes += [x.dtype for x in self.inputs if len(x.groups) == axes]
        dtypes += [o.type.dtype for o in self.outputs if len(o.groups) == axes]
        width: int = max(sum(dtype.itemsize for dtype in dtypes), 1)
        most = min(BLOCK_CACHE_BYTES // width, self.grid.rows * self.grid.inner // FEWEST_BLOCKS)
        return min(max(most, SMALLEST_BLOCK_ELEMENTS), LARGEST_BLOCK_ELEMENTS)

    # -- text

    def _write(self, name: str) -> None:
        source = self.source
        arrays = [f"whole_{x.text}" for x in self.inputs]
        arrays += [f"{'parts' if o.reduction else 'out'}_{i}" for i, o in enumerate(self.outputs)]
        source.function(name, ["blocks", "memory", *arrays])
        self._cut_memory()
        source.add("for number, low, high in blocks:")
        for x in self.inputs:
            cut = "[low:high]" if 0 in x.groups else ""
            source.add(f"    {x.text} = whole_{x.text}{cut}")
        for i in range(len(self._slots)):
            source.add(f"    scratch_{i} = memory_{i}[:high - low]")
        for i, output in enumerate(self.outputs):
            if output.value is not None:
                source.add(f"    into_{i} = out_{i}[low:high]")
        for number, step in enumerate(self.steps):
            self._line(number, step)
        for x in self.inputs:
            for i in self._targets.get(id(x), ()):
                source.add(f"    np.copyto(into_{i}, {x.text})")

    def _cut_memory(self) -> None:
        """Writes the lines that cut a thread's memory into slots."""
        for i, (dtype, groups) in enumerate(self._slots):
            shape = self.blocks.longest, *self.grid.joined(groups)[1:]
            end = self.memory + prod(shape) * dtype.itemsize
            kind = self.source.constant(dtype, "dtype")
            text = f"memory[{self.memory}:{end}].view({kind}).reshape({shape!r})"
            self.source.add(f"memory_{i} = {text}")
            # Every slot begins at a cache line.
            self.memory = -(-end // CACHE_LINE_BYTES) * CACHE_LINE_BYTES

    def _line(self, number: int, step: BlockStep) -> None:
        shown = [self._shown(x) for x in step.operands]
        made = step.made
        if made is None:
            self.source.add(f"    {step.form.format(*shown)}", step.equation)
            return
        direct = self._direct(made) if step.placeable and self._whole(made) else None
        into = ""
        if direct is not None:
            into = f"into_{direct}"
        elif made.slot is not None:
            into = f"scratch_{made.slot}"
        elif "{into}" in step.form:
            shape = self.grid.block_shape(made.groups)
            kind = self.source.constant(made.dtype, "dtype")
            into = f"room_{number}"
            self.source.add(f"    {into} = np.empty({shape}, {kind})", step.equation)
        text = step.form.format(
            *shown,
            out=f", {into}" if into else "",
            named=f", out={into}" if into else "",
            into=into,
        )
        if self.watched:
            text = self._quiet(step, text)
        if "{into}" in step.form:
            self.source.add(f"    {text}", step.equation)
            made.text = into
        else:
            made.text = f"v{number}"
            self.source.add(f"    {made.text} = {text}", step.equation)
        if self.watched and made.tested:
            given = ", ".join([f"({made.text},)", *(shown if made.tested == "direct" else ())])
            self.source.add(f"    {self.source.bind(report_results)}({given})", step.equation)
        for i in self._targets.get(id(made), ()):
            if i != direct:
                self.source.add(f"    np.copyto(into_{i}, {made.text})")

    def _quiet(self, step: BlockStep, text: str) -> str:
        """Returns the text of a step; what it does not have to report is not reported."""
        made = step.made
        if made is None or made.dtype.kind not in INEXACT_KINDS or text.startswith(MOVING):
            return text
        if step.kind in HARMLESS or is_reported(step.kind, [made.dtype]):
            return text
        return quietly_called(text, self.source.bind(quietly))

    def _shown(self, x: Any) -> str:
        if type(x) is BlockValue:
            return x.text
        text = self.source.shown(x)
        return f"({text})" if not is_variable(x) and type(constant(x)) in (int, float) else text
