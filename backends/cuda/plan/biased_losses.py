"""Finds the losses whose logits are a sum with a bias, which the kernel of large losses adds."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ...cpu.plan.codegen.operands import is_variable
from ..kernels.cross_entropy import FEWEST_AHEAD_BYTES
from .leaf_groups import CallGroup

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["Biased", "biased_losses"]


class Biased(NamedTuple):
    """Logits as a sum.

    Attributes:
        x: the logits without the bias.
        bias: the number for each class.
    """

    x: VariableLike
    bias: VariableLike


def biased_losses(
    program: ProgramLike, along: Mapping[VariableLike, EquationLike]
) -> dict[VariableLike, Biased]:
    """Returns for logits what they are the sum of.

    Args:
        program: the program, its regions fused.
        along: by losses the equations of the slopes that are written along with them.
    """
    shown = {x for x in program.outputs if is_variable(x)}
    places = {x: i for i, e in enumerate(program.equations) for x in e.outputs}
    found = {}
    for loss, slope in along.items():
        logits = slope.operands[0]
        begin, end = places.get(logits, -1) if is_variable(logits) else -1, places[loss]
        made = sum_of(program.equations[begin]) if begin >= 0 else None
        if made is None:
            continue
        equation = program.equations[begin]
        (out,) = equation.outputs
        readers = [e for e in program.equations if any(x is out for x in e.operands)]
        # Nothing is written in between that somebody else may lie in.
        between = [x for e in program.equations[begin:end] for x in e.outputs]
        if len(readers) == 2 and shown.isdisjoint(between):
            found[out] = made
    return found


def sum_of(equation: EquationLike) -> Biased | None:
    """Returns what a region adds; None where it does something else."""
    primitive = equation.primitive
    if isinstance(primitive, CallGroup):
        return None
    equations = primitive.program.equations if primitive.fused else ()
    names = [e.primitive.name for e in equations]
    if names != ["add"] or len(equation.operands) != 2:
        return None
    x, bias = equation.operands
    if not is_variable(x) or not is_variable(bias):
        return None
    if x.type.ndim < bias.type.ndim:
        x, bias = bias, x
    logits = equation.outputs[0].type
    if prod(logits.shape) * logits.dtype.itemsize < FEWEST_AHEAD_BYTES:
        return None
    alike = x.type == logits and bias.type.dtype == logits.dtype
    return Biased(x, bias) if alike and bias.type.shape == logits.shape[-1:] else None
