"""Functions of the same operand that are computed together: sine and cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..kernels.functions import JOINT_FUNCTIONS
from ..kernels.kernel import Let, LoopValue, Operand, Statement

__all__ = ["joint_functions"]


def joint_functions(body: Sequence[Statement]) -> dict[Statement, tuple[Let, ...]]:
    """Returns the statements that compute both of two functions of the same operand.

    The first of both has the pair, which is computed there, and the second an empty tuple.
    """
    found: dict[tuple[Any, Operand], dict[str, Let]] = {}
    for statement in body:
        if isinstance(statement, Let) and statement.operation in JOINT_FUNCTIONS:
            names, (operand,) = JOINT_FUNCTIONS[statement.operation], statement.operands
            if isinstance(operand, LoopValue):
                found.setdefault((names, operand), {})[statement.operation] = statement
    joint: dict[Statement, tuple[Let, ...]] = {}
    for (names, _), both in found.items():
        if len(both) == len(names):
            first, second = both.values()
            joint[first], joint[second] = tuple([both[name] for name in names]), ()
    return joint
