"""The writers of bodies of loops, and of the branches in them.

A choice between branches becomes ``if``, ``elif`` and ``else``. A term of a sum over all steps is
added where it is made: single elements of a large array, not the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...scatter import add_at
from ..codegen.operands import PYTHON_NUMBERS, constant, is_native_array, is_variable
from ..equations import key_part
from ..writer import Straight
from .elements import Updates, is_element
from .scalars import LARGEST_INT64, OVERFLOWING, SMALLEST_INT64, number_kind, number_text, wrapped
from .sums import is_zero, keys_of, terms_of_totals

if TYPE_CHECKING:
    from ....annotations import DType, KeyLike
    from ..annotations import EquationLike, Kernels, Operand, ProgramLike, VariableLike

__all__ = ["BodyCode"]

# Derivatives as ufuncs of two operands: x, y, 1, or nothing for the result of the ufunc before.
GRAD_UFUNCS = {
    "tanh_grad": [("multiply", "y", "y"), ("subtract", "1", ""), ("multiply", "", "x")],
    "sigmoid_grad": [("subtract", "1", "y"), ("multiply", "", "y"), ("multiply", "", "x")],
}
# The most spaces before a line that has branches: Python takes a hundred levels of indentation.
DEEPEST_INDENT_SPACES = 4 * 50


class BodyCode(Straight):
    """Writes a body in which numbers are Python's.

    Attributes:
        numbers: variables whose values are Python's numbers, or may be.
        sums: for variables that are only added to a total, the name of the total.
        unneeded: variables that no line makes.
        updates: the updates of carries that are done in place.
    """

    updates: Updates

    def __init__(
        self,
        program: ProgramLike,
        kernels: Kernels,
        totals: Mapping[str, Operand],
        outer: BodyCode | None = None,
    ) -> None:
        self.numbers = {x for x in program.inputs if number_kind(x.type)}
        # The names of kept arrays without axes that hold such numbers, by the number and dtype.
        self._held: dict[tuple[VariableLike, DType], str] = {}
        self.sums = terms_of_totals(program, totals)
        self.unneeded: set[VariableLike] = set()
        self._prepare()
        super().__init__(program, frozenset(), kernels, outer)

    def _prepare(self) -> None:
        """Examines the program before its lines are written."""

    # -- numbers

    def _equation(self, number: int, equation: EquationLike) -> None:
        if equation.outputs[0] in self.unneeded:
            self._let_go(number)
            return
        total = self.sums.get(equation.outputs[0])
        if (total is not None and self._added(total, equation)) or self._chosen(equation):
            self._let_go(number)
            return
        self._written(number, equation)
        for out in equation.outputs:
            if out in self.sums:
                self.source.add(f"{self.sums[out]} += {self.source.names[out]}", equation)

    def _written(self, number: int, equation: EquationLike) -> None:
        text = number_text(self, equation, self.ufuncs[number])
        if text is None and (self._element(number, equation) or self._grad(equation)):
            self._let_go(number)
            return
        if text is None:
            found = self.ufuncs[number]
            whole = found is not None and equation.outputs[0].type.shape
            with self._as_numpy(equation.operands, found[1] if found and whole else ()):
                super()._equation(number, equation)
            return
        (out,) = equation.outputs
        name = self.source.name(out)
        self.source.add(f"{name} = {text}", equation)
        if number_kind(out.type) is int and equation.primitive.name in OVERFLOWING:
            wrap = self.source.bind(wrapped)
            line = f"if not {SMALLEST_INT64} <= {name} <= {LARGEST_INT64}: {name} = {wrap}({name})"
            self.source.add(line, equation)
        self.numbers.add(out)
        self._let_go(number)

    def _element(self, number: int, equation: EquationLike) -> bool:
        """Writes a read or an update of elements at numbers, if it is one; says whether."""
        if not is_element(equation) or equation.outputs[0] in self.rows:
            return False
        x, *rest = equation.operands
        out, source = equation.outputs[0], self.source
        reads = equation.primitive.name == "index"
        key = self._key(equation.params["key"], rest if reads else rest[1:])
        if reads:
            source.add(f"{source.name(out)} = {source.shown(x)}[{key}]", equation)
            return True
        if number in self.updates.in_place:
            source.names[out] = source.names[x]
        else:
            source.add(f"{source.name(out)} = {source.numpy('array')}({source.shown(x)})", equation)
        sign = "=" if equation.primitive.name == "index_set" else "+="
        value = source.shown(rest[0])
        if is_variable(rest[0]) and not self.live.of(x).isdisjoint(self.live.of(rest[0])):
            # NumPy reads a part of the array that it writes to after it has written there.
            value = f"{source.numpy('array')}({value})"
        source.add(f"{source.names[out]}[{key or '()'}] {sign} {value}", equation)
        return True

    def _key(self, key: KeyLike, places: Sequence[Operand]) -> str:
        """Returns the text of a key with numbers in the places of its index arrays."""
        rest = iter(places)
        parts = (
            self.source.shown(next(rest)) if type(item) is str else key_part(item)
            for item in key.native
        )
        return ", ".join(parts)

    def _grad(self, equation: EquationLike) -> bool:
        """Writes a derivative as the ufuncs of its primitive, if it is one; says whether."""
        steps = GRAD_UFUNCS.get(equation.primitive.name)
        (out,) = equation.outputs[:1]
        if steps is None or out in self.rows or not is_native_array(out.type):
            return False
        if any(not is_variable(x) or x.type != out.type for x in equation.operands):
            return False
        source = self.source
        x, y = map(source.shown, equation.operands)
        one = source.shown(np.ones((), out.type.dtype))
        into = self.buffer_for(out)
        name = source.name(out)
        for i, (ufunc, first, second) in enumerate(steps):
            given = [{"x": x, "y": y, "1": one, "": name}[word] for word in (first, second)]
            given += [into if not i else name] if into or i else []
            left = f"{name} = " if not i else ""
            source.add(f"{left}{source.numpy(ufunc)}({', '.join(given)})", equation)
        return True

    def _together(self, number: int, group: list[Any]) -> None:
        equations = self.program.equations[number : number + len(group)]
        with self._as_numpy([x for e in equations for x in e.operands], ()):
            super()._together(number, group)

    @contextmanager
    def _as_numpy(self, operands: Sequence[Any], loop: Sequence[Any]) -> Iterator[None]:
        """Gives numbers the text that NumPy takes while a line is written; a ufunc gets arrays."""
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

    def _array_of(self, x: VariableLike, shown: str, dtype: DType) -> str:
        """Returns the name of a kept array that holds a number until the step ends."""
        name = self._held.get((x, dtype))
        if name is None:
            name = self._held[x, dtype] = self.kept.number(dtype)
            self.source.add(f"{name}[()] = {shown}")
        return name

    # -- sums

    def _drops(self, variable: VariableLike) -> bool:
        # Terms that are added where they are made have no name.
        return variable in self.source.names and super()._drops(variable)

    def add_up(self, total: str, out: Operand, equation: EquationLike | None = None) -> None:
        """Writes the addition of a value to a total, unless it is added where it is made."""
        if not (out in self.sums if is_variable(out) else is_zero(out)):
            self.source.add(f"{total} += {self.source.shown(out)}", equation)

    def _added(self, total: str, equation: EquationLike) -> bool:
        """Writes the additions of an equation to a total, if it has no other use; says whether."""
        source, name = self.source, equation.primitive.name
        if name == "add":
            for x in equation.operands:
                self.add_up(total, x, equation)
            return True
        if name != "scatter_add":
            return False
        for key, values, places in keys_of(equation):
            v = source.shown(values)
            if all(is_variable(i) and number_kind(i.type) is int for i in places):
                source.add(f"{total}[{self._key(key, places) or '()'}] += {v}", equation)
                continue
            with self._as_numpy([values, *places], ()):
                given = ", ".join(map(source.shown, places))
                line = f"{source.bind(add_at)}({total}, {source.constant(key, 'key')}, "
                source.add(f"{line}({given},), {source.shown(values)})", equation)
        return True

    # -- branches

    def _chosen(self, equation: EquationLike) -> bool:
        """Writes the branches of a choice as lines, if they can be; says whether."""
        programs = equation.primitive.branches()
        source = self.source
        if programs is None or len(source.indent) > DEEPEST_INDENT_SPACES:
            return False
        if not all(is_inlined(program, equation) for program in programs):
            return False
        for out in equation.outputs:
            if out not in self.sums:
                source.name(out)
                if number_kind(out.type):
                    self.numbers.add(out)
        parts = [BranchCode(program, equation, self) for program in programs]
        index = source.shown(equation.operands[0])
        if equation.operands[0].type.dtype.kind == "b":
            words = [f"if not {index}", "else"]
        else:
            between = [f"elif {index} == {i}" for i in range(1, len(parts) - 1)]
            words = [f"if {index} <= 0", *between, "else"]
        for condition, part in zip(words, parts, strict=True):
            self.shares |= part.shares
            source.add(f"{condition}:", equation)
            if not part.source.lines:
                part.source.add("...")
            source.put(part.source)
        return True


class BranchCode(BodyCode):
    """Writes a branch of a choice, in the function of the writer around it."""

    def __init__(self, program: ProgramLike, choice: EquationLike, outer: BodyCode) -> None:
        self._choice = choice
        self._outer = outer
        self._totals = {
            i: outer.sums[out] for i, out in enumerate(choice.outputs) if out in outer.sums
        }
        totals = {name: program.outputs[i] for i, name in self._totals.items()}
        super().__init__(program, outer.kernels, totals, outer)

    def _begin(self) -> None:
        self.updates = Updates(self.program, 0, self.live)
        names = self.source.names
        for x, given in zip(self.program.inputs, self._choice.operands[1:], strict=True):
            if not is_variable(given):
                given = branch_constant(x, constant(given))
            elif given in self._outer.spread:
                self.spread.add(x)
            names[x] = self.source.shown(given)

    def _results(self) -> None:
        left, right = [], []
        for i, (out, inner) in enumerate(
            zip(self._choice.outputs, self.program.outputs, strict=True)
        ):
            if i in self._totals:
                self.add_up(self._totals[i], inner, self._choice)
                continue
            left.append(self._outer.source.names[out])
            right.append(self.source.shown(inner))
            if not is_variable(inner) or inner in self.spread:
                self._outer.spread.add(out)
        if left:
            self.source.add(f"{', '.join(left)} = {', '.join(right)}")


def is_inlined(program: ProgramLike, choice: EquationLike) -> bool:
    """Says whether a branch can be lines: it has no regions, and its operands have its types."""
    index, *operands = choice.operands
    fused = any(e.primitive.fused for e in program.equations)
    if fused or not is_variable(index):
        return False
    return all(fits_branch(x, given) for x, given in zip(program.inputs, operands, strict=True))


def fits_branch(x: VariableLike, given: Operand) -> bool:
    """Says whether an operand has the type that a branch takes, or is a number of that type."""
    if not is_variable(given):
        return not x.type.shape or getattr(constant(given), "dtype", None) == x.type.dtype
    same = x.type.dtype == given.type.dtype and x.type.shape == given.type.shape
    return same and (x.type.weak == given.type.weak or number_kind(x.type) is not None)


def branch_constant(x: VariableLike, value: Any) -> Any:
    """Returns a constant in the type that a branch takes."""
    if x.type.shape:
        return value
    kind = x.type.weak or number_kind(x.type) or x.type.dtype.type
    return kind(value if type(value) in PYTHON_NUMBERS else value[()])
