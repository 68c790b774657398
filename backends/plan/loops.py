"""Plans of loops: the lines of a body within a loop of one generated function.

No step calls a plan of its own. Carries are local variables; those that are single numbers are
Python's, and so are the numbers that are read from and written into arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .elements import Updates, is_element
from .numbers import GROWING, HIGHEST, LOWEST, kind_of, number_text, wrapped
from .plan import Plan
from .straight import Straight
from .values import SCALARS, constant, is_variable
from .writers import key_part

__all__ = ["Loop", "LoopPlan", "looped"]


class Loop(NamedTuple):
    """The inputs and outputs of a body.

    Attributes:
        carries: how many inputs are the outputs of the step before: the first of both.
        slices: how many of the next inputs are slices along the first axis of arrays.
        sums: how many outputs, the last ones, are added up.
        tested: whether the last output says whether there is another step.
        backwards: whether the last slice comes first.
    """

    carries: int
    slices: int = 0
    sums: int = 0
    tested: bool = False
    backwards: bool = False


class LoopCode(Straight):
    """Writes a body within a loop.

    Args:
        program: the body.
        kernels: the backend's functions in place of NumPy's.
        loop: what its inputs and outputs are.
    """

    def __init__(self, program: Any, kernels: Any, loop: Loop) -> None:
        self.loop = loop
        # Variables whose values are Python's numbers, or may be.
        self.numbers = {x for x in program.inputs if kind_of(x.type)}
        self.counters = counters(program, loop)
        # The names of kept arrays without axes that hold such a number, by its dtype there.
        self._held: dict[tuple[Any, Any], str] = {}
        super().__init__(program, frozenset(), kernels)

    # -- the loop

    def _begin(self) -> None:
        loop, inputs, source = self.loop, self.program.inputs, self.source
        self.updates = Updates(self.program, loop.carries, self.live)
        first = loop.carries + loop.slices
        names = list(map(source.name, inputs))
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
        if self._stacked() or not slices:
            slices, arrays = ["_step", *slices], ["_steps", *arrays]
        over = arrays[0] if len(arrays) == 1 else f"zip({', '.join(arrays)})"
        source.add(f"for {', '.join(slices)} in {over}:")
        source.indent = " " * 8
        if loop.tested:
            source.add("if not _holds: break")

    def _stacked(self) -> Sequence[Any]:
        """Returns the outputs that are stacked."""
        outputs, loop = self.program.outputs, self.loop
        return outputs[loop.carries : len(outputs) - loop.sums - loop.tested]  # type: ignore[no-any-return]

    def _results(self) -> None:
        loop, source, outputs = self.loop, self.source, self.program.outputs
        carries = self.program.inputs[: loop.carries]
        for i, out in enumerate(self._stacked()):
            source.add(f"_stack{i}[_step] = {source.shown(out)}")
        for i, out in enumerate(outputs[len(outputs) - loop.sums - loop.tested :][: loop.sums]):
            source.add(f"_total{i} += {source.shown(out)}")
        pairs = [
            (source.names[x], source.shown(out))
            for i, (x, out) in enumerate(zip(carries, outputs))
            if i not in self.counters
        ]
        if loop.tested:
            pairs.append(("_holds", source.shown(outputs[-1])))
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        if pairs:
            left, right = (", ".join(part) for part in zip(*pairs))
            source.add(f"{left} = {right}")
        else:
            source.add("continue")
        source.indent = " " * 4
        made = [
            f"_range{i}" if i in self.counters else source.names[x] for i, x in enumerate(carries)
        ]
        made += [f"_total{i}" for i in range(loop.sums)]
        source.add(f"return [{', '.join(made)}]")

    # -- numbers

    def _equation(self, number: int, equation: Any) -> None:
        if equation.outputs[0] in self.counters.values():
            self._let_go(number)
            return
        text = number_text(self, equation, self._ufuncs[number])
        if text is None and self._element(number, equation):
            self._let_go(number)
            return
        if text is None:
            found = self._ufuncs[number]
            whole = found is not None and equation.outputs[0].type.shape
            with self._as_numpy(equation.operands, found[1] if found and whole else ()):
                super()._equation(number, equation)
            return
        (out,) = equation.outputs
        name = self.source.name(out)
        self.source.add(f"{name} = {text}", equation)
        if kind_of(out.type) is int and equation.primitive.name in GROWING:
            wrap = self.source.bind(wrapped, "wrapped")
            line = f"if not {LOWEST} <= {name} <= {HIGHEST}: {name} = {wrap}({name})"
            self.source.add(line, equation)
        self.numbers.add(out)
        self._let_go(number)

    def _drops(self, variable: Any) -> bool:
        # A carry that is updated in place keeps its name, which the values between have too.
        names = self.source.names
        carries = {names[x] for x in self.program.inputs[: self.loop.carries]}
        return names[variable] not in carries and super()._drops(variable)

    def _element(self, number: int, equation: Any) -> bool:
        """Writes what reads or updates elements at numbers; says whether it did."""
        if not is_element(equation) or equation.outputs[0] in self.rows:
            return False
        x, *rest = equation.operands
        out, source = equation.outputs[0], self.source
        reads = equation.primitive.name == "index"
        places = iter(rest if reads else rest[1:])
        key = ", ".join(
            source.shown(next(places)) if type(item) is str else key_part(item)
            for item in equation.params["key"].native
        )
        if reads:
            source.add(f"{source.name(out)} = {source.shown(x)}[{key}]", equation)
            return True
        if number in self.updates.in_place:
            source.names[out] = source.names[x]
        else:
            source.add(f"{source.name(out)} = {source.numpy('array')}({source.shown(x)})", equation)
        sign = "=" if equation.primitive.name == "index_set" else "+="
        source.add(f"{source.names[out]}[{key}] {sign} {source.shown(rest[0])}", equation)
        return True

    def _together(self, number: int, group: list[Any]) -> None:
        equations = self.program.equations[number : number + len(group)]
        with self._as_numpy([x for e in equations for x in e.operands], ()):
            super()._together(number, group)

    @contextmanager
    def _as_numpy(self, operands: Sequence[Any], loop: Sequence[Any]) -> Iterator[None]:
        """Lets numbers be written as NumPy takes them, while a line is written.

        Args:
            operands: those of the line.
            loop: the dtypes of the ufunc that it calls; empty for what else it does.
        """
        names = self.source.names
        before = {x: names[x] for x in operands if is_variable(x) and x in self.numbers}
        for x, dtype in zip(operands, loop):
            if is_variable(x) and x in before:
                # A ufunc takes an array without axes in half the time of a number.
                names[x] = self._array_of(x, before[x], dtype)
        for x, name in before.items():
            if not loop:
                kind = x.type.weak
                cast = kind.__name__ if kind else self.source.numpy(x.type.dtype.type.__name__)
                names[x] = f"{cast}({name})"
        try:
            yield
        finally:
            names.update(before)

    def _array_of(self, x: Any, shown: str, dtype: Any) -> str:
        """Returns the name of a kept array that holds a number, from here to the step's end."""
        name = self._held.get((x, dtype))
        if name is None:
            name = self._held[x, dtype] = f"_number{len(self._held)}"
            self.buffers[name] = len(self.slots), (), dtype
            self.slots.append(dtype.itemsize)
            self.source.add(f"{name}[()] = {shown}")
        return name


class LoopPlan(Plan):
    """Runs a loop.

    Args:
        written: its lines.
    """

    def __init__(self, written: LoopCode) -> None:
        super().__init__(written)
        loop, inputs, outputs = written.loop, written.program.inputs, written.program.outputs
        first = loop.carries + loop.slices
        self._loop = loop
        self._counters = list(written.counters)
        self._given = [
            (i, x.type.weak)
            for i, x in enumerate(inputs)
            if kind_of(x.type) and not loop.carries <= i < first
        ]
        self._owned = sorted(set(written.updates.in_place.values()))
        self._weak = [
            (i, x.type.weak)
            for i, x in enumerate(inputs)
            if x.type.weak and not kind_of(x.type)
        ]
        self._sliced = [(i, bool(kind_of(inputs[i].type))) for i in range(loop.carries, first)]
        stacked = len(outputs) - loop.sums - loop.tested
        self._shown = [
            is_number(out) for out in outputs[loop.carries : stacked]
        ]
        self._dtypes = [x.type.dtype for x in inputs[: loop.carries]]
        self._dtypes += [out.type.dtype for out in outputs[stacked:][: loop.sums]]

    def run(
        self,
        buffers: Sequence[Any],
        steps: Any,
        stacks: Sequence[Any] = (),
        totals: Sequence[Any] = (),
        *holds: Any,
    ) -> list[Any]:
        """Computes the last carries, and the sums.

        Args:
            buffers: an input's value each; of slices the arrays.
            steps: the numbers of the steps: a range, unless there is a test.
            stacks: where to put the outputs that are stacked.
            totals: where the sums begin.
            holds: where that is tested, whether there is a first step.
        """
        values = list(buffers)
        for i in self._owned:
            values[i] = np.array(values[i])
        for i, kind in self._weak:
            values[i] = kind(values[i])
        for i, kind in self._given:
            x = values[i]
            x = x if type(x) in SCALARS else x.item()
            values[i] = x if kind is None else kind(x)
        for i, is_numbers in self._sliced:
            x = values[i]
            if self._loop.backwards:
                x = x[::-1]
            values[i] = memoryview(x) if is_numbers and x.dtype.isnative else x
        stops = [(i, values[i] + len(steps)) for i in self._counters]
        for i, stop in stops:
            numbers = range(values[i], stop)
            values[i] = numbers if stop <= HIGHEST else [wrapped(x) for x in numbers]
        shown = [memoryview(x) if flag else x for x, flag in zip(stacks, self._shown)]
        begins = [x if x.shape else x.item() if x.dtype == float else x[()] for x in totals]
        ends = self([*values, *shown, *begins, steps, *holds])
        for i, stop in stops:
            ends[i] = wrapped(stop)
        for i, dtype in enumerate(self._dtypes):
            if type(ends[i]) in SCALARS:
                ends[i] = dtype.type(ends[i])
        return ends


def counters(program: Any, loop: Loop) -> dict[int, Any]:
    """Returns the carries that only count steps: their numbers, and what they become."""
    found: dict[int, Any] = {}
    if loop.tested:
        return found
    taken = [x for equation in program.equations for x in equation.operands if is_variable(x)]
    taken += program.outputs[loop.carries :]
    made = {equation.outputs[0]: equation for equation in program.equations}
    for i, (x, out) in enumerate(zip(program.inputs[: loop.carries], program.outputs)):
        equation = made.get(out) if is_variable(out) else None
        if equation is None or equation.primitive.name != "add" or kind_of(x.type) is not int:
            continue
        first, second = equation.operands
        other = constant(second if first is x else first)
        counts = (first is x or second is x) and type(other) is int and other == 1
        if counts and out not in taken:
            found[i] = out
    return found


def is_number(out: Any) -> bool:
    """Says whether an output is a number as Python's arithmetic has it."""
    known = getattr(out, "type", None)
    return known is not None and kind_of(known) is not None


def looped(program: Any, loop: Loop, kernels: Any) -> LoopPlan:
    """Returns the plan of a loop.

    Args:
        program: the body.
        loop: what its inputs and outputs are.
        kernels: the backend's functions in place of NumPy's, by the primitive's name.
    """
    return LoopPlan(LoopCode(program, kernels, loop))
