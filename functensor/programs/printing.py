"""How programs are printed."""

from __future__ import annotations

from typing import Any

from ..primitives.array import Tracer
from ..primitives.errors import describe
from ..primitives.types import shape_dtype
from .program import Equation, Program, Variable

__all__ = ["printed"]

INDENT = "    "


def printed(program: Program, lines: bool = False) -> str:
    """Returns the text of a program: what it takes, an equation a line, what it returns.

    Args:
        program: the program.
        lines: whether the user's lines and scopes are shown behind the equations.
    """
    names: dict[Any, str] = {}
    for variable in program.inputs:
        names[variable] = _letters(len(names))
    signature = ", ".join(f"{names[v]}: {v.type}{_place(v)}" for v in program.inputs)
    text = [f"{program.name}({signature}):"]
    for equation in program.equations:
        text += _equation(equation, names, lines)
    text.append(f"{INDENT}return " + ", ".join(_shown(x, names) for x in program.outputs))
    return "\n".join(text)


def _equation(equation: Equation, names: dict[Any, str], lines: bool) -> list[str]:
    for variable in equation.outputs:
        names[variable] = _letters(len(names))
    defined = ", ".join(f"{names[v]}: {v.type}{_place(v)}" for v in equation.outputs)
    used = ", ".join(_shown(x, names) for x in equation.operands)
    given = {key: value for key, value in equation.params.items() if value is not None}
    static = "".join(f", {key}={value}" for key, value in given.items())
    line = f"{INDENT}{defined} = {equation.primitive.name}({used}{static})"
    scope = f"scope {equation.scope}" if equation.scope else ""
    if lines and (equation.line or scope):
        line += "  # " + ", ".join(filter(None, [equation.line, scope]))
    inner = [
        INDENT + INDENT + text
        for body in getattr(equation.primitive, "bodies", ())
        for text in printed(body, lines).splitlines()
    ]
    return [line, *inner]


def _place(variable: Variable) -> str:
    return "" if variable.device == "cpu" else f"@{variable.device}"


def _shown(x: Any, names: dict[Any, str]) -> str:
    """Returns how an operand is printed: a name, a number, or a constant's type."""
    if type(x) is Variable:
        return names[x]
    known = shape_dtype(x)
    return str(x) if known.shape == () and not isinstance(x, Tracer) else f"<{describe(x)}>"


def _letters(number: int) -> str:
    """Returns a, b, ..., z, ba, bb, ...: numbers of base 26 in letters."""
    name = chr(ord("a") + number % 26)
    while number >= 26:
        number //= 26
        name = chr(ord("a") + number % 26) + name
    return name
