"""The text of a plan while it is being written, and what its names stand for."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .operands import PYTHON_NUMBERS, constant, is_variable, lettered_name

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["Source"]

NO_WORD = re.compile(r"\W")


class Source:
    """Lines of Python, the equation that each is for, and the values of global names.

    Attributes:
        lines: the text, without comments.
        origins: for every line its equation; None where it belongs to none.
        names: the names of the program's variables.
        scope: the values of global names, the same in all threads.
        indent: what stands in front of a function's lines.
    """

    indent = "    "

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.origins: list[EquationLike | None] = []
        self.names: dict[VariableLike, str] = {}
        # By the module's name messages know that the plan's frames are not the user's.
        self.scope: dict[str, Any] = {"__builtins__": builtins, "__name__": __name__, "np": np}
        self._bound: dict[int, str] = {}
        self._kept: list[Any] = []

    def function(self, name: str, parameters: Sequence[str]) -> None:
        """Begins a function."""
        if self.lines:
            self.lines += ["", ""]
            self.origins += [None, None]
        self.lines.append(f"def {name}({', '.join(parameters)}):")
        self.origins.append(None)

    def add(self, line: str, equation: EquationLike | None = None) -> None:
        """Appends a line to the function's body."""
        self.lines.append(f"{self.indent}{line}")
        self.origins.append(equation)

    def name(self, variable: VariableLike) -> str:
        """Returns the name of a variable, which is new where it has none yet."""
        found = self.names.get(variable)
        if found is None:
            found = self.names[variable] = lettered_name(len(self.names))
        return found

    def bind(self, value: Any, prefix: str) -> str:
        """Returns a global name for a value; the same one for the same object."""
        found = self._bound.get(id(value))
        if found is None:
            # Calls have the names of functions, which may be those of lambdas.
            found = f"{NO_WORD.sub('_', prefix)}_{len(self._bound)}"
            self._bound[id(value)] = found
            self._kept.append(value)  # so that no other object gets its id
            self.scope[found] = value
        return found

    def numpy(self, name: str) -> str:
        """Returns a global name for a function of NumPy, which need not be looked up there."""
        found = f"np_{name}"
        if found not in self.scope:
            self.scope[found] = getattr(np, name)
        return found

    def shown(self, x: Operand) -> str:
        """Returns an operand as it is written: a name, or a number."""
        if is_variable(x):
            return self.names[x]
        value = constant(x)
        if type(value) in (int, bool):
            return repr(value) if value >= 0 else f"({value!r})"
        if type(value) is float and value - value == 0:
            return repr(value) if value >= 0 and str(value)[0] != "-" else f"({value!r})"
        return self.bind(value, "number" if type(value) in PYTHON_NUMBERS else "array")

    def static(self, value: Any) -> str:
        """Returns a static parameter as it is written."""
        if value is None or type(value) is bool or type(value) is int:
            return repr(value)
        if type(value) is tuple and all(type(v) is int for v in value):
            return repr(value)
        return self.bind(value, "static")

    def inner(self) -> Source:
        """Returns the text of a function of its own variables beside it, in the same scope."""
        made = Source()
        made.scope, made._bound, made._kept = self.scope, self._bound, self._kept
        return made

    def within(self) -> Source:
        """Returns the text of a part of a function: it knows the names around it."""
        made = self.inner()
        made.names = dict(self.names)
        made.indent = f"{self.indent}    "
        return made

    def put(self, part: Source) -> None:
        """Appends the lines of a part of the function."""
        self.lines += part.lines
        self.origins += part.origins

    def take(self, inner: Source) -> None:
        """Appends another text."""
        if self.lines:
            self.lines += ["", ""]
            self.origins += [None, None]
        self.lines += inner.lines
        self.origins += inner.origins

    def code(self) -> str:
        """Returns all of it, as it is compiled: comments take their time too."""
        return "\n".join([*self.lines, ""])

    def text(self) -> str:
        """Returns all of it, the user's line behind every equation's."""
        lines = [
            f"{line}  # {equation.line}" if equation is not None and equation.line else line
            for line, equation in zip(self.lines, self.origins, strict=True)
        ]
        return "\n".join([*lines, ""])
