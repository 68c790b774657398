"""Results that are rows of a joined array from the start, so that nothing need be joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .codegen.operands import bytes_of, is_native_array, is_variable

if TYPE_CHECKING:
    from .annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["JOINS", "rows_of", "rows_of_joined"]

# What lays arrays side by side, along the first axis.
JOINS = frozenset({"concatenate", "stack"})


def rows_of(equation: EquationLike) -> list[Any]:
    """Returns which part of a joined array each operand is, as a key of it."""
    if equation.primitive.name == "stack":
        return list(range(len(equation.operands)))
    parts = []
    end = 0
    for x in equation.operands:
        start, end = end, end + x.type.shape[0]
        parts.append(slice(start, end))
    return parts


def rows_of_joined(
    program: ProgramLike, told: Sequence[Any], most: int
) -> dict[VariableLike, tuple[VariableLike, Any]]:
    """Returns for results that can be rows of a joined array the array and which rows.

    Args:
        program: the program.
        told: for every equation, what is true if it is told where to put its result.
        most: how many bytes the arrays have at most.
    """
    found: dict[VariableLike, tuple[VariableLike, Any]] = {}
    joins = [e for e in program.equations if e.primitive.name in JOINS and not e.params["axis"]]
    if not joins:
        return found
    results = set(filter(is_variable, program.outputs))
    makers = {
        e.outputs[0]: e for e, known in zip(program.equations, told, strict=True) if known
    }
    for equation in joins:
        out = equation.outputs[0]
        if (
            not is_native_array(out.type)
            or not out.type.size
            or bytes_of(out.type) > most
            or out in results
        ):
            continue
        if not all(is_variable(x) and x.type.dtype == out.type.dtype for x in equation.operands):
            continue
        rows = {
            x: (out, part)
            for x, part in zip(equation.operands, rows_of(equation), strict=True)
            if x in makers and x not in found and x not in results and is_native_array(x.type)
        }
        # The others are copied one by one, which all at once is quicker.
        if 2 * len(rows) >= len(equation.operands):
            found.update(rows)
    return found
