"""Results that are made in rows of a joined array, so that no join copies them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .codegen.operands import bytes_of, is_native_array, is_variable

if TYPE_CHECKING:
    from .annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["JOINS", "rows_of", "rows_of_joined"]

# Primitives that lay arrays one behind the other along an axis.
JOINS = frozenset({"concatenate", "stack"})


def rows_of(equation: EquationLike) -> list[Any]:
    """Returns for every operand of a join the key of its part of the joined array."""
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
    """Returns, for results that can be made in rows of a joined array, the array and the rows.

    Args:
        program: the program.
        told: for every equation, a true value if its function takes a buffer for the result.
        most: the largest size of such an array in bytes.
    """
    found: dict[VariableLike, tuple[VariableLike, Any]] = {}
    joins = [e for e in program.equations if e.primitive.name in JOINS and not e.params["axis"]]
    if not joins:
        return found
    results = set(filter(is_variable, program.outputs))
    makers = {e.outputs[0] for e, known in zip(program.equations, told, strict=True) if known}
    for equation in joins:
        out = equation.outputs[0]
        if not is_native_array(out.type) or not 0 < bytes_of(out.type) <= most or out in results:
            continue
        if not all(is_variable(x) and x.type.dtype == out.type.dtype for x in equation.operands):
            continue
        rows = {
            x: (out, part)
            for x, part in zip(equation.operands, rows_of(equation), strict=True)
            if x in makers and x not in found and x not in results and is_native_array(x.type)
        }
        # The rest is copied one by one. If it is most, one join of all is quicker.
        if 2 * len(rows) >= len(equation.operands):
            found.update(rows)
    return found
