"""Adds values at some places to an array itself, in the place of a sum with an array of zeros."""

from __future__ import annotations

from ..programs.index_tests import additions, additions_to_zeros
from ..programs.program import Equation, Program, Variable
from .dead_code import dead_code

__all__ = ["scatter_updates", "scatters_as_updates"]


def scatter_updates(program: Program) -> Program:
    """Returns a program that adds values to an array at their places, not an array of zeros.

    Loops that carry a sum add such arrays to it in every step. The update is done in place there,
    and a step costs what the values do.

    Args:
        program: what is going to be run, without derivatives of its own.

    >>> import functensor as ft, functensor.numpy as np
    >>> def cotangent(sum, x):
    ...     return sum + ft.grad(lambda x: x[1] ** 2)(x)
    >>> program = ft.make_program(cotangent)(np.ones(3), np.ones(3))
    >>> scatter_updates(program).equations[-1].primitive
    <primitive index_add>
    """
    uses = program.uses()
    made: dict[Variable, Equation] = {}
    equations: list[Equation] = []
    for equation in program.equations:
        update = _update(equation, made, uses)
        equations += update or [equation]
        for out in equation.outputs:
            made[out] = equation
    if equations == [*program.equations]:
        return program
    return dead_code(program.with_equations(equations))


def _update(
    equation: Equation, made: dict[Variable, Equation], uses: dict[Variable, int]
) -> list[Equation]:
    """Returns updates in the place of a sum; empty if it is none of an array and values."""
    if equation.primitive.name != "add":
        return []
    (out,) = equation.outputs
    for x, y in (equation.operands, reversed(equation.operands)):
        if type(x) is not Variable or type(y) is not Variable or x.type != out.type:
            continue
        source = made.get(y)
        if source is None or source.primitive.name != "scatter_add" or uses[y] != 1:
            continue
        if y.type != x.type:
            continue
        return additions(x, source, out)
    return []


def scatters_as_updates(program: Program) -> Program:
    """Returns a program that adds values to an array of zeros in place of a scatter.

    Machine code of loops knows updates alone, and does them in place.

    Args:
        program: what is going to be run, without derivatives of its own.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(ft.grad(lambda x: x[1] * x[0]))(np.ones(3))
    >>> [equation.primitive.name for equation in scatters_as_updates(program).equations[-3:]]
    ['broadcast_to', 'index_add', 'index_add']
    """
    equations: list[Equation] = []
    for equation in program.equations:
        if equation.primitive.name != "scatter_add":
            equations.append(equation)
            continue
        equations += additions_to_zeros(equation)
    if len(equations) == len(program.equations):
        return program
    return program.with_equations(equations)
