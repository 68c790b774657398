"""Moves large independent equations beside each other, so that threads share all of them."""

from __future__ import annotations

from math import prod

from ..programs.program import Equation, Program, Variable, type_of, used

__all__ = ["neighbours"]

# Products of fewer multiplications are not shared.
FEWEST_SHARED_MULTIPLICATIONS = 1 << 23
# Only small equations are moved ahead of large ones, so that no memory is held for long.
LARGEST_MOVED_ELEMENTS = 65536
# Of so many at once a helper's late beginning is no more to be noticed.
MOST_NEIGHBOURS = 8
VIEWING_PRIMITIVES = frozenset({"broadcast_to", "reshape", "stop_gradient", "transpose"})


def neighbours(program: Program) -> Program:
    """Returns a program in which large equations that are independent are neighbours.

    Regions and products of matrices wait for others of their kind, until something needs what one
    of them computes; what is small and does not need it goes first.

    Args:
        program: one with regions.
    """
    order: list[Equation] = []
    # From the first large one on that waits; and which of them are large.
    waiting: list[Equation] = []
    large: list[int] = []
    made: set[Variable] = set()
    for equation in program.equations:
        joins = is_large_equation(equation)
        if (
            len(large) == MOST_NEIGHBOURS
            or not made.isdisjoint(used(equation.operands))
            or not (joins or is_small_equation(equation))
        ):
            order += gathered_neighbours(waiting, large)
            waiting, large, made = [], [], set()
        if joins:
            large.append(len(waiting))
            made.update(equation.outputs)
        if large:
            waiting.append(equation)
        else:
            order.append(equation)
    order += gathered_neighbours(waiting, large)
    same = all(x is y for x, y in zip(order, program.equations, strict=True))
    return program if same else program.with_equations(order)


def gathered_neighbours(equations: list[Equation], large: list[int]) -> list[Equation]:
    """Returns equations in an order in which the large ones are neighbours."""
    if len(large) < 2:
        return equations
    numbers = range(large[-1] + 1)
    small = [equations[i] for i in numbers if i not in large]
    return [*small, *(equations[i] for i in large), *equations[large[-1] + 1 :]]


def is_large_equation(equation: Equation) -> bool:
    """Says whether threads may share an equation."""
    if equation.primitive.fused:
        return True
    if equation.primitive.name != "matmul":
        return False
    x, y = (type_of(operand).shape for operand in equation.operands)
    return len(y) > 1 and prod(x) * y[-1] >= FEWEST_SHARED_MULTIPLICATIONS


def is_small_equation(equation: Equation) -> bool:
    """Says whether an equation takes little memory."""
    if equation.primitive.name in VIEWING_PRIMITIVES:
        return True
    return sum(out.type.size for out in equation.outputs) < LARGEST_MOVED_ELEMENTS
