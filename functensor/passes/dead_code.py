"""Removes equations that no output depends on."""

from __future__ import annotations

from ..programs.live_equations import live_equations
from ..programs.program import Program

__all__ = ["dead_code"]


def dead_code(program: Program, exchanges: bool = False) -> Program:
    """Returns a program without the equations that no output depends on.

    Args:
        program: any program; the one itself is returned where all of it is needed.
        exchanges: whether operations of several processes go too. That is right before passes have
            looked at constants, which may not be the same in each process.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(lambda x: (np.sin(x), np.cos(x)))(np.ones(2))
    >>> print(dead_code(program.with_equations(program.equations, program.outputs[:1])))
    <lambda>(a: float64[2]):
        b: float64[2] = sin(a)
        return b
    """
    live = live_equations(program.equations, program.outputs, not exchanges)
    return program if len(live) == len(program.equations) else program.with_equations(live)
