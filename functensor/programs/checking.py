"""Whether a program is well formed: what every pass's output has to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..primitives.array import Array
from ..primitives.primitive import Primitive
from ..primitives.types import ShapeDtype
from .program import Equation, Program, Variable, type_of, used

__all__ = ["ProgramError", "check"]


class ProgramError(ValueError):
    """A program is not well formed: a pass that made it has a fault."""


def check(program: Program) -> None:
    """Checks that every variable is defined once and before it is used, with its type and device.

    The programs that calls run are checked too, and what a call proves of itself.

    Raises:
        ProgramError: an equation breaks that; the message names it.
    """
    defined = set(program.inputs)
    if len(defined) < len(program.inputs):
        raise ProgramError(f"{program.name}: two inputs are one variable")
    for number, equation in enumerate(program.equations):
        where = f"{program.name}: equation {number}, {equation.primitive.name},"
        if not defined.issuperset(used(equation.operands)):
            raise ProgramError(f"{where} uses an undefined variable")
        _check_types(equation, where)
        _check_devices(equation, where)
        for inner in bodies(equation.primitive):
            _check_within(inner, where)
        if hasattr(equation.primitive, "prove"):
            _prove(equation, where)
        if not defined.isdisjoint(equation.outputs):
            raise ProgramError(f"{where} defines a variable again")
        defined.update(equation.outputs)
    if not defined.issuperset(used(program.outputs)):
        raise ProgramError(f"{program.name}: an output is undefined")


def bodies(primitive: Any) -> Sequence[Program]:
    """Returns the programs that a call runs."""
    found: Sequence[Program] = getattr(primitive, "bodies", ())
    program = getattr(primitive, "program", None)
    if isinstance(program, Program) and program not in found:
        return [*found, program]
    return found


def _check_within(program: Program, where: str) -> None:
    try:
        check(program)
    except ProgramError as error:
        raise ProgramError(f"{where} runs what is not well formed: {error}") from None


def _prove(equation: Equation, where: str) -> None:
    try:
        equation.primitive.prove()
    except ProgramError as error:
        raise ProgramError(f"{where} {error}") from None


def _check_types(equation: Equation, where: str) -> None:
    types = [type_of(x) for x in equation.operands]
    primitive = equation.primitive
    if isinstance(primitive, Primitive):
        wanted = [primitive.infer(primitive, *types, **equation.params)]
    elif getattr(primitive, "infer", None) is not None:
        wanted = list(primitive.infer(*types))
    else:
        return
    got = [variable.type for variable in equation.outputs]
    if got != wanted:
        raise ProgramError(f"{where} gives {_listed(wanted)}, but is said to give {_listed(got)}")


def _check_devices(equation: Equation, where: str) -> None:
    """Checks that results lie where an array among the operands does, or where they are put."""
    primitive = equation.primitive
    if not isinstance(primitive, Primitive) or primitive.creates:
        return
    put = equation.params.get("device")
    arrays = [x for x in equation.operands if isinstance(x, (Variable, Array))]
    # Numbers of Python's go where arrays are.
    places = {put} if put else {x.device for x in arrays if type_of(x).weak is None}
    for variable in equation.outputs:
        if places and variable.device not in places:
            found = " and ".join(sorted(places))
            raise ProgramError(
                f"{where} gives what is on {found}, but is said to be on {variable.device}"
            )


def _listed(types: Sequence[ShapeDtype]) -> str:
    return ", ".join(map(str, types))
