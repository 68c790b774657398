"""From a program to its plan: passes make it better, and a backend writes code for the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backends import Loop
from ..backends import get as get_backend
from ..passes.fusion import fusion
from ..passes.pipeline import optimized
from ..passes.scatter_updates import scatter_updates
from ..primitives.core.annotations import Values
from ..primitives.core.array import Array
from ..primitives.core.buffers import exposed, to_buffer, wrap
from ..primitives.core.donation import claimed, restored
from ..primitives.core.trace import under
from ..programs.costs import Cost, cost_of
from ..programs.program import Program

__all__ = ["Compiled", "Lowered", "compiled", "plan_of_loop", "prepared_program"]

# With the passes, so that no first call waits for it.
get_backend("numpy").load_plans()


class Compiled:
    """A compiled program: it runs on arrays.

    Args:
        program: as it was staged.
        donated: the numbers of the inputs whose buffers are overwritten.
        returned: the numbers of the inputs that are results themselves.

    Attributes:
        program: the same, optimized.
        plan: the backend's plan, which takes and returns buffers; None where the program is
            run operation by operation, on a GPU.
    """

    __slots__ = ("_weak", "donated", "name", "plan", "program", "returned")

    def __init__(
        self, program: Program, donated: Sequence[int] = (), returned: Sequence[int] = ()
    ) -> None:
        self.name = program.name
        self.program = optimized(program)
        self.plan: Any = None
        if is_planned(self.program):
            self.program = fusion(self.program)
            self.plan = get_backend("numpy").plan(self.program, tuple(donated))
        self.donated = tuple(donated) if self.plan is not None else ()
        self.returned = tuple(returned) if self.donated else ()
        self._weak = [(i, x.type.weak) for i, x in enumerate(program.inputs) if x.type.weak]

    def __call__(self, values: Sequence[Any]) -> Values:
        """Computes the outputs of a flat list of arrays, as arrays."""
        buffers = [x._data if type(x) is Array else to_buffer(x) for x in values]
        for i, weak in self._weak:
            if type(buffers[i]) is not weak:
                buffers[i] = weak(buffers[i])
        return self.on_buffers(values, buffers)

    def on_buffers(self, values: Sequence[Any], buffers: list[Any]) -> Values:
        """Does the same, given the arrays' buffers too."""
        if self.plan is None:
            with under(None):
                return [wrap(out) for out in self.program.run(list(map(exposed, buffers)))]
        for i in self.donated:
            claimed(values[i], buffers, i, f"jit of {self.name}")
        for i in self.returned:
            restored(values[i], buffers[i])
        return [wrap(out) for out in self.plan(buffers)]


def is_planned(program: Program) -> bool:
    """Says whether a program runs as a plan: all of it on the CPU."""
    return all(x.device == "cpu" for x in program.inputs) and all(
        x.device == "cpu" for equation in program.equations for x in equation.outputs
    )


def plan_of_loop(program: Program, loop: Loop) -> Callable[..., Any] | None:
    """Returns the plan of a loop, whose body is a program as it was staged; None where it has none.

    ``loop`` says the roles of inputs and outputs.
    """
    better = prepared_program(program)
    return get_backend("numpy").loop(better, loop) if better is not None else None


def prepared_program(program: Program) -> Program | None:
    """Returns a program as plans take it; None where it runs operation by operation."""
    better = optimized(program)
    return fusion(scatter_updates(better)) if is_planned(better) else None


def compiled(
    program: Program, donated: Sequence[int] = (), returned: Sequence[int] = ()
) -> Compiled:
    """Returns the compiled form of a program; made once."""
    key = "compiled", tuple(donated), tuple(returned)
    found: Compiled | None = program.derived.get(key)
    if found is None:
        found = program.derived[key] = Compiled(program, donated, returned)
    return found


class Lowered:
    """A staged function, in all its forms.

    Attributes:
        program: as it was staged.
        optimized: the program that the passes made.
    """

    __slots__ = ("_compiled", "program")

    def __init__(self, program: Program, compiled: Compiled) -> None:
        self.program = program
        self._compiled = compiled

    @property
    def optimized(self) -> Program:
        """The program that the passes made."""
        return self._compiled.program

    @property
    def source(self) -> str:
        """The text of the generated code; a line of words where operations run one by one."""
        plan = self._compiled.plan
        if plan is None:
            return "# on a GPU, the optimized program is run operation by operation\n"
        return plan.source  # type: ignore[no-any-return]

    def cost(self) -> Cost:
        """Returns the operations, bytes and peak memory of the optimized program."""
        return cost_of(self.optimized)

    def __repr__(self) -> str:
        return f"<lowered {self.program.name}: {len(self.program.equations)} equations>"
