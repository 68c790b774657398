"""Brings constant numbers from a GPU to the host, so that kernels have them in their text."""

from __future__ import annotations

from typing import Any

from ..backends.devices import to_host
from ..primitives.core.array import Array
from ..programs.program import Equation, Operand, Program, Variable
from .constants import LARGEST_COMPARED_BYTES, uniform_value

__all__ = ["host_numbers"]


def host_numbers(program: Program) -> Program:
    """Returns a program whose elementwise equations have their constant numbers on the host.

    They compute on the device of their other operands all the same. An array of one number counts
    as it where another operand has the shape of the result.
    """
    changed = [_with_host_numbers(equation) for equation in program.equations]
    if all(new is old for new, old in zip(changed, program.equations, strict=True)):
        return program
    return program.with_equations(changed)


def _with_host_numbers(equation: Equation) -> Equation:
    if equation.primitive.family != "elementwise":
        return equation
    placed = [x.type.shape for x in filter(_is_placed, equation.operands)]
    if not placed:
        return equation
    broadcasts = equation.outputs[0].type.shape in placed
    operands = [_on_host(x, broadcasts) for x in equation.operands]
    if all(new is old for new, old in zip(operands, equation.operands, strict=True)):
        return equation
    return equation.with_operands(operands)


def _is_placed(x: Operand) -> bool:
    """Says whether an operand decides that an equation computes on a GPU."""
    return type(x) is Variable and x.device != "cpu" and bool(x.type.shape)


def _on_host(x: Any, broadcasts: bool) -> Any:
    """Returns a constant number of a GPU as NumPy's, and others as they are.

    ``broadcasts`` says whether an array of one number may become that number.
    """
    if type(x) is not Array or x.device == "cpu" or not x.size or (x.shape and not broadcasts):
        return x
    buffer: Any = x._data
    if not any(step for step, n in zip(buffer.strides, buffer.shape, strict=True) if n > 1):
        buffer = buffer[(0,) * buffer.ndim]
    elif buffer.nbytes > LARGEST_COMPARED_BYTES:
        return x
    number = uniform_value(to_host(buffer))
    return x if number is None else number
