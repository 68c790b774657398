"""Plans of loops: the lines of a body within a loop of one generated function.

No step calls a plan of its own. Carries are local variables. Single numbers are Python's, also in
reads and writes of arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.operands import PYTHON_NUMBERS, constant, is_native_array, is_variable
from ..plan import CpuPlan, plan_parts
from .body import BodyCode
from .elements import INDEX_UPDATES, Updates
from .scalars import LARGEST_INT64, number_kind, wrapped
from .sums import makers_of, outer_sums

if TYPE_CHECKING:
    from ....annotations import Buffer
    from ....protocol import Loop
    from ..annotations import EquationLike, Kernels, ProgramLike, VariableLike
    from ..liveness import Liveness, Storage

__all__ = ["LoopPlan", "loop_plan"]


class LoopCode(BodyCode):
    """Writes a body within a loop."""

    def __init__(self, program: ProgramLike, kernels: Kernels, loop: Loop) -> None:
        self.loop = loop
        self.counters = counters(program, loop)
        # For results in rows the names of a step's row and of all rows.
        self._rows: dict[VariableLike, tuple[str, str]] = {}
        self._at_place: set[VariableLike] = set()
        self._filled: list[int] = []
        self.program = program
        end = len(program.outputs) - loop.tested
        self.added = list(program.outputs[end - loop.sums : end])
        totals = {f"_total{i}": x for i, x in enumerate(self.added)}
        super().__init__(program, kernels, totals)

    # -- the loop

    def _equation(self, number: int, equation: EquationLike) -> None:
        if equation.outputs[0] in self.counters.values():
            self._let_go(number)
        else:
            super()._equation(number, equation)

    def _drops(self, variable: VariableLike) -> bool:
        # A carry that is updated in place shares its name with the values between.
        return self.source.names.get(variable) not in self._carried and super()._drops(variable)

    def _begin(self) -> None:
        loop, inputs, source = self.loop, self.program.inputs, self.source
        self.updates = Updates(self.program, loop.carries, self.live)
        first = loop.carries + loop.slices
        names = list(map(source.name, inputs))
        self._carried = frozenset(names[: loop.carries])
        slices = names[loop.carries : first]
        arrays = [f"_all{i}" for i in range(loop.slices)]
        given = [*names[: loop.carries], *arrays, *names[first:]]
        for i in self.counters:
            given[i] = f"_range{i}"
        given += [f"_stack{i}" for i in range(len(self._stacked()))]
        given += [f"_total{i}" for i in range(loop.sums)]
        source.function("plan", [*given, "_steps", *(["_holds"] if loop.tested else [])])
        slices += [names[i] for i in self.counters]
        arrays += [given[i] for i in self.counters]
        for x, (row, rows) in self._rows.items():
            slices.append(row)
            arrays.append(rows)
            if rows.startswith("_rows"):
                dtype = source.constant(x.type.dtype, "dtype")
                made = f"{source.numpy('empty')}((len(_steps), {x.type.size}), {dtype})"
                source.add(f"{rows} = {made}")
        if len(self._stacked()) > len(self._filled) or not slices:
            slices, arrays = ["_step", *slices], ["_steps", *arrays]
        over = arrays[0] if len(arrays) == 1 else f"zip({', '.join(arrays)})"
        source.add(f"for {', '.join(slices)} in {over}:")
        source.indent = " " * 8
        if loop.tested:
            source.add("if not _holds: break")

    def _prepare(self) -> None:
        """Chooses the results that are made in rows, of stacks or for one product of all steps."""
        loop, program = self.loop, self.program
        made = makers_of(program)
        for i, out in enumerate(self._stacked()):
            if not is_variable(out) or not is_native_array(out.type) or out in self._rows:
                continue
            if out in made and made[out].primitive.name not in INDEX_UPDATES:
                rows = f"_stack{i}[::-1]" if loop.backwards else f"_stack{i}"
                self._rows[out] = f"_row{i}", rows
                self._filled.append(i)
        first = loop.carries + loop.slices
        self._outer, self.unneeded = outer_sums(program, self.sums, program.inputs[first:])
        slices = program.inputs[loop.carries : first]
        for x in [x for outer in self._outer for x in (outer.left, outer.right)]:
            if x not in slices and x not in self._rows:
                self._rows[x] = f"_line{len(self._rows)}", f"_rows{len(self._rows)}"

    def _rows_of(self, x: VariableLike) -> str:
        """Returns the name of the array of a variable's values in all steps, in order."""
        if x in self._rows:
            return self._rows[x][1]
        return f"_all{self.program.inputs.index(x) - self.loop.carries}"

    def _liveness(self, donated: Collection[int]) -> Liveness:
        live = super()._liveness(donated)
        loop, outputs = self.loop, self.program.outputs
        # No step returns the terms of sums.
        returned = {s for x in outputs[: loop.carries] for s in live.of(x)}
        for x in filter(is_variable, self.added):
            for storage in live.storages[x] - returned:
                storage.escapes = storage.owner is not x
        for x in self._rows:
            for storage in live.storages[x]:
                storage.last = len(self.program.equations)
        return live

    def _given(self, out: VariableLike) -> str:
        """Returns the name of the row that a result goes into."""
        if out in self._rows and out not in self.rows and out not in self.joined:
            self._at_place.add(out)
            return self._rows[out][0]
        return super()._given(out)

    def buffer_for(self, out: VariableLike) -> str:
        """Returns the name of a kept buffer or a row for a result; empty if there is none."""
        return self._given(out) or super().buffer_for(out)

    def _carries_in_rows(self) -> set[int]:
        """Returns the numbers of the carries that may lie in a stack, some of them steps later."""
        ends: dict[Storage, list[int]] = {}
        for i, out in enumerate(self.program.outputs[: self.loop.carries]):
            for storage in self.live.of(out):
                ends.setdefault(storage, []).append(i)
        found: set[int] = set()
        rows = [s for out in self._at_place for s in self.live.of(out)]
        while rows:
            for i in ends.pop(rows.pop(), ()):
                found.add(i)
                rows.extend(self.live.of(self.program.inputs[i]))
        return found

    def _stacked(self) -> Sequence[Any]:
        """Returns the outputs that are stacked."""
        outputs, loop = self.program.outputs, self.loop
        return outputs[loop.carries : len(outputs) - loop.sums - loop.tested]

    def _results(self) -> None:
        loop, source, outputs = self.loop, self.source, self.program.outputs
        carries = self.program.inputs[: loop.carries]
        for i, out in enumerate(self._stacked()):
            if i not in self._filled:
                source.add(f"_stack{i}[_step] = {source.shown(out)}")
        for x, (row, _) in self._rows.items():
            if x not in self._at_place:
                source.add(f"{row}[...] = {source.shown(x)}")
        late = {
            f"_total{i}": x for i, x in enumerate(self.added) if is_variable(x) and x in self._rows
        }
        for i, out in enumerate(self.added):
            if f"_total{i}" not in late:
                self.add_up(f"_total{i}", out)
        after = {
            source.names[x]: source.shown(out)
            for i, (x, out) in enumerate(zip(carries, outputs))
            if i not in self.counters
        }
        if loop.tested:
            after["_holds"] = source.shown(outputs[-1])
        changed = [name for name, text in after.items() if name != text]
        right = ", ".join([after[name] for name in changed])
        source.add(f"{', '.join(changed)} = {right}" if changed else "continue")
        source.indent = " " * 4
        made = [
            f"_range{i}" if i in self.counters else source.names[x] for i, x in enumerate(carries)
        ]
        for total, x in late.items():
            source.add(f"{total} += {source.numpy('add')}.reduce({self._rows_of(x)}, 0)")
        for outer in self._outer:
            left, right = self._rows_of(outer.left), self._rows_of(outer.right)
            source.add(f"{outer.total} += {left}.T.dot({right})")
        for i in self._carries_in_rows():
            if i not in self.counters:
                made[i] = f"{source.numpy('array')}({made[i]})"
        made += [f"_total{i}" for i in range(loop.sums)]
        source.add(f"return [{', '.join(made)}]")


class LoopPlan(CpuPlan):
    """Runs a loop.

    Attributes:
        owned: the numbers of the carries whose elements steps update in place.
    """

    def __init__(self, written: LoopCode) -> None:
        super().__init__(plan_parts(written))
        loop, inputs, outputs = written.loop, written.program.inputs, written.program.outputs
        first = loop.carries + loop.slices
        self._loop = loop
        self._counters = list(written.counters)
        self._numbers = [
            (i, x.type.weak)
            for i, x in enumerate(inputs)
            if (x.type.weak or number_kind(x.type)) and not loop.carries <= i < first
        ]
        self.owned = sorted(set(written.updates.in_place.values()))
        self._sliced = [(i, bool(number_kind(inputs[i].type))) for i in range(loop.carries, first)]
        stacked = len(outputs) - loop.sums - loop.tested
        self._shown = [
            is_variable(out) and number_kind(out.type) is not None
            for out in outputs[loop.carries : stacked]
        ]
        self._dtypes = [x.type.dtype for x in inputs[: loop.carries]]

    def run(
        self,
        buffers: Sequence[Any],
        steps: Any,
        stacks: Sequence[Any] = (),
        totals: Sequence[Buffer] = (),
        *holds: Any,
    ) -> list[Any]:
        """Computes the last carries, and the sums.

        Args:
            buffers: the values of the inputs; arrays in place of slices.
            steps: the numbers of the steps: a range, unless there is a test.
            stacks: the memory of the outputs that are stacked.
            totals: the first values of the sums.
            holds: for a tested loop, whether there is a first step.
        """
        values = list(buffers)
        for i in self.owned:
            values[i] = np.array(values[i])
        for i, weak in self._numbers:
            x = values[i]
            x = x if type(x) in PYTHON_NUMBERS else x.item()
            values[i] = x if weak is None else weak(x)
        for i, is_numbers in self._sliced:
            x = values[i]
            if self._loop.backwards:
                x = x[::-1]
            if is_numbers and x.dtype.isnative:
                # Memory that is not aligned has no Python numbers.
                x = memoryview(x if x.flags.aligned else x.copy())
            values[i] = x
        stops = [(i, values[i] + len(steps)) for i in self._counters]
        for i, stop in stops:
            numbers = range(values[i], stop)
            values[i] = numbers if stop <= LARGEST_INT64 else [wrapped(x) for x in numbers]
        shown = [memoryview(x) if flag else x for x, flag in zip(stacks, self._shown)]
        begins = [x if x.shape else x.item() if x.dtype == float else x[()] for x in totals]
        ends = self([*values, *shown, *begins, steps, *holds])
        for i, stop in stops:
            ends[i] = wrapped(stop)
        # A sum may be that of a constant, of which the memory for it tells the dtype.
        for i, dtype in enumerate([*self._dtypes, *(x.dtype for x in totals)]):
            if type(ends[i]) in PYTHON_NUMBERS:
                ends[i] = dtype.type(ends[i])
        return ends


def counters(program: ProgramLike, loop: Loop) -> dict[int, VariableLike]:
    """Returns the numbers of the carries that only count steps, and their next values."""
    found: dict[int, Any] = {}
    if loop.tested:
        return found
    # Variables only: arrays among constants have no truth value when they are compared.
    operands = [x for equation in program.equations for x in equation.operands]
    taken = set(filter(is_variable, [*operands, *program.outputs[loop.carries :]]))
    made = makers_of(program)
    for i, (x, out) in enumerate(zip(program.inputs[: loop.carries], program.outputs)):
        equation = made.get(out) if is_variable(out) and out not in taken else None
        if equation is None or equation.primitive.name != "add" or number_kind(x.type) is not int:
            continue
        first, second = equation.operands
        other = constant(second if first is x else first)
        if (first is x or second is x) and type(other) is int and other == 1:
            found[i] = out
    return found


def loop_plan(program: ProgramLike, loop: Loop, kernels: Kernels) -> LoopPlan:
    """Returns the plan of a loop with a program as its body."""
    return LoopPlan(LoopCode(program, kernels, loop))
