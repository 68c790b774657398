"""Finds the losses whose logits are a sum with a bias, which the kernel of large losses adds."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cpu.plan.codegen.operands import is_variable
from ..kernels.cross_entropy import FEWEST_AHEAD_BYTES
from .leaf_groups import CallGroup

if TYPE_CHECKING:
    from ...annotations import Shape
    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["Biased", "biased_losses"]


class Biased(NamedTuple):
    """Logits as a sum.

    Attributes:
        x: the logits without the bias.
        bias: the number for each class.
        shape: the shape that the sum is given; None where it keeps its own.
        made: the variables between these and the loss.
    """

    x: VariableLike
    bias: VariableLike
    shape: Shape | None = None
    made: tuple[VariableLike, ...] = ()


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

    def maker(x: Operand) -> EquationLike | None:
        place = places.get(x) if is_variable(x) else None
        return None if place is None else program.equations[place]

    def readers(out: VariableLike) -> int:
        return sum(any(x is out for x in e.operands) for e in program.equations)

    found = {}
    for loss, slope in along.items():
        logits = slope.operands[0]
        equation = maker(logits)
        # The loss and its slope.
        if equation is None or readers(logits) != 2:
            continue
        made: tuple[Any, ...] = (logits,)
        shape = None
        if equation.primitive.name == "reshape":
            (whole,) = equation.operands
            equation = maker(whole)
            alike = equation is not None and whole.type.shape[-1:] == logits.type.shape[-1:]
            if not alike or readers(whole) != 1:
                continue
            made, shape = (whole, logits), logits.type.shape
        parts = None if equation is None else sum_of(equation)
        # Nothing is written in between that somebody else may lie in.
        span = program.equations[places[made[0]] : places[loss]]
        if parts is not None and shown.isdisjoint([x for e in span for x in e.outputs]):
            found[logits] = parts._replace(shape=shape, made=made)
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
