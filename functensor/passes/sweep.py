"""One walk over a program, on which equations are rewritten one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..primitives.primitive import Primitive
from ..primitives.registry import registry
from ..primitives.types import ShapeDtype
from ..programs.program import Equation, Program, Variable, type_of

__all__ = ["ELEMENTWISE", "Rule", "Sweep", "swept"]

# More rewritings of one equation than this would be rules that undo each other.
STEPS = 8
# Under this name there are rules for all elementwise primitives without rules of their own.
ELEMENTWISE = "any elementwise"


class Sweep:
    """What rules look at, and what they add.

    A rule is called with the sweep and an equation whose operands have been rewritten already. It
    returns None where it does not apply, an equation of the same output to stand in its place, or
    the operand of the same type that the output is.

    Attributes:
        made: for every variable that a primitive defines, the equation that does.
        uses: for every variable how often it is used, at least.
        equations: those of the new program so far.
    """

    def __init__(self, program: Program) -> None:
        self.made: dict[Variable, Equation] = {}
        self.known: dict[Variable, Any] = {}
        self.uses: dict[Variable, int] = {}
        self.equations: list[Equation] = []
        uses = self.uses
        for equation in program.equations:
            for x in equation.operands:
                if type(x) is Variable:
                    uses[x] = uses.get(x, 0) + 1
        for x in program.outputs:
            if type(x) is Variable:
                uses[x] = uses.get(x, 0) + 1

    def maker(self, x: Any, name: str) -> Equation | None:
        """Returns the equation of a primitive of that name that makes an operand, or None."""
        equation = self.made.get(x) if type(x) is Variable else None
        return equation if equation is not None and equation.primitive.name == name else None

    def once(self, x: Variable) -> bool:
        """Says whether a variable is used once alone."""
        return self.uses.get(x, 0) < 2

    def add(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: dict[str, Any],
        of: Equation,
        known: ShapeDtype | None = None,
    ) -> Any:
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
        out = Variable(known, of.outputs[0].device)
        self.append(Equation(primitive, operands, params, [out], of.line, of.scope))
        for x in operands:
            if type(x) is Variable:
                self.uses[x] = self.uses.get(x, 0) + 1
        return out

    def append(self, equation: Equation) -> None:
        """Adds an equation to the program."""
        self.equations.append(equation)
        if isinstance(equation.primitive, Primitive):
            self.made[equation.outputs[0]] = equation

    def rewrite(self, equation: Equation, rules: Mapping[str, Sequence[Rule]]) -> bool:
        """Adds a primitive's equation as rules have it; says whether one applied."""
        changed = False
        for _ in range(STEPS):
            found: Any = None
            for rule in rules_of(equation.primitive, rules):
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
        self.append(equation)
        return changed

    def replaced(self, out: Variable, x: Any) -> bool:
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


Rule = Callable[[Sweep, Equation], Any]


def rules_of(primitive: Primitive, rules: Mapping[str, Sequence[Rule]]) -> Sequence[Rule]:
    """Returns the rules for a primitive: those of its name, or else those of its family."""
    found = rules.get(primitive.name)
    if found is None and primitive.family == "elementwise":
        found = rules.get(ELEMENTWISE)
    return found or ()


def swept(program: Program, rules: Mapping[str, Sequence[Rule]]) -> Program:
    """Returns a program with every primitive's equations rewritten by the rules of its name.

    Args:
        program: any program; the one itself is returned where no rule applies.
        rules: for every primitive's name its rules, the first that applies first.
    """
    sweep = Sweep(program)
    known = sweep.known
    changed = False
    for equation in program.equations:
        if known:
            equation = equation.over(known)
        primitive = equation.primitive
        if isinstance(primitive, Primitive) and rules_of(primitive, rules):
            changed |= sweep.rewrite(equation, rules)
        else:
            sweep.append(equation)
    if not changed:
        return program
    outputs = [known.get(x, x) if type(x) is Variable else x for x in program.outputs]
    return program.with_equations(sweep.equations, outputs)
