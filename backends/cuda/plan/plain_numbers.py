"""Numbers of the host by Python's own arithmetic, which is several times quicker than NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu.plan.codegen.operands import ARITHMETIC_SIGNS, constant, is_variable

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, Operand, VariableLike
    from ...cpu.plan.codegen.source import Source

__all__ = ["PLAIN_NAME", "plain_lines"]

# The name of the function.
PLAIN_NAME = "plain_numbers"
IN_DOUBLE, IN_WHOLE, IN_SINGLE = map(np.dtype, ("f8", "i8", "f4"))
SIGNS = {**ARITHMETIC_SIGNS, "divide": "/", "power": "**"}
# By dtype Python's type.
PYTHON_KINDS = {IN_DOUBLE: "float", IN_WHOLE: "int"}


def plain_lines(
    source: Source,
    inputs: Sequence[VariableLike],
    equations: Sequence[EquationLike],
    needed: Sequence[VariableLike],
    shown: Sequence[Operand],
) -> list[str] | None:
    """Returns the lines of a function that takes buffers, and returns what NumPy's function does.

    It raises some error where Python has none of the numbers that NumPy has. None where NumPy alone
    can do an operation.

    Args:
        source: the text, in which the variables have names.
        inputs: the inputs of the program.
        equations: the equations that the host computes.
        needed: the numbers that kernels need.
        shown: the outputs that are numbers of the host, or constants.
    """
    made = {x for equation in equations for x in equation.outputs}
    read = {x for e in equations for x in e.operands if is_variable(x)} - made
    lines = []
    for number, x in enumerate(inputs):
        kind = PYTHON_KINDS.get(x.type.dtype)
        if x in read:
            if kind is None:
                return None
            lines.append(f"{source.names[x]} = {kind}(buffers[{number}])")
    for equation in equations:
        text = plain_text(source, equation)
        if text is None:
            return None
        lines.append(f"{source.names[equation.outputs[0]]} = {text}")
    places = {x: number for number, x in enumerate(inputs)}

    def returned(x: Operand) -> str:
        if not is_variable(x):
            return source.shown(x)
        if x in places:
            return f"buffers[{places[x]}]"
        dtype = x.type.dtype
        name = source.names[x]
        # Python's own numbers are those of weak outputs.
        weak = x.type.weak is not None or dtype == IN_SINGLE
        return name if weak else f"{source.bind(dtype.type, dtype.name)}({name})"

    numbers = [source.names[x] if x in made else returned(x) for x in needed]
    results = [returned(x) for x in shown]
    lines.append(f"return [{', '.join(numbers)}], [{', '.join(results)}]")
    return lines


def plain_text(source: Source, equation: EquationLike) -> str | None:
    """Returns the expression of an equation; None where Python has none that gives the same."""
    (out,), name, operands = equation.outputs, equation.primitive.name, equation.operands
    dtypes = [operand_kind(x) for x in operands]
    if name == "astype" and out.type.dtype == IN_SINGLE and dtypes == [IN_DOUBLE]:
        return f"{source.bind(np.float32, 'float32')}({source.shown(operands[0])})"
    if name not in SIGNS or not {*dtypes} <= {*PYTHON_KINDS}:
        return None
    if out.type.dtype == IN_WHOLE:
        fits = name in ARITHMETIC_SIGNS and {*dtypes} == {IN_WHOLE}
    else:
        fits = out.type.dtype == IN_DOUBLE and IN_DOUBLE in dtypes
    if not fits or equation.params:
        return None
    first, second = map(source.shown, operands)
    return f"{first} {SIGNS[name]} {second}"


def operand_kind(x: Any) -> np.dtype[Any] | None:
    """Returns the dtype of an operand; None of a constant that is no number of Python's."""
    if is_variable(x):
        return x.type.dtype
    return {float: IN_DOUBLE, int: IN_WHOLE}.get(type(constant(x)))
