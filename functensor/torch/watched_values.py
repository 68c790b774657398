"""Pictures of values that a plan took for constants, and a quick comparison at each later call.

A picture is equal to another if a function that reads both values does the same with them: numbers
and texts are alike by type and value, containers and objects by what is in them, functions by what
they close over and the globals that they read, classes and Python's modules by those attributes
that these functions name, and all else by identity.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from operator import attrgetter, call, is_
from pathlib import Path
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from numpy import generic

from ..backends.frames import is_users
from ..functions.alike import Weak
from ..functions.frozen_globals import names_in_code
from ..jitting.signature import exact
from ..primitives.core.buffers import ARRAY_TYPES
from ..tensors import Tensor
from .nn.module import Module

__all__ = [
    "DEEPEST",
    "MODULE_TABLES",
    "MOST_ITEMS",
    "MOST_VALUES",
    "NOTHING_THERE",
    "PLAIN_KINDS",
    "ChangeCount",
    "Picture",
    "Same",
    "is_looked_into",
]  # fmt: skip

PLAIN_KINDS = frozenset({type(None), bool, int, float, complex, str, bytes})
SEQUENCE_KINDS = list, tuple, set, frozenset, deque
# The folder of installed packages, whose functions are not looked into either.
INSTALLED = "site-packages"
# The attributes that modules have for themselves.
MODULE_TABLES = frozenset({
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks",
    "_backward_hooks", "_backward_pre_hooks", "_with_kwargs", "_state_hooks",
})  # fmt: skip
# Those of them that states are saved and loaded by.
NOT_CALLED = frozenset({"_non_persistent_buffers_set", "_state_hooks"})
# Longer containers, and what lies behind more values or deeper, count by identity alone. Modules
# and their tensors all count. So do containers where all together have more items.
MOST_ITEMS, MOST_VALUES, DEEPEST = 1_000, 2_000, 32
MOST_ITEMS_TOGETHER = 10_000
# A plan is given up once it was made for so many states, each of which served few calls.
MOST_CHANGES, FEW_CALLS = 16, 4
# Stands for what is not there.
NOTHING_THERE = object()
END_OF_VALUES = object()
# Python's own modules are not looked into, but for their namespaces, which hold settings.
NOT_LOOKED_INTO = sys.stdlib_module_names - {"__main__", "argparse", "types"}
PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})

contents = attrgetter("cell_contents")
code = attrgetter("__code__")
defaults = attrgetter("__defaults__")
keyword_defaults = attrgetter("__kwdefaults__")
version = attrgetter("_version")
data = attrgetter("_data")


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


@cache
def is_of_package(module: str) -> bool:
    """Says whether a module is in a folder of installed packages, which seldom change."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not PACKAGE_FOLDERS.isdisjoint(Path(file).parts)


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
        # The ids of what modules have for themselves, and how many values are nothing of modules.
        self._tables: set[int] = set()
        self._others = self._items = self._depth = 0
        self._views: list[Iterable[Any]] = []
        self._getters: list[Callable[[Any], Any]] = []
        self._names: list[str] = []
        self._cells: list[Any] = []
        self._tensors: list[Any] = []
        self._holders: list[Any] = []
        self._functions: list[Any] = []
        # Classes and modules, with the names that were looked at there, and all names in code.
        self._owners: dict[int, tuple[Any, set[str]]] = {}
        self._words: dict[str, None] = {}
        self._known: list[Any] = []

    def of(self, x: Any) -> Any:
        """Returns the picture of a value."""
        kind = type(x)
        if kind in PLAIN_KINDS:
            return exact(x)
        number = self._numbers.get(id(x))
        if number is not None:
            return Same, number
        of_module = isinstance(x, (Tensor, Module)) or id(x) in self._tables
        if self._depth >= DEEPEST or (self._others >= MOST_VALUES and not of_module):
            return Same(x)
        self._others += not of_module
        self._numbers[id(x)] = len(self._met)
        self._met.append(x)
        self._depth += 1
        try:
            return self._of_new(x)
        except Exception:
            # An object of a class of its own manner, or a reference to one that is gone.
            return Same(x)
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
        if isinstance(x, (*SEQUENCE_KINDS, dict)) and id(x) not in self._tables:
            if len(x) > min(MOST_ITEMS, MOST_ITEMS_TOGETHER - self._items):
                return Same(x), len(x)
            self._items += len(x)
        if isinstance(x, SEQUENCE_KINDS):
            if not isinstance(x, (tuple, frozenset)):
                self._views.append(x)
            inner += map(self.of, x)
            if isinstance(x, tuple) or kind in SEQUENCE_KINDS:
                return kind, *inner
        elif isinstance(x, dict):
            inner += self.of_table(x)
            if kind.__module__ in ("builtins", "collections"):
                return kind, *inner
        elif isinstance(x, generic):
            return kind, x.dtype, x.tobytes()
        if isinstance(x, ModuleType):
            self._note_owner(x, x.__name__)
            return Same(x)
        if isinstance(x, type):
            self.note_classes(x)
            return Same(x)
        if self._in_modules if isinstance(x, Module) else is_looked_into(kind.__module__):
            self.note_classes(kind)
            table = getattr(x, "__dict__", None)
            if isinstance(x, Module):
                inner += self._of_module(vars(x))
            elif isinstance(table, dict):
                inner += self.of_table(table)
            inner += [self.at(partial(slot_of, x), name) for name in slots_of(kind)]
        elif callable(x):
            inner.append(self.of(getattr(x, "__wrapped__", None)))
        return Same(x), *inner

    def _of_module(self, table: dict[str, Any]) -> Iterator[Any]:
        """Yields the pictures of a module's attributes, but for those that no call reads."""
        self._tables.update(id(table[name]) for name in MODULE_TABLES if name in table)
        self.watch_table(table)
        for name, value in table.items():
            yield name
            yield None if name in NOT_CALLED else self.of(value)

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

    def note_classes(self, kind: type) -> None:
        """Has the attributes of a class and of its bases looked at, as far as code names them."""
        for base in kind.__mro__:
            self._note_owner(base, base.__module__)

    def _note_owner(self, owner: Any, module: str) -> None:
        if is_looked_into(module) and not is_of_package(module):
            self._owners.setdefault(id(owner), (owner, set()))

    def of_named(self) -> list[Any]:
        """Returns the pictures of attributes of the classes and modules that were met.

        Those are looked at that the functions met name, and methods that nobody needs to name.
        """
        out: list[Any] = []
        while found := [
            (vars(owner), name)
            for owner, known in list(self._owners.values())
            for name in names_to_look_at(owner, self._words, known)
        ]:
            out += [(name, self.at(partial(table_entry, table), name)) for table, name in found]
        return out

    def _of_tensor(self, x: Any) -> Any:
        if id(x) in self._given:
            return Tensor, type(x), self._numbers[id(x)]
        self._tensors.append(x)
        buffer: Any = None if isinstance(type(x)._data, property) else x._data
        is_number = isinstance(buffer, generic)
        if not (is_number or type(buffer) in ARRAY_TYPES):
            return Same(x), x._version
        # What ``x.data = y`` has put there is of the same version.
        self._holders.append(x)
        return Same(x), x._version, buffer.tobytes() if is_number else Weak(buffer)

    def _of_function(self, x: FunctionType) -> Any:
        if INSTALLED in x.__code__.co_filename or not is_looked_into(x.__module__):
            return Same(x)
        out = [Same(x.__code__), self.of(x.__defaults__), self.of(x.__kwdefaults__)]
        for cell in x.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                out.append(NOTHING_THERE)
            else:
                self._cells.append(cell)
                out.append(self.of(value))
        self._functions.append(x)
        table, names = x.__globals__, names_in_code(x.__code__)
        self._words.update(dict.fromkeys(names))
        out += [self.at(table.get, name) for name in names if name in table]
        # Those that it imports itself.
        out += [self.of(sys.modules[n]) for n in names if n in sys.modules and is_looked_into(n)]
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
            map(code, self._functions),
            map(defaults, self._functions),
            map(keyword_defaults, self._functions),
            map(version, self._tensors),
            map(data, self._holders),
            (END_OF_VALUES,),
        )


def slots_of(kind: type) -> list[str]:
    """Returns the names of the slots of a class and of its bases."""
    tables = [vars(base) for base in kind.__mro__ if is_looked_into(base.__module__)]
    return [n for table in tables for n, x in table.items() if type(x) is MemberDescriptorType]


def slot_of(x: Any, name: str) -> Any:
    """Returns what a slot holds, which may be nothing."""
    return getattr(x, name, NOTHING_THERE)


def table_entry(table: Any, name: str) -> Any:
    """Returns what a table has under a name, which may be nothing."""
    return table.get(name, NOTHING_THERE)


def names_to_look_at(owner: Any, words: dict[str, None], known: set[str]) -> list[str]:
    """Returns names in a class or module that are among words, or of methods that nobody names.

    Those of a class's bases are among them, which one of its own would hide. Names that are known
    are left out, and the others are known from then on.
    """
    tables = [vars(x) for x in owner.__mro__] if isinstance(owner, type) else [vars(owner)]
    own = tables[0].items()
    called = [n for n, x in own if isinstance(x, FunctionType) and is_called_unnamed(n)]
    words_there = [name for name in words if any(name in table for table in tables)]
    names = [name for name in (*words_there, *called) if name not in known]
    known.update(names)
    return list(dict.fromkeys(names))


def is_called_unnamed(name: str) -> bool:
    """Says whether methods of a name are called by those who do not name it."""
    return name == "forward" or (name.startswith("__") and name.endswith("__"))


class ChangeCount:
    """Counts the calls of a plan, and those that found other values than the plans before."""

    __slots__ = ("calls", "changes")

    def __init__(self) -> None:
        self.calls = self.changes = 0

    def changed(self) -> bool:
        """Counts a change; says whether plans serve too few calls."""
        self.changes += 1
        return self.changes >= MOST_CHANGES and self.calls < FEW_CALLS * self.changes
