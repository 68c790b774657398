"""Loops as machine code: one call runs all steps, with no Python between them.

The function of a loop copies the first carries into the memory of their results, where they stay,
and calls the function of a step again and again. Rows of slices and of stacked results are found by
the number of the step. A step writes a carry in place where nothing needs the old one any more, and
copies it there at its end elsewhere. Loops and choices within a step are functions that it calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....native.blas import Blas
from ....native.instructions import Lines, memory_type
from ....native.printer import Module
from ....native.signals import signal_status
from ....native.tables import (
    Table,
    clear_bytes,
    copy_all,
    element,
    go_on_if,
    returned_if_not_0,
)
from ..codegen.operands import bytes_of, is_variable
from .element_access import ElementAccess, is_element_access, updates_elements
from .fourier import FourierTransform, is_fourier_transform
from .joined_arrays import SegmentWithJoins
from .layouts import identity_of
from .matrices import MatrixFunction, is_matrix_function
from .number_kernels import CALL_EFFORT
from .random_words import RandomWords, is_random_words
from .region_graph import NotNative
from .region_kernels import RegionKernels
from .running import RunningFunction, is_cumulative, is_running
from .slices_written import SlicesWritten, writes_slices
from .sorts import SortFunction, is_sort
from .step_code import InnerFunction, InnerType, StepCode, StepPlace

if TYPE_CHECKING:
    from ....protocol import LoopPrograms
    from ..annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["NativeChoice", "NativeLoop", "code_with_loops"]

# A loop looks for signals, such as Ctrl-C, after so much work, if it has that much.
EFFORT_BETWEEN_SIGNALS = 20_000_000
# A loop whose end depends on values is taken for one of so many steps.
UNKNOWN_STEPS = 1000
# Outside of loops NumPy transforms more numbers in as much time.
MOST_TRANSFORMED = 1 << 16
HOLDS = InnerType((), np.dtype(bool))


def code_with_loops(
    blas: Blas | None,
    earlier: Mapping[VariableLike, EquationLike],
    moved: Collection[VariableLike],
    kernels: RegionKernels,
    uses: Counter[VariableLike],
) -> SegmentWithJoins:
    """Returns what collects the equations of a segment, loops among them.

    Args:
        blas: the products of large matrices.
        earlier: the equations of views that stand before it.
        moved: variables of other places whose arrays are in another order than C's.
        kernels: makes the kernels of regions.
        uses: how often the program uses its variables.
    """
    code = SegmentWithJoins(blas, segment_function, earlier, moved, uses)
    code.kernels = kernels
    return code


def segment_function(equation: EquationLike, blas: Blas | None) -> InnerFunction:
    """Returns the function of a loop, of Fourier transforms, or of another part of a segment.

    Raises:
        NotNative: the equation is none, or has an equation that machine code does not have.
    """
    if is_fourier_transform(equation):
        if equation.outputs[0].type.size > MOST_TRANSFORMED:
            raise NotNative("many numbers")
        return FourierTransform(equation)
    if updates_elements(equation):
        return ElementAccess(equation)
    if is_cumulative(equation):
        return RunningFunction(equation)
    return loop_function(equation, blas)


def loop_function(equation: EquationLike, blas: Blas | None) -> InnerFunction:
    """Returns the function of a loop, a choice between branches, matrices, random bits, or slices.

    Raises:
        NotNative: the equation is none, or has an equation that machine code does not have.
    """
    if is_matrix_function(equation):
        return MatrixFunction(equation, blas)
    if is_random_words(equation):
        return RandomWords(equation)
    if writes_slices(equation):
        return SlicesWritten(equation)
    branches = equation.primitive.machine_branches()
    if branches is not None:
        return NativeChoice(branches, equation, blas)
    programs = equation.primitive.machine_loop()
    if programs is None:
        raise NotNative(equation.primitive.name)
    return NativeLoop(programs, equation.outputs, blas)


def inner_function(equation: EquationLike, blas: Blas | None) -> InnerFunction:
    """Returns the function of a part of a step: the same, single elements, or along an axis.

    Raises:
        NotNative: the equation is none, or has an equation that machine code does not have.
    """
    if is_element_access(equation):
        return ElementAccess(equation)
    if is_running(equation):
        return RunningFunction(equation)
    if is_sort(equation):
        return SortFunction(equation)
    if is_fourier_transform(equation):
        return FourierTransform(equation)
    return loop_function(equation, blas)


class NativeLoop(InnerFunction):
    """A loop.

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
        first, last = loop.carries + loop.slices, len(body.inputs) - loop.sums
        states = [*body.inputs[: loop.carries], *body.inputs[last:]]
        stacked = outputs[loop.carries : len(outputs) - loop.sums]
        places = [StepPlace(x.type, x) for x in states]
        places[loop.carries : loop.carries] = [
            StepPlace(InnerType(x.type.shape[1:], x.type.dtype)) for x in stacked
        ]
        self._body = StepCode(body, blas, inner_function, places)
        self._tests: list[StepCode] = []
        if condition is not None:
            self._tests.append(StepCode(condition, blas, inner_function, [StepPlace(HOLDS)]))
        own = [] if condition is None else condition.inputs[loop.carries :]
        # For the inputs of both programs the numbers of operands.
        self._numbers = {x: i for i, x in enumerate(body.inputs[:first])}
        self._numbers |= {x: i for i, x in enumerate(body.inputs[first:last], first + len(own))}
        self._test_numbers = {x: i for i, x in enumerate(own, first)}
        slices = range(loop.carries, first)
        steps = programs.steps
        taken = [*body.inputs[:first], *own, *body.inputs[first:last]]
        self.operands = [
            (x.type, (steps or 0, *x.type.shape) if i in slices else x.type.shape)
            for i, x in enumerate(taken)
        ]
        parts = [self._body, *self._tests]
        super().__init__(parts)
        self.in_place = frozenset({(i, i) for i in range(loop.carries)})
        self._step_effort = CALL_EFFORT + sum(part.effort for part in parts)
        self.effort = self._step_effort * (UNKNOWN_STEPS if steps is None else steps)

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        self._body.function(f"{name}_step", module)
        for code in self._tests:
            code.function(f"{name}_test", module)
        programs = self._programs
        loop, inputs = programs.loop, programs.body.inputs
        count = len(self.operands) + len(self.constants)
        given = [element(lines, "%table", i) for i in range(count + len(self._outputs))]
        operands, results = given[:count], given[count:]
        sizes = [bytes_of(x.type) for x in inputs[: loop.carries]]
        copy_all(lines, list(zip(results, operands, sizes)), module.functions)
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
        self._look_for_signals(lines, step, module)
        lines.add(f"br label %{behind}")
        lines.begin(behind)
        lines.add(f"{following} = add i64 {step}, 1")
        lines.add(f"br label %{head}")
        lines.begin(end)
        lines.add("ret i64 0")

    def _look_for_signals(self, lines: Lines, step: str, module: Module) -> None:
        """Writes the test for signals after some of the steps, unless the loop is short."""
        steps = self._programs.steps
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


class NativeChoice(InnerFunction):
    """A choice between branches, of which the first operand has the number.

    Args:
        branches: the programs.
        choice: the equation.
        blas: the products of large matrices.

    Raises:
        NotNative: an equation is none that machine code has.
    """

    def __init__(
        self, branches: Sequence[ProgramLike], choice: EquationLike, blas: Blas | None
    ) -> None:
        index = choice.operands[0]
        if not is_variable(index) or index.type.dtype.kind not in "bi":
            raise NotNative("a choice by another number")
        types = [x.type for x in branches[0].inputs]
        for branch in branches[1:]:
            if any(x.type.dtype != y.dtype for x, y in zip(branch.inputs, types, strict=True)):
                raise NotNative("branches of other types")
        places = [StepPlace(out.type) for out in choice.outputs]
        self._branches = branches
        self._codes = [StepCode(branch, blas, inner_function, places) for branch in branches]
        super().__init__(self._codes)
        self._index = index.type.dtype
        self.operands = [(index.type, index.type.shape), *((x, x.shape) for x in types)]
        self._count = len(self.operands) + len(self.constants) + len(choice.outputs)
        self.effort = CALL_EFFORT + max(code.effort for code in self._codes)

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        given = [element(lines, "%table", i) for i in range(self._count)]
        first = len(self.operands)
        results = given[first + len(self.constants) :]
        fixed = dict(zip(map(id, self.constants), given[first:]))
        calls = []
        for number, (branch, code) in enumerate(zip(self._branches, self._codes, strict=True)):
            code.function(f"{name}_branch_{number}", module)
            places = fixed | dict(zip(branch.inputs, given[1:]))
            known = [places[identity_of(x)] for x in code.arrays]
            calls.append((lines.label("branch"), Table(lines, [*known, *results], {})))
        kind = memory_type(self._index)
        index = lines.let(f"load {kind}, ptr {given[0]}, align {self._index.itemsize}")
        if kind != "i64":
            wider = "zext" if self._index.kind == "b" else "sext"
            index = lines.let(f"{wider} {kind} {index} to i64")
        low = lines.let(f"icmp slt i64 {index}, 0")
        index = lines.let(f"select i1 {low}, i64 0, i64 {index}")
        cases = [f"i64 {i}, label %{label}" for i, (label, _) in enumerate(calls[:-1])]
        lines.add(f"switch i64 {index}, label %{calls[-1][0]} [ {' '.join(cases)} ]")
        for number, (label, table) in enumerate(calls):
            lines.begin(label)
            status = table.call(f"{name}_branch_{number}")
            lines.add(f"ret i64 {status}")
