"""The order of a step's equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..codegen.operands import is_variable

if TYPE_CHECKING:
    from ..annotations import EquationLike

__all__ = ["reads_first"]


def reads_first(equations: Sequence[EquationLike]) -> list[EquationLike]:
    """Returns equations with each read of elements as early as its operands allow.

    An update that follows the last read of an array can be done in place.
    """
    ordered: list[EquationLike] = []
    for equation in equations:
        place = len(ordered)
        if equation.primitive.name == "index" and len(equation.operands) > 1:
            operands = [x for x in equation.operands if is_variable(x)]
            while place and not any(x in operands for x in ordered[place - 1].outputs):
                place -= 1
        ordered.insert(place, equation)
    return ordered
