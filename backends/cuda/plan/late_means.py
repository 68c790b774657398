"""Means over processes, for which a plan waits as late as it may.

A GPU averages arrays beside its own work. What needs no mean is done before the first wait, and
what needs all means but the last one is done while that one is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cpu.plan.codegen.operands import is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike

__all__ = ["behind_last_mean", "means_begun"]

# The primitive that waits for a mean, and takes what stands for it.
WAITING = "end_mean"


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
