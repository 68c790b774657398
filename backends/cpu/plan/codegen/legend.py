"""The legend of a plan: the values of the names in its text, as comments behind the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from inspect import unwrap
from textwrap import fill
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors.words import described
from .called import unwrapped

if TYPE_CHECKING:
    from ..memory import KeptMemory

__all__ = ["legend", "value_text"]

COMMENT = re.compile("#.*")
# Names of the scope that stand for themselves.
PLAIN_NAMES = frozenset({"__builtins__", "__name__", "np"})
# The number of characters of a line of names.
LONGEST_LINE_OF_NAMES = 100
# Local names that are no variables of the program.
LOCAL_NAMES = {
    r"_all\d+": "operands with a value for every step",
    r"_range\d+": "the numbers of a counter",
    r"_steps?": "the numbers of steps",
    r"_holds": "whether there is another step",
    r"_(stack|rows)\d+": "the values of all steps",
    r"_(row|line)\d+": "the memory of a step among these",
    r"_total\d+": "sums over all steps",
    r"(?<=in )blocks": "numbers, beginnings and ends of blocks",
    r"whole_\w+": "operands of a region as they lie in its grid",
    r"(out|into)_\d+": "the memory of results, and a block of it",
    r"parts_\d+": "the reductions of every block",
    r"(memory|scratch|room)_\d+": "memory for the values of a block",
}


def legend(text: str, scope: Mapping[str, Any], kept: KeptMemory) -> str:
    """Returns a line for every constant, function and buffer that a text names."""
    functions, dtypes, lines = [], [], []
    for name, value in scope.items():
        if isinstance(value, np.dtype) and name.rstrip("_") == value.name:
            dtypes.append(name)
        elif name.startswith("np_") and value is getattr(np, name[3:], None):
            functions.append(name)
        elif name not in PLAIN_NAMES:
            lines.append(f"# {name} = {value_text(value)}")
    lines = [
        *names_line(functions, f"NumPy's function{'s' * (len(functions) > 1)}"),
        *names_line(dtypes, f"NumPy's dtype{'s' * (len(dtypes) > 1)}"),
        *lines,
    ]
    lines += [
        f"# {name} = {dtype}[{', '.join(map(str, shape))}], kept from call to call"
        for name, (_, shape, dtype) in kept.buffers.items()
    ]
    lines += [
        f"# {name} = {how.__name__}({base}, {argument!r})"
        for name, (base, how, argument) in kept.views.items()
    ]
    code = COMMENT.sub("", text)
    for pattern, meaning in LOCAL_NAMES.items():
        lines += names_line({found[0] for found in re.finditer(rf"\b{pattern}\b", code)}, meaning)
    return "".join(f"{line}\n" for line in ["", *lines])


def names_line(names: Collection[str], meaning: str) -> list[str]:
    """Returns the line about names of one meaning; none without names."""
    text = f"{', '.join(sorted(names))} = {meaning}"
    line = fill(text, LONGEST_LINE_OF_NAMES, initial_indent="# ", subsequent_indent="#   ")
    return [line] if names else []


def value_text(value: Any) -> str:
    """Returns a constant with its value if it is small, a function by where it is written."""
    if isinstance(getattr(value, "__module__", ""), tuple):
        return "machine code"  # The module of such a function is what holds the code.
    wide = unwrapped(value)
    if wide is not value:
        return f"{value_text(wide)}, of 16-bit dtypes in float32"
    if isinstance(value, partial):
        # Functions of primitives are computed by another one that is their first argument.
        return value_text(value.args[0] if value.args and callable(value.args[0]) else value.func)
    function: Callable[..., Any] = unwrap(value) if callable(value) else value
    if not isinstance(function, FunctionType) or "<" not in function.__qualname__:
        return described(function)
    line = function.__code__.co_firstlineno
    return f"the function at line {line} of {function.__module__}"
