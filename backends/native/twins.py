"""Functions of the same operand that are computed together: sine and cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..kernels.functions import TWINS
from ..kernels.kernel import Let, LoopValue, Operand, Statement

__all__ = ["twins_of"]


def twins_of(body: Sequence[Statement]) -> dict[Statement, tuple[Let, ...]]:
    """Returns the statements that compute both of two functions of the same operand.

    The first of both has the pair, which is computed there, and the second an empty tuple.
    """
    found: dict[tuple[Any, Operand], dict[str, Let]] = {}
    for statement in body:
        if isinstance(statement, Let) and statement.operation in TWINS:
            names, (operand,) = TWINS[statement.operation], statement.operands
            if isinstance(operand, LoopValue):
                found.setdefault((names, operand), {})[statement.operation] = statement
    twins: dict[Statement, tuple[Let, ...]] = {}
    for (names, _), both in found.items():
        if len(both) == len(names):
            first, second = both.values()
            twins[first], twins[second] = tuple([both[name] for name in names]), ()
    return twins
