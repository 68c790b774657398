"""Finds the equations that a program needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .program import Equation, Variable, used

__all__ = ["live_equations"]


def live_equations(
    equations: Sequence[Equation], outputs: Iterable[Any], all_exchanges: bool = False
) -> list[Equation]:
    """Returns the equations that outputs depend on, and those that have an effect.

    ``all_exchanges`` says whether those of several processes stay too.
    """
    needed = set(used(outputs))
    live = []
    for equation in reversed(equations):
        stays = equation.primitive.effect or (all_exchanges and equation.exchanges())
        if stays or not needed.isdisjoint(equation.outputs):
            live.append(equation)
            for x in equation.operands:
                if type(x) is Variable:
                    needed.add(x)
    return live[::-1]
