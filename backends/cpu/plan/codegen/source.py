"""The text of a plan while it is being written, and the values of its global names."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....memory_search import called_apart
from .called import function_of, is_made_apart, is_numpy_function
from .operands import (
    LONGEST_VARIABLE_NAME,
    PYTHON_NUMBERS,
    RESERVED_NAMES,
    constant,
    is_variable,
    lettered_name,
)

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["Source"]

NO_WORD = re.compile(r"\W")
NUMPY_FUNCTION = re.compile(r"\bnp\.(\w+)")
# Beginnings of names that generated code has for other things; theirs end in digits or letters.
OWN_BEGINNINGS = "_", "whole_"


class Source:
    """Lines of Python, the equation that each is for, and the values of global names.

    Attributes:
        lines: the text, without comments.
        origins: for every line its equation, or None.
        names: the names of the program's variables.
        scope: the values of global names, the same in all threads.
        calls: the loops, choices and other calls, by their global names.
        indent: the spaces in front of the lines of a function.
    """

    indent = "    "

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.origins: list[EquationLike | None] = []
        self.names: dict[VariableLike, str] = {}
        # Messages know by the module's name that frames of plans are not the user's.
        self.scope: dict[str, Any] = {"__builtins__": builtins, "__name__": __name__, "np": np}
        self.calls: dict[str, Any] = {}
        self._bound: dict[int, str] = {}
        # The names of arrays without axes, by dtype and value.
        self._single: dict[tuple[Any, bytes], str] = {}
        # The number of names that begin alike.
        self._counts: dict[str, int] = {}
        self._kept: list[Any] = []

    def function(self, name: str, parameters: Sequence[str]) -> None:
        """Begins a function."""
        before = ["", ""] if self.lines else []
        self.lines += [*before, f"def {name}({', '.join(parameters)}):"]
        self.origins += [None] * (len(before) + 1)

    def add(self, line: str, equation: EquationLike | None = None) -> None:
        """Appends a line to the function's body; NumPy's functions become global names."""
        if "np." in line:
            line = NUMPY_FUNCTION.sub(lambda found: self.numpy(found[1]), line)
        self.lines.append(f"{self.indent}{line}")
        self.origins.append(equation)

    def name(self, variable: VariableLike) -> str:
        """Returns the name of a variable, a new one if it has none yet."""
        found = self.names.get(variable)
        if found is None:
            found = self.names[variable] = lettered_name(len(self.names))
        return found

    def function_name(
        self, equation: EquationLike, watched: bool = False, by_steps: bool = False
    ) -> str:
        """Returns the global name of what computes an equation on buffers.

        Args:
            equation: the equation.
            watched: whether it reports where NaN or infinity is made in bodies.
            by_steps: whether a loop may run its steps by machine code, one by one.
        """
        primitive = equation.primitive
        if primitive.impl is not None:
            return self.bind(*function_of(equation))
        steps = primitive.machine_steps() if by_steps else None
        function = primitive.reported_on_buffers if watched else primitive.on_buffers
        function = function if steps is None else steps
        if is_made_apart(equation):
            function = partial(called_apart, function)
        name = self.bind(function, primitive.name)
        self.calls[name] = primitive if steps is None else steps
        return name

    def bind(self, value: Any, name: str = "") -> str:
        """Returns a global name for a function, by default its own; one name for one object.

        NumPy's functions have ``np_`` in front. Others have an underscore where generated code may
        have the name for something else, and a number where another function has it already.
        """
        found = self._bound.get(id(value))
        if found is None and is_numpy_function(value):
            return self.numpy(value.__name__)
        if found is None:
            # Functions of users may be lambdas.
            name = NO_WORD.sub("_", name or value.__name__)
            if (
                len(name) <= LONGEST_VARIABLE_NAME
                or name in RESERVED_NAMES
                or name[-1].isdigit()
                or name.startswith(OWN_BEGINNINGS)
                or (name.startswith("np_") and hasattr(np, name[3:]))
                or hasattr(builtins, name)
            ):
                name += "_"
            count = self._counts[name] = self._counts.get(name, 0) + 1
            found = self._enter(value, name if count == 1 else f"{name}_{count}")
        return found

    def constant(self, value: Any, kind: str) -> str:
        """Returns a global name for a constant, of its kind and a number."""
        found = self._bound.get(id(value))
        if found is None:
            if isinstance(value, np.dtype) and value.name.isidentifier():
                # Python's functions keep their names.
                return self._enter(value, value.name + "_" * hasattr(builtins, value.name))
            single = type(value) is np.ndarray and not value.shape and value.dtype != object
            if single and (value.dtype, value.tobytes()) in self._single:
                return self._single[value.dtype, value.tobytes()]
            count = self._counts[kind] = self._counts.get(kind, -1) + 1
            found = self._enter(value, f"{kind}_{count}")
            if single:
                self._single[value.dtype, value.tobytes()] = found
        return found

    def flag(self, name: str) -> str:
        """Returns a global name for True: functions of C are quickest called by place alone."""
        self.scope[name] = True
        return name

    def _enter(self, value: Any, name: str) -> str:
        while name in self.scope:
            name += "_"
        self._bound[id(value)] = name
        self._kept.append(value)  # so that no other object gets its id
        self.scope[name] = value
        return name

    def numpy(self, name: str) -> str:
        """Returns a global name for a function of NumPy: no attribute is looked up in a call."""
        found = f"np_{name}"
        if found not in self.scope:
            self.scope[found] = getattr(np, name)
        return found

    def shown(self, x: Operand) -> str:
        """Returns the text of an operand: a name, or a number."""
        if is_variable(x):
            return self.names[x]
        value = constant(x)
        if type(value) in (int, bool):
            return repr(value) if value >= 0 else f"({value!r})"
        if type(value) is float and value - value == 0:
            return repr(value) if value >= 0 and str(value)[0] != "-" else f"({value!r})"
        return self.constant(value, "number" if type(value) in PYTHON_NUMBERS else "array")

    def static(self, value: Any) -> str:
        """Returns the text of a static parameter."""
        if value is None or type(value) is bool or type(value) is int:
            return repr(value)
        if type(value) is tuple and all(type(v) is int for v in value):
            return repr(value)
        return self.constant(value, "static")

    def inner(self) -> Source:
        """Returns a new text with variables of its own, for a function in the same scope."""
        made = Source()
        made.scope, made.calls, made._bound = self.scope, self.calls, self._bound
        made._kept, made._counts, made._single = self._kept, self._counts, self._single
        return made

    def within(self) -> Source:
        """Returns a new text for a part of this function; it knows the names around it."""
        made = self.inner()
        made.names = dict(self.names)
        made.indent = f"{self.indent}    "
        return made

    def put(self, part: Source) -> None:
        """Appends the text of a part of this function."""
        self.lines += part.lines
        self.origins += part.origins

    def take(self, inner: Source) -> None:
        """Appends the text of another function."""
        before = ["", ""] if self.lines else []
        self.lines += [*before, *inner.lines]
        self.origins += [*[None] * len(before), *inner.origins]

    def code(self) -> str:
        """Returns the lines as they are compiled, without comments, which take time to parse."""
        return "\n".join([*self.lines, ""])

    def text(self) -> str:
        """Returns the lines with the user's line behind that of every equation."""
        lines = [
            f"{line}  # {equation.line}" if equation is not None and equation.line else line
            for line, equation in zip(self.lines, self.origins, strict=True)
        ]
        return "\n".join([*lines, ""])
