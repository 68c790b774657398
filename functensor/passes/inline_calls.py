"""Replaces calls by the equations of their programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..primitives.core.registry import registry
from ..primitives.identities import checkpoint_name
from ..programs.named_scope import joined_scope
from ..programs.program import Equation, Program, Variable, type_of, with_replaced

__all__ = ["inlined"]


def inlined(program: Program) -> Program:
    """Returns a program in which calls that have a ``program`` are replaced by its equations.

    Functions with a rule of their own and checkpointed ones are such calls; their rules are lost,
    so that only what nothing differentiates any more may be inlined. So are the names of values,
    which are for derivatives only. Calls with ``bodies`` stay: what loops and branches do is
    planned by itself.

    Args:
        program: any program; programs within programs are inlined too.

    >>> import functensor as ft, functensor.numpy as np
    >>> double = ft.custom_jvp(lambda x: x + x)
    >>> _ = double.defjvp(lambda xs, ts: (double(*xs), 2 * ts[0]))
    >>> program = ft.make_program(double)(np.ones(2))
    >>> [equation.primitive.name for equation in inlined(program).equations]
    ['add']
    """
    if not any(
        primitive is checkpoint_name or primitive.program is not None
        for primitive in program.primitives()
    ):
        return program
    if not any(_is_named(equation) or _body(equation) for equation in program.equations):
        return program
    equations: list[Equation] = []
    known: dict[Variable, Any] = {}
    _append(program.equations, known, equations)
    return program.with_equations(equations, with_replaced(program.outputs, known))


def _is_named(equation: Equation) -> bool:
    """Says whether an equation does no more than give a value a name."""
    return (
        equation.primitive is checkpoint_name
        and type_of(equation.operands[0]) == equation.outputs[0].type
    )


def _body(equation: Equation) -> Program | None:
    """Returns the program that computes a call, if it takes and returns what the call does."""
    body: Program | None = equation.primitive.program
    if body is None or equation.primitive.bodies:
        return None
    given = [type_of(x) for x in equation.operands]
    wanted = [variable.type for variable in body.inputs]
    made = [(type_of(x).shape, type_of(x).dtype) for x in body.outputs]
    said = [(variable.type.shape, variable.type.dtype) for variable in equation.outputs]
    return body if given == wanted and made == said else None


def _append(
    source: Sequence[Equation], known: dict[Variable, Any], equations: list[Equation]
) -> None:
    """Adds equations whose operands are looked up among what is known."""
    for equation in source:
        if _is_named(equation):
            (known[equation.outputs[0]],) = with_replaced(equation.operands, known)
            continue
        body = _body(equation)
        if body is None:
            equations.append(equation.over(known))
            continue
        inner: dict[Variable, Any] = dict(
            zip(body.inputs, with_replaced(equation.operands, known), strict=True)
        )
        _append([_renamed(part, inner, equation) for part in body.equations], inner, equations)
        for variable, out in zip(equation.outputs, body.outputs, strict=True):
            # The result of a call within it has taken another variable's place.
            (value,) = with_replaced(with_replaced([out], inner), inner)
            if type_of(value) == variable.type:
                known[variable] = value
                continue
            # A weak scalar leaves a call as an array.
            params = {"dtype": variable.type.dtype}
            equations.append(equation.by(registry["astype"], [value], params, [variable]))


def _renamed(equation: Equation, inner: dict[Variable, Any], call: Equation) -> Equation:
    """Returns an equation with variables of its own, since a program may be inlined twice."""
    outputs = [Variable(v.type, v.device) for v in equation.outputs]
    operands = with_replaced(equation.operands, inner)
    inner.update(zip(equation.outputs, outputs, strict=True))
    line, scope = equation.line or call.line, joined_scope(call.scope, equation.scope)
    return Equation(equation.primitive, operands, equation.params, outputs, line, scope)
