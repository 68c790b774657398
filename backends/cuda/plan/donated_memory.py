"""The donated inputs whose memory results may take, and what may lie in it beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cpu.plan.codegen.operands import is_variable
from ...cpu.plan.liveness import is_fresh_everywhere

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["DonatedMemory"]

Owners = frozenset[int]
NOBODY: Owners = frozenset()


class DonatedMemory:
    """Says which outputs take the memory of which donated inputs, and until when that is read.

    Attributes:
        taken: for outputs, by their numbers, the numbers of the donated inputs whose memory they
            take.

    Args:
        program: the program, its regions fused.
        donated: the numbers of the inputs on the GPU whose memory results may take.
    """

    def __init__(self, program: ProgramLike, donated: Sequence[int]) -> None:
        inputs = program.inputs
        self._owners: dict[VariableLike, Owners] = {inputs[i]: frozenset([i]) for i in donated}
        enter_owners(program, self._owners)
        self._last: dict[int, int] = {}
        for number, equation in enumerate(program.equations):
            for x in equation.operands:
                self._last |= dict.fromkeys(self._of(x), number)
        # What outputs lie in already is not given to another one.
        shown = NOBODY.union(*map(self._of, program.outputs))
        left = [i for i in donated if i not in shown]
        made = {x for equation in program.equations for x in equation.outputs}
        self.taken: dict[int, int] = {}
        seen: set[VariableLike] = set()
        for number, out in enumerate(program.outputs):
            if not is_variable(out) or out not in made or out in seen:
                continue
            seen.add(out)
            # The first of its type.
            found = next((i for i in left if is_alike(inputs[i], out)), None)
            if found is not None:
                self.taken[number] = found
                left.remove(found)

    def _of(self, x: Operand) -> Owners:
        return self._owners.get(x, NOBODY) if is_variable(x) else NOBODY

    def has(self, x: Operand) -> bool:
        """Says whether an operand may lie in the memory of a donated input."""
        return bool(self._of(x))

    def is_read_after(self, i: int, number: int) -> bool:
        """Says whether an equation behind one reads what lies in the memory of an input."""
        return self._last.get(i, -1) > number

    def is_read_by(
        self, i: int, equation: EquationLike, but: VariableLike | None = None
    ) -> bool:
        """Says whether an equation reads the memory of an input, but as one variable."""
        return any(i in self._of(x) for x in equation.operands if x is not but)


def is_alike(x: VariableLike, y: VariableLike) -> bool:
    """Says whether two variables are of the same type, on the same device."""
    return x.type == y.type and getattr(x, "device") == getattr(y, "device")  # noqa: B009


def enter_owners(program: ProgramLike, owners: dict[VariableLike, Owners]) -> None:
    """Enters for all variables the inputs in whose memory they may lie."""
    for equation in program.equations:
        given = [owners.get(x, NOBODY) if is_variable(x) else NOBODY for x in equation.operands]
        if equation.primitive.fused:
            # Where its equations run one by one, its outputs may be views.
            body = equation.primitive.program
            inner: dict[VariableLike, Owners] = dict(zip(body.inputs, given, strict=True))
            enter_owners(body, inner)
            pairs = zip(equation.outputs, body.outputs, strict=True)
            owners.update({out: inner.get(x, NOBODY) for out, x in pairs})
        elif not is_fresh_everywhere(equation):
            owners |= dict.fromkeys(equation.outputs, NOBODY.union(*given))
