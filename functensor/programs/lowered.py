"""What a jitted function would run, to look at."""

from __future__ import annotations

from .compiled import Compiled
from .costs import Cost, cost_of
from .program import Program

__all__ = ["Lowered"]


class Lowered:
    """A staged function, in all its forms.

    Attributes:
        program: as it was staged.
        optimized: what the passes made of it.
    """

    __slots__ = ("_compiled", "program")

    def __init__(self, program: Program, compiled: Compiled) -> None:
        self.program = program
        self._compiled = compiled

    @property
    def optimized(self) -> Program:
        """What the passes made of the program."""
        return self._compiled.program

    @property
    def source(self) -> str:
        """The text of the generated code; where operations are run one by one, a line that says so.
        """
        plan = self._compiled.plan
        if plan is None:
            return "# on a GPU, the optimized program is run operation by operation\n"
        return plan.source  # type: ignore[no-any-return]

    def cost(self) -> Cost:
        """Returns the operations, bytes and peak memory of the optimized program."""
        return cost_of(self.optimized)

    def __repr__(self) -> str:
        return f"<lowered {self.program.name}: {len(self.program.equations)} equations>"
