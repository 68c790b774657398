"""Programs of functions that close over traced values, which become inputs."""

from __future__ import annotations

from typing import Any

from ..primitives.core.array import Tracer
from .program import Operand, Program, Variable, argument_type

__all__ = ["hoisted"]


def hoisted(program: Program) -> tuple[Program, list[Any]]:
    """Returns a program whose constants of outer transformations are inputs, and those values."""
    met: dict[int, tuple[Any, Variable]] = {}

    def moved(x: Operand) -> Operand:
        if not isinstance(x, Tracer):
            return x
        if id(x) not in met:
            met[id(x)] = x, Variable(argument_type(x), x.device)
        return met[id(x)][1]

    operands = [x for e in program.equations for x in e.operands if type(x) is not Variable]
    if not any(isinstance(x, Tracer) for x in (*operands, *program.outputs)):
        return program, []
    equations = []
    for e in program.equations:
        if any(isinstance(x, Tracer) for x in e.operands):
            e = e.with_operands([moved(x) for x in e.operands])
        equations.append(e)
    outputs = [moved(x) for x in program.outputs]
    inputs = [*program.inputs, *(variable for _, variable in met.values())]
    out = Program(program.name, inputs, equations, outputs, program.in_tree, program.out_tree)
    out.replaced = program.replaced
    return out, [value for value, _ in met.values()]
