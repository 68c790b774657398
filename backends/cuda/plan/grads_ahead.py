"""Finds the losses whose derivative is written along with them, while the logits are at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...cpu.plan.codegen.operands import is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["grads_ahead"]

LOSS_NAME, GRAD_NAME = "cross_entropy", "cross_entropy_grad"


def grads_ahead(program: ProgramLike) -> dict[VariableLike, EquationLike]:
    """Returns for losses the one equation that asks for the derivative of the same logits.

    Args:
        program: the program, its regions fused.
    """
    losses = {e.outputs[0]: e for e in program.equations if e.primitive.name == LOSS_NAME}
    found: dict[VariableLike, EquationLike] = {}
    for equation in program.equations:
        if equation.primitive.name != GRAD_NAME:
            continue
        x, loss, _, labels = equation.operands
        made = losses.get(loss) if is_variable(loss) else None
        # What is written ahead is given away once.
        if made is not None and made.operands[0] is x and made.operands[1] is labels:
            found.setdefault(loss, equation)
    return found
