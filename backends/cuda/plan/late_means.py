"""Means over processes, for which a plan waits as late as it may.

A GPU averages arrays beside its own work. What needs no mean is done before the first wait, and
what needs all means but the last one is done while that one is on its way. Means begin before work
that loses little by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cpu.plan.codegen.operands import is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike

__all__ = ["behind_last_mean", "means_begun", "means_beside"]

# The primitives that send a mean on its way, and that wait for it and take what stands for it.
SENDING, WAITING = "begin_mean", "end_mean"
# Operations of many small blocks. Products have one for each multiprocessor: where a mean has some
# of those, the last blocks come after all others. On an H200 products beside a mean took a third
# longer, and these a tenth.
LOSING_LITTLE = frozenset({"attention_grad"})


def means_begun(equations: Sequence[EquationLike]) -> dict[int, int]:
    """Returns the numbers of the equations that began means, by the ids of those that wait."""
    makers = {x: i for i, equation in enumerate(equations) for x in equation.outputs}
    return {
        id(equation): makers.get(equation.operands[0], 0)
        for equation in equations
        if equation.primitive.name == WAITING and equation.params["axis_name"]
    }


def behind_last_mean(equations: Sequence[EquationLike]) -> set[int]:
    """Returns the equations, by their ids, that need the mean which was begun last."""
    begun = means_begun(equations)
    if not begun:
        return set()
    last = max(begun, key=begun.__getitem__)
    behind: set[int] = set()
    made: set[object] = set()
    for equation in equations:
        given = filter(is_variable, equation.operands)
        if id(equation) == last or not made.isdisjoint(given):
            behind.add(id(equation))
            made.update(equation.outputs)
    return behind


def means_beside(program: ProgramLike) -> ProgramLike:
    """Returns a program whose means begin before the next operation that loses little by them.

    They begin as soon as they may where there is none before the next exchange.
    """
    equations = program.equations
    places = [float(i) for i in range(len(equations))]
    begun: int | None = None
    for i, equation in enumerate(equations):
        if begun is not None and equation.primitive.name in LOSING_LITTLE:
            places[begun], begun = i - 0.5, None
        elif equation.exchanges():  # type: ignore[attr-defined]
            begun = i if equation.primitive.name == SENDING else None
    order = sorted(range(len(equations)), key=places.__getitem__)
    return program.with_equations([equations[i] for i in order])  # type: ignore[attr-defined, no-any-return]
