"""Walks over a program once, and rewrites its equations by the rules of passes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..primitives.core.primitive import Primitive
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Operand, Program, Variable, type_of, with_replaced
from .unlocked import computed_once

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import PrimitiveLike

__all__ = ["ELEMENTWISE", "RewriteRule", "Rewritten", "Sweep", "behind", "swept"]

# More rewritings of one equation than this would be rules that undo each other.
MOST_REWRITES_OF_ONE = 8
# Under this name there are rules for all elementwise primitives without rules of their own.
ELEMENTWISE = "any elementwise"
# The primitive without which a rule finds nothing.
_needed_primitives: dict[Any, str] = {}


class Sweep:
    """The program that rules look at, and the equations that they add.

    A rule is called with the sweep and an equation whose operands have been rewritten already. It
    returns None where it does not apply, an equation of the same output to stand in its place, or
    the operand of the same type that the output is.

    Args:
        program: what is walked over.
        rules: as for `swept`.

    Attributes:
        made: for every variable that a primitive defines, the equation that does.
        equations: those of the new program so far.
        known: for every variable that is gone what stands in its place.
        ready: for every primitive met so far the rules that may find something.
    """

    def __init__(self, program: Program, rules: Mapping[str, Sequence[RewriteRule]]) -> None:
        self.made: dict[Variable, Equation] = {}
        self.known: dict[Variable, Any] = {}
        self.equations: list[Equation] = []
        self._program = program
        self._rules = rules
        self._names = {primitive.name for primitive in program.primitives()}
        self.ready: dict[Any, Sequence[RewriteRule]] = {}

    @computed_once
    def uses(self) -> dict[Variable, int]:
        """For every variable how often it is used, at least."""
        return dict(self._program.uses())

    @computed_once
    def users(self) -> dict[Variable, list[Equation | None]]:
        """For every variable the equations that use it, and None where it is returned."""
        found: dict[Variable, list[Equation | None]] = {}
        for equation in self._program.equations:
            for x in dict.fromkeys(v for v in equation.operands if type(v) is Variable):
                found.setdefault(x, []).append(equation)
        for x in self._program.outputs:
            if type(x) is Variable:
                found.setdefault(x, []).append(None)
        return found

    def rules_of(self, primitive: PrimitiveLike) -> Sequence[RewriteRule]:
        """Returns the rules for a primitive: those of its name, or else those of its family.

        Those that find nothing in this program are not among them.
        """
        found = self.ready.get(primitive)
        if found is None:
            given: Sequence[RewriteRule] | None = None
            if isinstance(primitive, Primitive):
                given = self._rules.get(primitive.name)
                if given is None and primitive.family == "elementwise":
                    given = self._rules.get(ELEMENTWISE)
            names, needed = self._names, _needed_primitives
            found = [r for r in given or () if r not in needed or needed[r] in names]
            self.ready[primitive] = found
        return found

    def maker(self, x: Operand, name: str) -> Equation | None:
        """Returns the equation of a primitive of that name that makes an operand, or None."""
        equation = self.made.get(x) if type(x) is Variable else None
        return equation if equation is not None and equation.primitive.name == name else None

    def once(self, x: Variable) -> bool:
        """Says whether a variable is used once alone."""
        return self.uses.get(x, 0) < 2

    def _meet(self, primitive: PrimitiveLike) -> None:
        """Notes that there are equations of a primitive."""
        if primitive.name not in self._names:
            self._names.add(primitive.name)
            self.ready.clear()

    def add(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: dict[str, Any],
        of: Equation,
        known: ShapeDtype | None = None,
    ) -> Variable:
        """Adds an equation before the one that is rewritten; returns what it defines.

        Args:
            primitive: a primitive, or its name.
            operands: what it is applied to.
            params: its parameters.
            of: the equation that is rewritten.
            known: the result's type, where it need not be inferred.
        """
        if type(primitive) is str:
            primitive = registry[primitive]
        if known is None:
            known = primitive.infer(primitive, *map(type_of, operands), **params)
        self._meet(primitive)
        out = Variable(known, of.outputs[0].device)
        self.append(of.by(primitive, operands, params, [out]))
        for x in operands:
            if type(x) is Variable:
                self.uses[x] = self.uses.get(x, 0) + 1
        return out

    def append(self, equation: Equation) -> None:
        """Adds an equation to the program."""
        self.equations.append(equation)
        if isinstance(equation.primitive, Primitive):
            self.made[equation.outputs[0]] = equation

    def rewrite(self, equation: Equation, rules: Sequence[RewriteRule]) -> bool:
        """Adds a primitive's equation as rules have it; says whether one applied."""
        changed = False
        for _ in range(MOST_REWRITES_OF_ONE):
            found: Any = None
            for rule in rules:
                found = rule(self, equation)
                if found is None:
                    continue
                if type(found) is Equation:
                    break
                if self.replaced(equation.outputs[0], found):
                    return True
                found = None
            if found is None:
                break
            changed = True
            equation = found
            self._meet(equation.primitive)
            rules = self.rules_of(equation.primitive)
        self.append(equation)
        return changed

    def replaced(self, out: Variable, x: Operand) -> bool:
        """Puts an operand in a variable's place, if it is of the same type."""
        if type_of(x) != out.type:
            return False
        if type(x) is Variable:
            if x.device != out.device:
                return False
            self.uses[x] = self.uses.get(x, 0) + self.uses.get(out, 0)
        elif out.device != "cpu":
            return False
        self.known[out] = x
        return True


# A rule finds an equation or an operand to stand in an equation's place, None for nothing.
Rewritten: TypeAlias = "Equation | Operand | None"
RewriteRule = Callable[[Sweep, Equation], Rewritten]


def behind(name: str) -> Callable[[RewriteRule], RewriteRule]:
    """Marks a rule that finds nothing in programs without a primitive: it looks behind that."""

    def marked(rule: RewriteRule) -> RewriteRule:
        _needed_primitives[rule] = name
        return rule

    return marked


def swept(
    program: Program,
    rules: Mapping[str, Sequence[RewriteRule]],
    only: Container[Variable] | None = None,
) -> Program:
    """Returns a program with every primitive's equations rewritten by the rules of its name.

    Args:
        program: any program; the one itself is returned where no rule applies.
        rules: for every primitive's name its rules, the first that applies first.
        only: what the equations define that are rewritten; None for all.
    """
    sweep = Sweep(program, rules)
    if not any(map(sweep.rules_of, program.primitives())):
        return program
    known, ready, made = sweep.known, sweep.ready, sweep.made
    changed = False
    for equation in program.equations:
        if known:
            equation = equation.over(known)
        primitive = equation.primitive
        selected = ready.get(primitive)
        if selected is None:
            selected = sweep.rules_of(primitive)
        if selected and (only is None or equation.outputs[0] in only):
            changed |= sweep.rewrite(equation, selected)
            continue
        # As `append` does, without a call for most of the equations.
        sweep.equations.append(equation)
        if isinstance(primitive, Primitive):
            made[equation.outputs[0]] = equation
    if not changed:
        return program
    return program.with_equations(sweep.equations, with_replaced(program.outputs, known))
