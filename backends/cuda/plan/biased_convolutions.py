"""Finds the convolutions whose own kernels add a bias, with relu behind it or without."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ...cpu.plan.codegen.operands import is_variable
from .. import cudnn
from ..kernels.gathered_convolution import MOST_GATHERED_ROWS, MOST_TAPS, gains_on_cudnn
from .leaf_groups import CallGroup

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["BiasedConvolution", "biased_convolutions"]


class BiasedConvolution(NamedTuple):
    """A convolution with what a region does to its elements.

    Attributes:
        region: the region.
        bias: the number for each output.
        relu: whether negative sums become 0.
    """

    region: EquationLike
    bias: VariableLike
    relu: bool


def biased_convolutions(program: ProgramLike) -> dict[VariableLike, BiasedConvolution]:
    """Returns for convolutions, by what they return, what is done to it.

    Args:
        program: the program, its regions fused.
    """
    inputs = {*program.inputs}
    shown = {x for x in program.outputs if is_variable(x)}
    users: dict[VariableLike, list[EquationLike]] = {}
    for equation in program.equations:
        for x in dict.fromkeys(filter(is_variable, equation.operands)):
            users.setdefault(x, []).append(equation)
    found = {}
    for equation in program.equations:
        if equation.primitive.name != "conv" or not is_convolved_by_gathering(equation):
            continue
        (out,) = equation.outputs
        readers = users.get(out, [])
        if len(readers) == 1 and out not in shown:
            made = biased(out, readers[0])
            # The bias is there when the convolution is computed.
            if made is not None and made.bias in inputs:
                found[out] = made
    return found


def is_convolved_by_gathering(equation: EquationLike) -> bool:
    """Says whether own kernels are likely to compute a convolution."""
    x, w = equation.operands
    if not is_variable(x) or not is_variable(w):
        return False
    geometry, shapes = equation.params["geometry"], (x.type.shape, w.type.shape)
    if cudnn.available() and not gains_on_cudnn("conv_fprop", *shapes, {}, geometry):
        return False
    kernel = w.type.shape[2:]
    rows = w.type.shape[0] // geometry.groups
    types = {x.type.dtype.name, w.type.dtype.name}
    few = 1 < prod(kernel) <= MOST_TAPS and rows <= MOST_GATHERED_ROWS
    return types == {"float32"} and len(kernel) in (1, 2) and few


def biased(out: VariableLike, region: EquationLike) -> BiasedConvolution | None:
    """Returns what a region does to a convolution; None where that is something else."""
    primitive = region.primitive
    if not primitive.fused or isinstance(primitive, CallGroup) or len(region.operands) != 2:
        return None
    x, bias = region.operands
    program = primitive.program
    names = [e.primitive.name for e in program.equations]
    if x is not out or names not in (["reshape", "add"], ["reshape", "add", "relu"]):
        return None
    turned, sum_of, *last = program.equations
    own, given = program.inputs
    channels, spatial = out.type.shape[1], out.type.ndim - 2
    shape = (channels, *[1] * spatial)
    chain = [*sum_of.outputs, *(e.outputs[0] for e in last)]
    fits = (
        is_variable(bias)
        and bias.type.shape == (channels,)
        and bias.type.dtype == out.type.dtype
        and turned.operands[0] is given
        and turned.outputs[0].type.shape == shape
        and {*sum_of.operands} == {own, turned.outputs[0]}
        and all(e.operands[0] is x for e, x in zip(last, chain, strict=False))
        and program.outputs[0] is chain[-1]
        and region.outputs[0].type == out.type
    )
    return BiasedConvolution(region, bias, bool(last)) if fits else None
