"""Brings constant numbers from a GPU to the host, so that kernels have them in their text."""

from __future__ import annotations

from typing import Any

from ..backends.devices import to_host
from ..primitives.core.array import Array
from ..programs.program import Equation, Operand, Program, Variable

__all__ = ["host_numbers"]


def host_numbers(program: Program) -> Program:
    """Returns a program whose elementwise equations have their constant numbers on the host.

    They compute on the device of their other operands all the same.
    """
    changed = [_with_host_numbers(equation) for equation in program.equations]
    if all(new is old for new, old in zip(changed, program.equations, strict=True)):
        return program
    return program.with_equations(changed)


def _with_host_numbers(equation: Equation) -> Equation:
    if equation.primitive.family != "elementwise" or not any(map(_is_placed, equation.operands)):
        return equation
    operands = [_on_host(x) for x in equation.operands]
    if all(new is old for new, old in zip(operands, equation.operands, strict=True)):
        return equation
    return equation.with_operands(operands)


def _is_placed(x: Operand) -> bool:
    """Says whether an operand decides that an equation computes on a GPU."""
    return type(x) is Variable and x.device != "cpu" and bool(x.type.shape)


def _on_host(x: Any) -> Any:
    """Returns a constant number of a GPU as NumPy's, and others as they are."""
    if type(x) is not Array or x.shape or x.device == "cpu":
        return x
    return to_host(x._data)[()]
