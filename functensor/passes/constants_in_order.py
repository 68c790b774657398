"""Constants that lie in memory in order, as machine code reads arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.core.buffers import wrap
from ..primitives.core.registry import registry
from ..programs.program import Equation, Program, Variable, type_of
from .constants import constant_buffer

__all__ = ["constants_in_order"]

# Constants of more bytes are not copied where they are a transposed array.
MOST_COPIED_CONSTANT = 1 << 20


def constants_in_order(program: Program) -> Program:
    """Returns a program whose constants lie in C order.

    Small ones are copied. A large one that lies in order but for its axes is transposed in the
    program, which is an index map in kernels. Arrays that repeat elements stay, if they are large
    or one number everywhere.

    Args:
        program: any program; the one itself is returned where nothing changes.

    >>> import functensor as ft, functensor.numpy as np
    >>> weights = np.zeros((3, 2)).T
    >>> program = constants_in_order(ft.make_program(lambda x: x @ weights)(np.ones(2)))
    >>> program.equations[0].operands[1].strides
    (24, 8)
    """
    known: dict[int, Any] = {}
    equations: list[Equation] = []
    for equation in program.equations:
        operands = []
        for x in equation.operands:
            buffer = constant_buffer(x)
            if type(buffer) is np.ndarray and not is_in_order(buffer):
                if id(buffer) not in known:
                    made = _in_order(buffer, equation)
                    known[id(buffer)] = made
                    if type(made) is Equation:
                        equations.append(made)
                found = known[id(buffer)]
                x = found.outputs[0] if type(found) is Equation else found
            operands.append(x)
        if any(new is not old for new, old in zip(operands, equation.operands, strict=True)):
            equation = equation.by(equation.primitive, operands, equation.params)
        equations.append(equation)
    return program.with_equations(equations, program.outputs) if known else program


def is_in_order(buffer: np.ndarray[Any, Any]) -> bool:
    """Says whether machine code reads an array as it lies, or whether it is a number everywhere."""
    flags = buffer.flags
    return (flags.c_contiguous and flags.aligned) or not any(buffer.strides)


def _in_order(buffer: np.ndarray[Any, Any], user: Equation) -> Any:
    """Returns a constant in order, or the equation that makes it of one; or the constant itself."""
    if buffer.nbytes <= MOST_COPIED_CONSTANT:
        return wrap(np.require(buffer, requirements=("C", "A")))
    axes = sorted(range(buffer.ndim), key=lambda i: -abs(buffer.strides[i]))
    base = buffer.transpose(axes)
    if is_in_order(base):
        back = tuple(int(i) for i in np.argsort(axes))
        out = Variable(type_of(wrap(buffer)), user.outputs[0].device)
        return user.by(registry["transpose"], [wrap(base)], {"axes": back}, [out])
    if 0 in buffer.strides:
        return wrap(buffer)
    return wrap(np.require(buffer, requirements=("C", "A")))
