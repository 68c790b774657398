"""Pictures of values that a plan took for constants, and a quick comparison at each later call.

A picture is equal to another if a function that reads both values does the same with them: numbers
and texts are alike by type and value, containers and objects by what is in them, functions by what
they close over and the globals that they read, and all else by identity.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter, call, is_
from types import FunctionType, MethodType, ModuleType
from typing import Any

from numpy import generic

from ..backends.frames import is_users
from ..functions.frozen_globals import names_in
from ..jitting.signature import exact
from ..tensors import Tensor
from .nn.module import Module

__all__ = ["MISSING", "ChangeCount", "Picture", "is_looked_into"]

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
SEQUENCES = list, tuple, set, frozenset, deque
# Longer containers, and what lies behind more values or deeper, count by identity alone.
MOST_ITEMS, MOST_VALUES, DEEPEST = 1_000, 2_000, 32
# A plan is given up once it was made for so many states, each of which served few calls.
MOST_CHANGES, FEW_CALLS = 16, 4
# Stands for what is not there.
MISSING = object()
END = object()
# Python's own modules are not looked into, but for their namespaces, which hold settings.
NOT_LOOKED_INTO = sys.stdlib_module_names - {"__main__", "argparse", "types"}

contents = attrgetter("cell_contents")
version = attrgetter("_version")


class Same:
    """A value in a picture that is alike to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def is_looked_into(module: str | None) -> bool:
    """Says whether functions and objects of classes of a module are more than their identity."""
    name = module or ""
    return is_users(name) and name.partition(".")[0] not in NOT_LOOKED_INTO


class Picture:
    """Takes pictures, and keeps what it has met to tell quickly that all is as it was.

    Args:
        given: the ids of tensors that are arguments of the plan, whose values it does not keep.
        in_modules: whether all that is in a module counts, and not its identity alone.
    """

    def __init__(self, given: Iterable[int] = (), in_modules: bool = True) -> None:
        self._given = frozenset(given)
        self._in_modules = in_modules
        self._numbers: dict[int, int] = {}
        # What is met stays, so that no other value gets its id.
        self._met: list[Any] = []
        self._depth = 0
        self._views: list[Iterable[Any]] = []
        self._getters: list[Callable[[Any], Any]] = []
        self._names: list[str] = []
        self._cells: list[Any] = []
        self._tensors: list[Any] = []
        self._known: list[Any] = []

    def of(self, x: Any) -> Any:
        """Returns the picture of a value."""
        kind = type(x)
        if kind in PLAIN:
            return exact(x)
        number = self._numbers.get(id(x))
        if number is not None:
            return Same, number
        if len(self._met) >= MOST_VALUES or self._depth >= DEEPEST:
            return Same(x)
        self._numbers[id(x)] = len(self._met)
        self._met.append(x)
        self._depth += 1
        try:
            return self._of_new(x)
        finally:
            self._depth -= 1

    def _of_new(self, x: Any) -> Any:
        """Returns the picture of a value that was not met before."""
        kind = type(x)
        if isinstance(x, Tensor):
            return self._of_tensor(x)
        if kind is FunctionType:
            return self._of_function(x)
        if kind is MethodType:
            return MethodType, self.of(x.__self__), self.of(x.__func__)
        if isinstance(x, partial):
            return partial, self.of(x.func), self.of(x.args), self.of(x.keywords)
        if kind in (staticmethod, classmethod):
            return kind, self.of(x.__func__)
        if kind is property:
            return property, self.of(x.fget)
        return self._of_object(x)

    def _of_object(self, x: Any) -> Any:
        """Returns the picture of a container, a module or another object."""
        kind = type(x)
        inner: list[Any] = []
        if isinstance(x, (*SEQUENCES, dict)) and len(x) > MOST_ITEMS:
            return Same(x), len(x)
        if isinstance(x, SEQUENCES):
            if not isinstance(x, (tuple, frozenset)):
                self._views.append(x)
            inner += map(self.of, x)
            if isinstance(x, tuple) or kind in SEQUENCES:
                return kind, *inner
        elif isinstance(x, dict):
            inner += self.of_table(x)
            if kind.__module__ in ("builtins", "collections"):
                return kind, *inner
        elif isinstance(x, generic):
            return kind, x.dtype, x.tobytes()
        if isinstance(x, (type, ModuleType)):
            return Same(x)
        if self._in_modules if isinstance(x, Module) else is_looked_into(kind.__module__):
            table = getattr(x, "__dict__", None)
            inner += self.of_table(table) if isinstance(table, dict) else ()
        elif callable(x):
            inner.append(self.of(getattr(x, "__wrapped__", None)))
        return Same(x), *inner

    def of_table(self, table: dict[Any, Any]) -> Iterator[Any]:
        """Yields the pictures of the keys and values of a dictionary."""
        self.watch_table(table)
        for key, value in dict.items(table):
            yield self.of(key)
            yield self.of(value)

    def watch_table(self, table: dict[Any, Any]) -> None:
        """Has the keys and values of a dictionary compared."""
        self._views += [dict.keys(table), dict.values(table)]

    def at(self, get: Callable[..., Any], name: str) -> Any:
        """Returns the picture of what a dictionary has under a name, given its method ``get``."""
        self._getters.append(get)
        self._names.append(name)
        return self.of(get(name))

    def _of_tensor(self, x: Any) -> Any:
        if id(x) in self._given:
            return Tensor, type(x), self._numbers[id(x)]
        self._tensors.append(x)
        return Same(x), x._version

    def _of_function(self, x: FunctionType) -> Any:
        if not is_looked_into(x.__module__):
            return Same(x)
        out = [Same(x.__code__), self.of(x.__defaults__), self.of(x.__kwdefaults__)]
        for cell in x.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                out.append(MISSING)
            else:
                self._cells.append(cell)
                out.append(self.of(value))
        table = x.__globals__
        out += [self.at(table.get, name) for name in names_in(x.__code__) if name in table]
        return *out, self.of(vars(x))

    # -- comparison

    def keep(self) -> None:
        """Remembers the values that were met as they are now."""
        self._known = [*self._now()]

    def is_as_it_was(self) -> bool:
        """Says whether all that was met is the same object, with the same contents."""
        try:
            return all(map(is_, self._now(), self._known))
        except (RuntimeError, ValueError):
            # A cell is empty, or another thread changes a container.
            return False

    def _now(self) -> Iterator[Any]:
        return chain(
            chain.from_iterable(self._views),
            map(call, self._getters, self._names),
            map(contents, self._cells),
            map(version, self._tensors),
            (END,),
        )


class ChangeCount:
    """Counts the calls of a plan, and those that found other values than the plans before."""

    __slots__ = ("calls", "changes")

    def __init__(self) -> None:
        self.calls = self.changes = 0

    def changed(self) -> bool:
        """Counts a change; says whether plans serve too few calls."""
        self.changes += 1
        return self.changes >= MOST_CHANGES and self.calls < FEW_CALLS * self.changes
