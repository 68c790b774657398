"""Splits a region into what is done to each element of an operand, and what is made of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cpu.plan.codegen.operands import is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, VariableLike

__all__ = ["RegionSplit", "split_region"]


class RegionSplit(NamedTuple):
    """A region in two.

    Attributes:
        whole: the region.
        first: the region of results as large as the operand.
        number: the number of its input that the operand is.
        rest: the region of all others, which reads results of the first; none where there are none.
    """

    whole: EquationLike
    first: EquationLike
    number: int
    rest: Sequence[EquationLike]


def split_region(equation: EquationLike, operand: VariableLike) -> RegionSplit | None:
    """Returns a region in two, of which the second reads no element of an operand.

    None where that is not possible.

    Args:
        equation: the region.
        operand: one of its operands.
    """
    body = equation.primitive.program
    numbers = [i for i, x in enumerate(equation.operands) if x is operand]
    if len(numbers) != 1:
        return None
    own = body.inputs[numbers[0]]
    outs = dict(zip(body.outputs, equation.outputs, strict=True))
    large = [x for x in outs if is_variable(x) and x.type.shape == operand.type.shape]
    late = [x for x in outs if x not in large]
    made = {x for e in body.equations for x in e.outputs}
    if not large or not made.issuperset(outs) or len(outs) < len(equation.outputs):
        return None
    given = dict(zip(body.inputs, equation.operands, strict=True))
    first = region_part(equation, given, large, [outs[x] for x in large], [])
    if own not in first.primitive.program.inputs:
        return None
    number = first.primitive.program.inputs.index(own)
    rest = []
    if late:
        behind = region_part(equation, given | outs, late, [outs[x] for x in late], large)
        if own in behind.primitive.program.inputs:
            return None
        rest.append(behind)
    return RegionSplit(equation, first, number, rest)


def region_part(
    equation: EquationLike,
    given: dict[VariableLike, Any],
    outputs: Sequence[VariableLike],
    outer: Sequence[VariableLike],
    known: Iterable[VariableLike],
) -> EquationLike:
    """Returns a region that computes some of the results of one.

    Args:
        equation: the region.
        given: the operands that its inputs, or its results, are.
        outputs: the results, as variables of its body.
        outer: the same as outputs of the equation.
        known: the results that are inputs.
    """
    region = equation.primitive
    body = region.program
    known = set(known)
    needed, kept = set(outputs), []
    for inner in reversed(body.equations):
        if needed.intersection(inner.outputs) and not known.issuperset(inner.outputs):
            kept.append(inner)
            needed.update(filter(is_variable, inner.operands))
    inputs = [x for x in (*body.inputs, *body.outputs) if x in needed and x not in outputs]
    inputs = [x for x in dict.fromkeys(inputs) if x in known or x in body.inputs]
    program = type(body)(body.name, inputs, kept[::-1], outputs)
    used = {*inputs, *(x for e in kept for x in e.outputs)}
    places = {x: place for x, place in region.places.items() if x in used}
    ranges = {x: pair for x, pair in region.ranges.items() if x in used}
    made: EquationLike = equation.by(  # type: ignore[attr-defined]
        type(region)(program, region.grid, places, ranges), [given[x] for x in inputs], {}, outer
    )
    return made
