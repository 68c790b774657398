"""The passes that a program goes through before it is planned."""

from __future__ import annotations

from collections.abc import Callable

from ..backends.config import config
from ..programs.program import Program
from .batch_elementwise import stacked_groups
from .batch_matmuls import joined_products
from .common_subexpressions import common_subexpressions
from .constant_folding import constant_folding
from .contraction_order import contraction_paths
from .dead_code import dead_code
from .exchange_order import check_exchanges
from .inline_calls import inlined
from .simplify import algebra
from .sink_broadcasts import sinking

__all__ = ["PASSES", "optimized"]

# Each takes a program and returns one that computes the same, itself if there is nothing to do.
PASSES: tuple[Callable[[Program], Program], ...] = (
    constant_folding,
    algebra,
    sinking,
    common_subexpressions,
    dead_code,
)
# One pass may make work for another; what is left after so many rounds is not worth more.
MOST_SIMPLIFYING_ROUNDS = 3


def optimized(program: Program, stacks: bool = True) -> Program:
    """Returns the program that is run: it computes the same with fewer or cheaper equations.

    Custom derivative rules are lost, so that it is not to be differentiated.

    Args:
        program: what was staged.
        stacks: whether small elementwise equations are joined to ones of stacked arrays.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(lambda x: np.sin(x) + np.sin(x))(np.ones(2))
    >>> print(optimized(program))
    <lambda>(a: float64[2]):
        b: float64[2] = sin(a)
        c: float64[2] = add(b, b)
        return c
    """
    program = staged = contraction_paths(dead_code(inlined(program), exchanges=True))
    # Small operations are joined early: a program of thousands of equations has few after that.
    program = joined_products(common_subexpressions(algebra(program)))
    program = dead_code(program)
    if stacks:
        program = dead_code(stacked_groups(program))
    unchanged = 0
    for improve in PASSES * MOST_SIMPLIFYING_ROUNDS:
        better = improve(program)
        unchanged = unchanged + 1 if better is program else 0
        program = better
        if unchanged == len(PASSES):
            break
    if config.check_programs:
        check_exchanges(staged, program)
    return program
