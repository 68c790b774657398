"""Finds the losses whose derivative is written along with them, while the logits are at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu.plan.codegen.operands import constant, is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["grads_ahead", "one_number"]

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


def one_number(x: Any) -> float | None:
    """Returns the number that a constant array is everywhere; None where it may be several."""
    if is_variable(x):
        return None
    value = constant(x)
    if not np.shape(value):
        return None
    # One of several numbers on a GPU would be waited for.
    alike = type(value) is np.ndarray and bool((value == value.flat[:1]).all())
    if not value.size or not (alike or not any(value.strides)):
        return None
    return float(value[(0,) * value.ndim])
