"""Globals of functions as they were, for runs in which names stand for others.

At the top of a script or a notebook all variables are globals, those of loops too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ..backends.frames import is_users
from ..primitives.core.bytecode import stores_globals

__all__ = ["KeptGlobals", "globals_of", "names_in_code", "reads_values"]

# Python itself asks for these, or imports and messages do.
ALWAYS = "__builtins__", "__name__", "__package__", "__spec__", "__loader__", "__file__"
# What names like these stand for seldom changes.
STAYING = ModuleType, type, BuiltinFunctionType
# A function that reads more functions, directly or not, reads its globals late.
MOST_FUNCTIONS = 16
# Functions, and what may hold some.
HOLDERS = FunctionType, list, set, dict


class KeptGlobals(dict[str, Any]):
    """Some globals of a function as they were; all others are looked up in the module.

    Args:
        fun: the function.
    """

    __slots__ = ("_fun",)

    def __init__(self, fun: FunctionType) -> None:
        super().__init__()
        self._fun = fun
        module = fun.__globals__
        self.update((name, module[name]) for name in ALWAYS if name in module)

    def __missing__(self, name: str) -> Any:
        return self._fun.__globals__[name]

    def fill(self, inner: Callable[[Any], Any]) -> None:
        """Takes the globals as they are now; ``inner`` returns what does later what one does."""
        for name, value in globals_of(self._fun):
            kept = isinstance(value, HOLDERS) or changes_by_use(value) or keeps_functions(value)
            self[name] = inner(value) if kept else value


def changes_by_use(value: Any) -> bool:
    """Says whether a value is another one after each use, as a stream of keys is."""
    return getattr(type(value), "copied_with_closures", False)


def keeps_functions(value: Any) -> bool:
    """Says whether a value's class has attributes with functions."""
    return bool(getattr(type(value), "kept_functions", ()))


def reads_values(fun: FunctionType) -> bool:
    """Says whether a function of the user's, or one that it reads, reads values among globals.

    Functions that assign to globals, as counters do, are left out. Of those that keep theirs only
    values count that change by use. Left out are all that read many others, too, as each of these
    would be copied.
    """
    found, met, waiting = False, {id(fun)}, [fun] if may_keep_globals(fun) else []
    while waiting:
        reader = waiting.pop()
        kept = type(reader.__globals__) is KeptGlobals
        for _, value in globals_of(reader):
            if not isinstance(value, FunctionType):
                found = found or (changes_by_use(value) if kept else not isinstance(value, STAYING))
            elif id(value) not in met and may_keep_globals(value):
                met.add(id(value))
                waiting.append(value)
        if len(met) > MOST_FUNCTIONS:
            return False
    return found


def may_keep_globals(fun: FunctionType) -> bool:
    """Says whether a function is one of the user's that assigns to no globals."""
    return is_users(fun.__module__ or "") and not stores_globals(fun.__code__)


def globals_of(fun: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the globals that a function's code names, and their values."""
    table = fun.__globals__
    return ((name, table[name]) for name in names_in_code(fun.__code__) if name in table)


@lru_cache(maxsize=1024)
def names_in_code(code: CodeType) -> tuple[str, ...]:
    """Returns all names in code, and in code within it, of globals and of attributes."""
    inner = [names_in_code(x) for x in code.co_consts if isinstance(x, CodeType)]
    return tuple(dict.fromkeys(chain(code.co_names, *inner)))
