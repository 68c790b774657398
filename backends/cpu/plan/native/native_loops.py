"""Loops as machine code: one call runs all steps, with no Python between them.

The function of a loop copies the first carries into the memory of their results, where they stay,
and calls the function of a step again and again. Rows of slices and of stacked results are found by
the number of the step. A step writes a carry in place where nothing needs the old one any more, and
copies it there at its end elsewhere. Loops within a step are functions that it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....native.blas import Blas
from ....native.instructions import Lines
from ....native.printer import Module
from ....native.signals import signal_status
from ....native.tables import (
    Table,
    clear_bytes,
    copy_bytes,
    element,
    go_on_if,
    returned_if_not_0,
)
from ..codegen.operands import bytes_of, constant, is_variable
from .copies import CopiedPart, copy_kernel
from .layouts import LayOut, broadcast_strides, c_strides, in_c_order
from .native_run import STREAM_EFFORT
from .number_kernels import OpenNumbers
from .region_graph import NotNative, operand_dtype
from .segment_code import SegmentCode, SegmentStep, identity_of, operand_shape

if TYPE_CHECKING:
    from ....annotations import DType, Shape
    from ....protocol import LoopPrograms
    from ..annotations import EquationLike, Operand, ProgramLike, VariableLike, VariableType

__all__ = ["SegmentWithLoops", "StepCode", "array_of"]

# Efforts count tenths of a nanosecond. A call of a kernel takes so much beside its work.
CALL_EFFORT = 50
# A loop looks for signals, such as Ctrl-C, after so much work, if it has that much.
EFFORT_BETWEEN_SIGNALS = 20_000_000
# A loop whose end depends on values is taken for one of so many steps.
UNKNOWN_STEPS = 1000
TABLE = "ptr %table, ptr %memory"


class InnerType:
    """The type of a value that no equation makes."""

    weak: type | None = None

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.size = prod(shape)


class InnerValue:
    """A copy of a value, for which the program has no variable."""

    device = "cpu"
    type: Any = None

    def __init__(self, known: InnerType) -> None:
        self.type = known


HOLDS = InnerType((), np.dtype(bool))


class StepPlace(NamedTuple):
    """The place of an output of a step.

    Attributes:
        known: its type.
        state: the input whose memory it takes at the end; None for memory of its own.
    """

    known: VariableType
    state: VariableLike | None = None


def array_of(x: Operand, known: VariableType, shape: Shape) -> Any:
    """Returns a variable, or a constant as an array of a type and a shape in C order."""
    if is_variable(x):
        if x.type.dtype != known.dtype or x.type.shape != shape:
            raise NotNative("an operand of another type")
        return x
    value = np.asarray(constant(x))
    if value.dtype == known.dtype and value.shape == shape and value.flags.c_contiguous:
        return value
    return np.array(np.broadcast_to(value.astype(known.dtype), shape), order="C")


class SegmentWithLoops(SegmentCode):
    """Collects equations of a segment, loops among them."""

    def _other(self, equation: EquationLike) -> None:
        programs = equation.primitive.machine_loop()
        if programs is None:
            raise NotNative(equation.primitive.name)
        loop = NativeLoop(programs, equation.outputs, self.blas)
        given = [
            self._layout(array_of(x, known, shape))
            for x, (known, shape) in zip(equation.operands, loop.operands, strict=True)
        ]
        given += map(self._layout, loop.constants)
        given = [*map(self._in_order, given)]
        outs = [self._fresh(out) for out in equation.outputs]
        self._lying.update({x.owner: x for x in outs})
        self._steps.append(SegmentStep(loop, (*given, *outs), len(given)))
        self.effort += loop.effort
        self.largest_product = max(self.largest_product, loop.largest_product)

    def _in_order(self, x: LayOut) -> LayOut:
        """Returns where a value lies in C order: where it is, or in a copy."""
        return x if in_c_order(x.shape, x.strides) else self._copied(x)

    def _copied(self, x: LayOut) -> LayOut:
        """Returns where a copy of a value lies."""
        dtype = operand_dtype(x.owner)
        return self._joined([x], InnerValue(InnerType(x.shape, dtype)), [(x.shape, x.strides, 0)])

    def _joined(
        self,
        given: Sequence[LayOut],
        out: VariableLike,
        parts: Sequence[tuple[Shape, tuple[int, ...], int]],
    ) -> LayOut:
        """Adds the copy of values into a new one; returns where that lies."""
        into, dtype = self._fresh(out), out.type.dtype
        kernel = copy_kernel(dtype, out.type.shape, [CopiedPart(*part) for part in parts])
        self._lying[out] = into
        self._steps.append(SegmentStep(kernel, (*given, into), len(given)))
        self.effort += STREAM_EFFORT * out.type.size * dtype.itemsize / 4
        return into

    def _in_place_pairs(self, step: SegmentStep) -> set[tuple[int, int]]:
        if isinstance(step.kernel, NativeLoop):
            return {(i, i) for i in range(step.kernel.carries)}
        return super()._in_place_pairs(step)

    def _own_bytes(self, step: SegmentStep) -> int:
        if isinstance(step.kernel, NativeLoop):
            return step.kernel.memory
        return super()._own_bytes(step)

    def _call(self, step: SegmentStep, module: Module, offset: int) -> None:
        if not isinstance(step.kernel, NativeLoop):
            super()._call(step, module, offset)
            return
        lines = self.lines
        name = step.kernel.function(module)
        room, memory = self._room(step), self._scratch(step, offset)
        returned_if_not_0(lines, lines.let(f"call i64 @{name}(ptr {room}, ptr {memory})"))


class StepCode(SegmentWithLoops):
    """The code of a step: a program whose values lie in memory, those without axes too.

    Attributes:
        arrays: the inputs and the constants that it reads.
        slots: the results that lie in memory that is given for them, with the numbers of outputs.

    Args:
        program: the program.
        blas: the products of large matrices.
        places: where its outputs go.

    Raises:
        NotNative: an equation is none that machine code has.
    """

    def __init__(
        self, program: ProgramLike, blas: Blas | None, places: Sequence[StepPlace]
    ) -> None:
        super().__init__(blas)
        self._numbers = OpenNumbers(program)
        for equation in program.equations:
            if not all(out.type.size for out in equation.outputs):
                raise NotNative("an empty array")
            self._add(equation)
            if self.labels:
                raise NotNative("labels within a loop")
            self.equations.append(equation)
            self.made.update(equation.outputs)
        self._close_numbers()
        self.effort += CALL_EFFORT * len(self._steps)
        self.slots: dict[Any, int] = {}
        # The outputs that are copied before and behind all else, and where they lie.
        self._early: list[tuple[int, LayOut]] = []
        self._late: list[tuple[int, LayOut]] = []
        self._end(program.outputs, places)

    # -- collecting

    def _add(self, equation: EquationLike) -> None:
        if self._numbers.take(equation):
            return
        if self._numbers.are_read_by(equation):
            self._close_numbers()
        name = equation.primitive.name
        if name in ("concatenate", "stack"):
            self._join(equation, name == "stack")
        elif name == "broadcast_to":
            self._view(equation)
        else:
            super()._add(equation)

    def _close_numbers(self) -> None:
        """Makes a kernel of the equations of numbers that have been put off."""
        for numbers in self._numbers.closed():
            given = [self._layout(x) for x in numbers.inputs]
            outs = [self._fresh(x) for x in numbers.results]
            self._lying.update({x.owner: x for x in outs})
            self._steps.append(SegmentStep(numbers.kernel, (*given, *outs), len(given)))
            self.effort += numbers.effort

    def _has_view(self, x: Operand, out: VariableLike) -> bool:
        return True

    def _view_layout(self, equation: EquationLike) -> LayOut:
        if equation.primitive.name != "broadcast_to":
            return super()._view_layout(equation)
        (x,), (out,) = equation.operands, equation.outputs
        lying = self._layout(array_of(x, out.type, operand_shape(x)))
        strides = broadcast_strides(lying.shape, lying.strides, out.type.shape)
        return LayOut(lying.owner, lying.offset, out.type.shape, tuple(strides))

    def _join(self, equation: EquationLike, stack: bool) -> None:
        """Takes in arrays that are put side by side."""
        (out,), axis = equation.outputs, equation.params["axis"] % equation.outputs[0].type.ndim
        given, parts, begin = [], [], 0
        for x in equation.operands:
            lying = self._layout(array_of(x, out.type, operand_shape(x)))
            shape, strides = lying.shape, lying.strides
            if stack:
                shape, strides = ((*v[:axis], n, *v[axis:]) for v, n in ((shape, 1), (strides, 0)))
            given.append(lying)
            parts.append((shape, strides, begin * c_strides(out.type.shape)[axis]))
            begin += shape[axis]
        self._joined(given, out, parts)

    # -- the end of the step

    def _end(self, outputs: Sequence[Any], places: Sequence[StepPlace]) -> None:
        """Decides how outputs come into the memory that is given for them."""
        states = {*filter(None, [place.state for place in places])}
        ends: list[LayOut | None] = []
        for x, (known, state) in zip(outputs, places, strict=True):
            found = self._layout(array_of(x, known, known.shape))
            if state is not None and self._is_all_of(found, state):
                ends.append(None)  # it stays as it is
            elif state is not None and identity_of(found.owner) in states:
                ends.append(self._copied(found))
            else:
                ends.append(self._in_order(found))
        # Rows come first: what is a row and a carry is written into the row, and copied.
        for number in sorted(range(len(ends)), key=lambda i: places[i].state is not None):
            lying, state = ends[number], places[number].state
            if lying is None:
                continue
            owner = lying.owner
            read = identity_of(owner) in map(identity_of, self.arrays)
            free = not read and owner not in self.slots and self._is_all_of(lying, owner)
            if free and (state is None or self.can_take(state, owner)):
                self.slots[owner] = number
            elif read and state is None:
                self._early.append((number, lying))
            else:
                self._late.append((number, lying))
                self._lasting.add(identity_of(owner))

    def _is_all_of(self, lying: LayOut, x: VariableLike) -> bool:
        """Says whether a value is all of a variable, in C order."""
        return lying.owner is x and lying[1:] == self._fresh(x)[1:]

    # -- writing

    @property
    def memory(self) -> int:
        """The bytes of memory that it needs."""
        return self._offsets([*self.slots])[1]

    @property
    def has_loops(self) -> bool:
        """Says whether there are loops in it."""
        return any(isinstance(step.kernel, NativeLoop) for step in self._steps)

    def function(self, name: str, module: Module) -> None:
        """Writes its function, of a table of addresses: of arrays, then of places for outputs."""
        self.lines = lines = Lines()
        lines.begin("entry")
        self._pointers = {
            identity_of(x): element(lines, "%table", number) for number, x in enumerate(self.arrays)
        }
        first = len(self.arrays)
        for number, lying in self._early:
            self._copy(element(lines, "%table", first + number), lying)
        for owner, number in self.slots.items():
            self._pointers[owner] = element(lines, "%table", first + number)
        self._write_steps(module, [*self.slots], lambda: "%memory")
        for number, lying in self._late:
            self._copy(element(lines, "%table", first + number), lying)
        lines.add("ret i64 0")
        module.declared.update(lines.declared)
        # Within a loop, what is inlined may not take memory of the stack behind its first block.
        how = "noinline" if self.has_loops else "alwaysinline"
        head = f"define internal i64 @{name}({TABLE}) {how} {{"
        module.functions[name] = "\n".join([head, *lines.text, "}"])

    def _copy(self, place: str, x: LayOut) -> None:
        size = prod(x.shape) * operand_dtype(x.owner).itemsize
        copy_bytes(self.lines, place, self._pointer(x), size)


class NativeLoop:
    """A loop.

    Attributes:
        carries: how many of its first operands and results are carries.
        operands: the types and shapes of its operands.
        constants: the arrays that it reads beside its operands.
        effort: its work, in tenths of a nanosecond.
        largest_product: the most multiplications of one product.
        memory: the bytes of memory that it needs.

    Args:
        programs: its body and its condition.
        outputs: the variables of its results.
        blas: the products of large matrices.

    Raises:
        NotNative: an equation is none that machine code has.
    """

    def __init__(
        self, programs: LoopPrograms, outputs: Sequence[VariableLike], blas: Blas | None
    ) -> None:
        self._programs = programs
        self._outputs = outputs
        loop, body, condition = programs.loop, programs.body, programs.condition
        self.carries = loop.carries
        first, last = loop.carries + loop.slices, len(body.inputs) - loop.sums
        states = [*body.inputs[: loop.carries], *body.inputs[last:]]
        stacked = outputs[loop.carries : len(outputs) - loop.sums]
        places = [StepPlace(x.type, x) for x in states]
        places[loop.carries : loop.carries] = [
            StepPlace(InnerType(x.type.shape[1:], x.type.dtype)) for x in stacked
        ]
        self._body = StepCode(body, blas, places)
        self._tests = [] if condition is None else [StepCode(condition, blas, [StepPlace(HOLDS)])]
        own = [] if condition is None else condition.inputs[loop.carries :]
        # For the inputs of both programs the numbers of operands.
        self._numbers = {x: i for i, x in enumerate(body.inputs[:first])}
        self._numbers |= {x: i for i, x in enumerate(body.inputs[first:last], first + len(own))}
        self._test_numbers = {x: i for i, x in enumerate(own, first)}
        slices = range(loop.carries, first)
        steps = programs.steps
        taken = [*body.inputs[:first], *own, *body.inputs[first:last]]
        self.operands = [
            (x.type, (steps, *x.type.shape) if i in slices else x.type.shape)
            for i, x in enumerate(taken)
        ]
        parts = [self._body, *self._tests]
        arrays = [x for part in parts for x in part.arrays if not is_variable(x)]
        self.constants = list({id(x): x for x in arrays}.values())
        self._step_effort = CALL_EFFORT + sum(part.effort for part in parts)
        self.effort = self._step_effort * (UNKNOWN_STEPS if steps is None else steps)
        self.largest_product = max(part.largest_product for part in parts)
        self.memory = max(part.memory for part in parts)

    def function(self, module: Module) -> str:
        """Writes its function, and returns the name.

        The function takes the addresses of operands, constants and results, and that of its memory.
        It returns 0, or what tells that a signal has raised an error.
        """
        name = f"loop_{len(module.functions)}"
        module.functions[name] = ""
        self._body.function(f"{name}_step", module)
        for code in self._tests:
            code.function(f"{name}_test", module)
        self._lines = lines = Lines()
        lines.begin("entry")
        self._write(name, module)
        module.declared.update(lines.declared)
        head = f"define internal i64 @{name}({TABLE}) noinline {{"
        module.functions[name] = "\n".join([head, *lines.text, "}"])
        return name

    def _write(self, name: str, module: Module) -> None:
        """Writes the first carries, and all steps behind them."""
        lines, programs = self._lines, self._programs
        loop, inputs = programs.loop, programs.body.inputs
        count = len(self.operands) + len(self.constants)
        given = [element(lines, "%table", i) for i in range(count + len(self._outputs))]
        operands, results = given[:count], given[count:]
        for x, first, state in zip(inputs, operands, results[: loop.carries]):
            copy_bytes(lines, state, first, bytes_of(x.type))
        totals = inputs[len(inputs) - loop.sums :]
        sums = results[len(results) - loop.sums :]
        for x, total in zip(totals, sums, strict=True):
            clear_bytes(lines, total, bytes_of(x.type))
        fixed = {id(x): operands[len(self.operands) + i] for i, x in enumerate(self.constants)}
        places = fixed | {x: operands[i] for x, i in self._numbers.items()}
        places |= dict(zip(inputs, results[: loop.carries]))
        places |= dict(zip(totals, sums, strict=True))
        stacks = range(loop.carries, len(results) - loop.sums)
        rows = {results[i]: bytes_of(self._outputs[i].type) for i in stacks}
        rows = {stack: size // max(programs.steps or 1, 1) for stack, size in rows.items()}
        slices = inputs[loop.carries : loop.carries + loop.slices]
        rows |= {places[x]: bytes_of(x.type) for x in slices}
        table = Table(lines, [places[identity_of(x)] for x in self._body.arrays] + results, rows)
        before, head, body = lines.block, lines.label("head"), lines.label("body")
        behind, end = lines.label("behind"), lines.label("end")
        step, following = lines.name(), lines.name()
        tests = []
        for code in self._tests:
            tested = fixed | {x: operands[i] for x, i in self._test_numbers.items()}
            tested |= dict(zip(programs.condition.inputs, results[: loop.carries]))
            holds = lines.let("alloca i8, align 1")
            known = [tested[identity_of(x)] for x in code.arrays]
            tests.append((holds, Table(lines, [*known, holds], {})))
        lines.add(f"br label %{head}")
        lines.begin(head)
        lines.add(f"{step} = phi i64 [ 0, %{before} ], [ {following}, %{behind} ]")
        if programs.steps is not None:
            go_on_if(lines, lines.let(f"icmp slt i64 {step}, {programs.steps}"), end)
        for holds, test_table in tests:
            returned_if_not_0(lines, test_table.call(f"{name}_test"))
            found = lines.let(f"load i8, ptr {holds}, align 1")
            go_on_if(lines, lines.let(f"icmp ne i8 {found}, 0"), end)
        lines.add(f"br label %{body}")
        lines.begin(body)
        place = step
        if loop.backwards:
            place = lines.let(f"sub i64 {(programs.steps or 0) - 1}, {step}")
        table.move(place)
        returned_if_not_0(lines, table.call(f"{name}_step"))
        self._look_for_signals(step, module)
        lines.add(f"br label %{behind}")
        lines.begin(behind)
        lines.add(f"{following} = add i64 {step}, 1")
        lines.add(f"br label %{head}")
        lines.begin(end)
        lines.add("ret i64 0")

    def _look_for_signals(self, step: str, module: Module) -> None:
        """Writes the test for signals after some of the steps, unless the loop is short."""
        lines, steps = self._lines, self._programs.steps
        between = 1 << max(int(EFFORT_BETWEEN_SIGNALS / self._step_effort).bit_length() - 1, 0)
        if steps is not None and steps < between:
            return
        due = lines.let(f"and i64 {step}, {between - 1}")
        due = lines.let(f"icmp eq i64 {due}, {between - 1}")
        ask, behind = lines.label("ask"), lines.label("behind")
        lines.add(f"br i1 {due}, label %{ask}, label %{behind}")
        lines.begin(ask)
        returned_if_not_0(lines, signal_status(lines, module.functions))
        lines.add(f"br label %{behind}")
        lines.begin(behind)
