"""Pictures of values that a plan took for constants, and a quick comparison at each later call.

A picture is equal to another if a function that reads both values does the same with them: numbers
and texts are alike by type and value, containers, arrays and objects by what is in them, functions
by what they close over and the globals that they read, classes and Python's modules by those
attributes that these functions name, and all else by identity.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter, call, is_
from types import FunctionType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from ...functions.alike import Weak
from ...functions.frozen_globals import names_in_code
from ...jitting.signature import exact
from ...primitives.core.buffers import ARRAY_TYPES, is_changeable
from ...tensors import Tensor
from ..nn.module import Module
from ..optim.optimizer import Optimizer
from .looked_into import (
    MODULE_TABLES,
    NOTHING_THERE,
    PLAIN_KINDS,
    ArrayElements,
    Same,
    is_hidden,
    is_looked_into,
    is_of_package,
    said_of_hidden,
)

__all__ = ["MOST_BYTES", "MOST_VALUES", "Picture"]

SEQUENCE_KINDS = list, tuple, set, frozenset, deque
CONTAINER_KINDS = *SEQUENCE_KINDS, dict
ARRAYS_OF_NUMPY = np.ndarray, np.memmap
EMPTIED_KINDS = frozenset({list, set, dict, OrderedDict})
# The folder of installed packages, whose functions are not looked into either.
INSTALLED = "site-packages"
# Those of them that states are saved and loaded by.
NOT_CALLED = frozenset({"_non_persistent_buffers_set", "_state_hooks"})
# So many values and items of containers are looked at, beside modules and their tensors, and so
# many bytes of arrays: 100,000 items take 2.5 ms to compare, and 16 MB as long.
MOST_VALUES, MOST_BYTES = 100_000, 16_000_000
# So many values of attributes that no code names, which only libraries may read.
MOST_UNNAMED = 2_000
TOO_MANY = f"it reads more than {MOST_VALUES:,} values"
# Modules whose objects users hold and change, as schedulers of learning rates.
OURS_WITH_STATE = f"{__package__.partition('.')[0]}.torch.optim."
# Names of what reads attributes that code does not name.
READS_ANY = frozenset({"getattr", "vars", "__dict__", "asdict", "astuple", "attrgetter"})
READS_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
END_OF_VALUES = object()
contents = attrgetter("cell_contents")
code = attrgetter("__code__")
defaults = attrgetter("__defaults__")
keyword_defaults = attrgetter("__kwdefaults__")
version = attrgetter("_version")
data = attrgetter("_data")


class Picture:
    """Takes pictures, and keeps what it has met to tell quickly that all is as it was.

    Args:
        given: the ids of tensors that are arguments of the plan, whose values it does not keep.
        in_modules: whether all that is in a module counts, and not its identity alone.
        all_names: whether attributes of classes count that no code names which is met.

    Attributes:
        words: all names in the code of functions.
        tables, sequences: the dictionaries and other containers that were met.
        places: what has a name, what returns its value, and the name.
        cells: the variables of functions.
        functions: these.
        arrays: arrays of NumPy, with their elements.
        caches: the functions that keep their results, as those of `functools.cache`.
        owners: classes and modules by their ids, with the names that were looked at there.
    """

    def __init__(
        self, given: Iterable[int] = (), in_modules: bool = True, all_names: bool = False
    ) -> None:
        self._all_names = all_names
        self._given = frozenset(given)
        self._in_modules = in_modules
        self._numbers: dict[int, int] = {}
        # What is met stays, so that no other value gets its id.
        self._met: list[Any] = []
        # What is still to be looked at, with the name of the attribute that led there.
        self._waiting: deque[tuple[Any, str]] = deque()
        # The same of attributes that no code names which was met by then.
        self._later: deque[tuple[Any, str]] = deque()
        # The numbers of values with the attributes that led there, and what is said of those
        # values that cannot be compared.
        self._ways: list[tuple[int, str]] = []
        self._unseen: dict[int, str] = {}
        self._bytes = MOST_BYTES
        # How many values are still looked at: those under names that code has, and others.
        self._room = {True: MOST_VALUES, False: MOST_UNNAMED}
        # The ids of what modules have for themselves.
        self._own: set[int] = set()
        self.tables: list[Any] = []
        self.sequences: list[Any] = []
        self.words: dict[str, None] = {}
        # Those of functions that do not make objects, where all attributes have names.
        self._words_of_calls: set[str] = set()
        self._reads_any = False
        self.places: list[tuple[Any, Callable[[str], Any], str]] = []
        self.cells: list[Any] = []
        self.functions: list[Any] = []
        self.arrays: list[tuple[Any, ArrayElements]] = []
        self.caches: list[Any] = []
        self.owners: dict[int, tuple[Any, set[str]]] = {}
        self._tensors: list[Any] = []
        self._holders: list[Any] = []
        # What is compared: containers that were empty, views of others, and what these held.
        self._empty: list[Any] = []
        self._views: list[Any] = []
        self._getters: tuple[Any, ...] = ()
        self._names: tuple[str, ...] = ()
        self._known: list[Any] = []

    def of(self, x: Any, name: str = "") -> list[Any]:
        """Returns the picture of a value, and of all that it leads to and was not met before.

        Args:
            x: the value.
            name: that of the attribute it is, which counts where code names it; empty if it is
                read.
        """
        return self._with_all(self._sign(x, name))

    def of_entry(self, owner: Any, name: str) -> list[Any]:
        """Returns the picture of what a class or a module has under a name itself."""
        return self._with_all(self._at(owner, partial(table_entry, vars(owner)), name))

    def unseen(self, named: bool = False) -> str:
        """Returns what is said of a value that code may read and that cannot be compared.

        Empty where there is none.

        Args:
            named: whether attributes that no code names are not read.
        """
        for number, name in self._ways if self._unseen else ():
            known = not name or name in self._words_of_calls or (self._reads_any and not named)
            if known and number in self._unseen:
                return self._unseen[number]
        return ""

    def _is_named(self, name: str) -> bool:
        """Says whether code may read what an attribute of a name leads to; it may without one."""
        any_name = self._reads_any or self._all_names
        return not name or any_name or name in self._words_of_calls

    def _with_all(self, sign: Any) -> list[Any]:
        look = [sign]
        while self._waiting:
            look.append(self._inside(*self._waiting.popleft()))
        return look

    def _sign(self, x: Any, name: str) -> Any:
        """Returns what stands for a value, which is looked at later."""
        if type(x) in PLAIN_KINDS:
            return exact(x)
        number = self._numbers.get(id(x))
        if number is None:
            number = self._numbers[id(x)] = len(self._met)
            self._met.append(x)
            (self._waiting if self._is_named(name) else self._later).append((x, name))
        self._ways.append((number, name))
        return Same, number

    def _signs(self, values: Iterable[Any], name: str) -> list[Any]:
        return [self._sign(x, name) for x in values]

    def _inside(self, x: Any, name: str) -> Any:
        """Returns the picture of what is in a value."""
        if not (isinstance(x, (Tensor, Module)) or id(x) in self._own or self._has_room(1, name)):
            return self._not_seen(x, TOO_MANY)
        try:
            return self._parts(x, name)
        except Exception:
            # An object of a class of its own manner, or a reference to one that is gone.
            return Same(x)

    def _has_room(self, count: int, name: str) -> bool:
        """Says whether so many more values are looked at, under a name; they count as that."""
        named = self._is_named(name)
        fits = count <= self._room[named]
        self._room[named] -= count if fits else 0
        return fits

    def _not_seen(self, x: Any, text: str) -> Same:
        self._unseen[self._numbers[id(x)]] = text
        return Same(x)

    def _parts(self, x: Any, name: str) -> Any:
        kind = type(x)
        if isinstance(x, Tensor):
            return self._of_tensor(x)
        if kind is FunctionType:
            return self._of_function(x)
        if kind is MethodType:
            return MethodType, *self._signs((x.__self__, x.__func__), name)
        if isinstance(x, partial):
            return partial, *self._signs((x.func, x.args, x.keywords), name)
        if kind in (staticmethod, classmethod):
            return kind, self._sign(x.__func__, name)
        if kind is property:
            return property, *self._signs((x.fget, x.fset), name)
        if kind is ref:
            return ref, self._sign(x(), name)
        if isinstance(x, CONTAINER_KINDS):
            return self._of_container(x, name)
        if kind is MappingProxyType:
            self._views += [x.keys(), x.values()]
            return kind, *self._signs(x.keys(), name), *self._signs(x.values(), name)
        if isinstance(x, np.generic):
            return kind, x.dtype, x.tobytes()
        if isinstance(x, np.ndarray) or kind in ARRAY_TYPES:
            return self._of_array(x)
        if isinstance(x, ModuleType):
            self._note_owner(x, x.__name__)
            return Same(x)
        if isinstance(x, type):
            self.note_classes(x)
            self.note_classes(kind)
            return Same(x)
        return Same(x), *self._of_object(x, name)

    def _of_container(self, x: Any, name: str) -> Any:
        kind = type(x)
        if not (id(x) in self._own or self._has_room(len(x), name)):
            return self._not_seen(x, TOO_MANY)
        inner: list[Any] = []
        if isinstance(x, dict):
            self.tables.append(x)
            for key, value in dict.items(x):
                inner += self._sign(key, name), self._sign(value, name)
        else:
            if not isinstance(x, (tuple, frozenset)):
                self.sequences.append(x)
            inner = self._signs(x, name)
        if isinstance(x, tuple) or kind.__module__ in ("builtins", "collections"):
            return kind, *inner
        return Same(x), *inner, *self._of_object(x, name)

    def _of_object(self, x: Any, name: str) -> Iterator[Any]:
        """Yields the pictures of an object's attributes."""
        kind = type(x)
        if isinstance(x, Module):
            if self._in_modules:
                self.note_classes(kind)
                yield from self._of_module(vars(x))
        elif is_looked_into(kind.__module__):
            self.note_classes(kind)
            if isinstance(table := getattr(x, "__dict__", None), dict):
                yield from self._of_attributes(table)
            for slot in slots_of(kind):
                yield self._at(x, partial(slot_of, x), slot, slot)
        elif isinstance(x, Optimizer):
            yield self._sign(x.param_groups, name)
        elif is_hidden(x):
            yield self._not_seen(x, said_of_hidden(x))
        elif callable(x):
            if hasattr(x, "cache_info"):
                self.caches.append(x)
            # What it wraps, or the object whose method it is.
            yield self._sign(getattr(x, "__wrapped__", getattr(x, "__self__", None)), name)
        elif kind.__module__.startswith(OURS_WITH_STATE):
            yield from self._of_attributes(vars(x))

    def _of_module(self, table: dict[str, Any]) -> Iterator[Any]:
        """Yields the pictures of a module's attributes, but for those that no call reads."""
        self._own.update(id(table[name]) for name in MODULE_TABLES if name in table)
        self.tables.append(table)
        for name, value in table.items():
            yield name
            shown = "" if name in MODULE_TABLES else name
            yield None if name in NOT_CALLED else self._sign(value, shown)

    def _of_attributes(self, table: dict[str, Any]) -> Iterator[Any]:
        """Yields the names and the pictures of an object's attributes."""
        self.tables.append(table)
        for name, value in dict.items(table):
            yield name
            yield self._sign(value, name)

    def _at(self, owner: Any, get: Callable[[str], Any], name: str, shown: str = "") -> Any:
        self.places.append((owner, get, name))
        return self._sign(get(name), shown)

    def note_classes(self, kind: type) -> None:
        """Has the attributes of a class and of its bases looked at, as far as code names them."""
        for base in kind.__mro__:
            self._note_owner(base, base.__module__)

    def _note_owner(self, owner: Any, module: str) -> None:
        if is_looked_into(module) and not is_of_package(module):
            self.owners.setdefault(id(owner), (owner, set()))

    def of_named(self) -> list[Any]:
        """Returns the pictures of attributes of the classes and modules that were met.

        Those are looked at that the functions met name, and methods that nobody needs to name.
        """
        out: list[Any] = []
        while True:
            found = [
                (owner, name)
                for owner, known in list(self.owners.values())
                for name in names_to_look_at(owner, self._names_for_classes(), known)
            ]
            out += [(name, self.of_entry(owner, name)) for owner, name in found]
            if not found:
                if not self._later:
                    return out
                self._waiting, self._later = self._later, deque()
                out.append(self._with_all(None))

    def _names_for_classes(self) -> Iterable[str] | None:
        return None if self._all_names or self._reads_any else self.words

    def _of_tensor(self, x: Any) -> Any:
        if id(x) in self._given:
            return Tensor, type(x), self._numbers[id(x)]
        self._tensors.append(x)
        buffer: Any = x._data
        is_number = isinstance(buffer, np.generic)
        if not (is_number or type(buffer) in ARRAY_TYPES):
            return Same(x), x._version
        # What ``x.data = y`` has put there is of the same version, and so is what the owner of an
        # array writes whose memory it shares.
        self._holders.append(x)
        return Same(x), x._version, buffer.tobytes() if is_number else Weak(buffer)

    def _of_array(self, x: Any) -> Any:
        if not is_changeable(x):
            return Same(x)
        if type(x) not in ARRAYS_OF_NUMPY:
            # One on a device, or with a mask, for instance.
            return self._not_seen(x, said_of_hidden(x))
        self._bytes -= x.nbytes
        if self._bytes < 0 or x.dtype.hasobject:
            what = "of objects" if x.dtype.hasobject else f"of more than {MOST_BYTES:,} bytes"
            return self._not_seen(x, f"it reads arrays of NumPy {what}, which may change")
        elements = ArrayElements(x)
        self.arrays.append((x, elements))
        return Same(x), elements

    def _of_function(self, x: FunctionType) -> Any:
        if INSTALLED in x.__code__.co_filename or not is_looked_into(x.__module__):
            return Same(x)
        out: list[Any] = self._signs((x.__defaults__, x.__kwdefaults__), "")
        for cell in x.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                out.append(NOTHING_THERE)
            else:
                self.cells.append(cell)
                out.append(self._sign(value, ""))
        if "globals" in names_in_code(x.__code__):
            return self._not_seen(x, "it calls globals(), all of which may change")
        self.functions.append(x)
        table, names = x.__globals__, names_in_code(x.__code__)
        self.words.update(dict.fromkeys(names))
        if x.__name__ != "__init__":
            self._words_of_calls.update(names)
            self._reads_any = self._reads_any or not READS_ANY.isdisjoint(names)
        out += [self._at(table, table.get, name) for name in names if name in table]
        # Those that it imports itself.
        imported = [sys.modules[n] for n in names if n in sys.modules and is_looked_into(n)]
        out += self._signs(imported, "")
        if not READS_ENVIRONMENT.isdisjoint(names):
            out.append(self._sign(os.environ._data, ""))  # type: ignore[attr-defined]
        return Same(x.__code__), *out, self._sign(vars(x), "")

    # -- comparison

    def keep(self) -> None:
        """Remembers the values that were met as they are now."""
        for x in (*self.tables, *self.sequences):
            if type(x) in EMPTIED_KINDS and not x:
                self._empty.append(x)
            else:
                self._views += [dict.keys(x), dict.values(x)] if isinstance(x, dict) else [x]
        self._getters = tuple([get for _, get, _ in self.places])
        self._names = tuple([name for *_, name in self.places])
        self._known = [*self._now()]

    def is_as_it_was(self) -> bool:
        """Says whether all that was met is the same object, with the same contents."""
        try:
            return (
                not any(self._empty)
                and all(map(is_, self._now(), self._known))
                and (not self.arrays or all(elements.are_of(x) for x, elements in self.arrays))
            )
        except (RuntimeError, ValueError):
            # A cell is empty, or another thread changes a container.
            return False

    def _now(self) -> Iterator[Any]:
        return chain(
            chain.from_iterable(self._views),
            map(call, self._getters, self._names),
            map(contents, self.cells),
            map(code, self.functions),
            map(defaults, self.functions),
            map(keyword_defaults, self.functions),
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


def names_to_look_at(owner: Any, words: Iterable[str] | None, known: set[str]) -> list[str]:
    """Returns names in a class or module that are among words, or of methods that nobody names.

    Without words all count, but for what a module's own code is.

    Those of a class's bases are among them, which one of its own would hide. Names that are known
    are left out, and the others are known from then on.
    """
    tables = [vars(x) for x in owner.__mro__] if isinstance(owner, type) else [vars(owner)]
    own = tables[0].items()
    called = [n for n, x in own if isinstance(x, FunctionType) and is_called_unnamed(n)]
    if words is None:
        inner = tables[:-1] if isinstance(owner, type) else tables
        words = [n for x in inner for n in x if not n.startswith("__") and is_read(owner, x[n])]
    words_there = [name for name in words if any(name in table for table in tables)]
    names = [name for name in (*words_there, *called) if name not in known]
    known.update(names)
    return list(dict.fromkeys(names))


def is_read(owner: Any, value: Any) -> bool:
    """Says whether a value in a class, or in a module, is one that others read by its name."""
    return isinstance(owner, type) or not isinstance(value, (FunctionType, ModuleType, type))


def is_called_unnamed(name: str) -> bool:
    """Says whether methods of a name are called by those who do not name it."""
    return name == "forward" or (name.startswith("__") and name.endswith("__"))
