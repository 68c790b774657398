"""Runs equations of a segment by NumPy, where machine code of it failed: one of them raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..codegen.operands import constant, is_variable

if TYPE_CHECKING:
    from ..annotations import EquationLike

__all__ = ["run_with_operands", "runs_on_buffers"]


def runs_on_buffers(equation: EquationLike) -> bool:
    """Says whether an equation is a primitive, or a region of those."""
    return equation.primitive.impl is not None or equation.primitive.fused


def run_with_operands(
    wanted: EquationLike, before: Sequence[EquationLike], known: dict[Any, Any]
) -> None:
    """Runs an equation, and those before it that make its operands.

    Args:
        wanted: the equation.
        before: the equations before it, in order.
        known: the buffers that are there, by what they are; results are added.
    """
    needed, values = [wanted], set(filter(is_variable, wanted.operands))
    for equation in reversed(before):
        if any(x in values and x not in known for x in equation.outputs):
            needed.append(equation)
            values.update(filter(is_variable, equation.operands))
    for equation in reversed(needed):
        buffers = [known[x] if is_variable(x) else constant(x) for x in equation.operands]
        primitive = equation.primitive
        if primitive.impl is None:
            outs = primitive.on_buffers(buffers)
        else:
            outs = [primitive.impl(*buffers, **equation.params)]
        known.update(zip(equation.outputs, outs))
