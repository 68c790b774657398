"""Copies of functions that keep what they close over, for runs in which names stand for others."""

from __future__ import annotations

from copy import copy
from functools import partial
from operator import is_
from types import CellType, FunctionType
from typing import Any
from weakref import WeakValueDictionary

from numpy import ndarray

from ..backends.errors.public_functions import is_entry
from ..primitives.core.buffers import is_changeable, same_bits
from ..primitives.core.bytecode import assigned_names, closed_over, is_filled, written_names
from .alike import CONSTANTS
from .frozen_globals import KeptGlobals, globals_of, reads_values

__all__ = ["Copies", "frozen"]

Copies = dict[int, Any]
# Methods that put values into containers.
CHANGING = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
# The last copies of arrays, by the ids of these. One serves as long as its array is as it was.
last_copies: WeakValueDictionary[int, ndarray[Any, Any]] = WeakValueDictionary()


def frozen(x: Any, copies: Copies, in_place: bool = False, workspace: bool = False) -> Any:
    """Returns a copy of a function that keeps what it reads as it is now; other values themselves.

    That is its closure, and the globals of the user's module, unless it assigns to some. Arrays and
    objects among globals stay the same, but for streams of keys and objects that keep functions.

    Streams of keys, and arrays that may change, are copied too. So are tuples of such values, other
    containers with functions, which may be found there, and objects that keep functions, such as
    those with rules of their own: their classes say in which attributes, ``kept_functions``.

    Args:
        x: the function, or a value that one closes over.
        copies: those that were made already, by the ids of the originals.
        in_place: whether it runs in the place of the original. What that changes is changed then:
            variables that it assigns to and elements of arrays that it writes to, as a function
            that counts its calls, its attributes, and streams of keys.
        workspace: whether it may write to the arrays that it closes over, so that they are not
            copied.
    """
    inner = partial(frozen, copies=copies, in_place=in_place, workspace=workspace)
    if isinstance(x, partial):
        args = [inner(arg) for arg in x.args]
        keywords = {name: inner(arg) for name, arg in x.keywords.items()}
        # A transformed function is one too, and keeps its name.
        bound = partial.__new__(type(x), inner(x.func), *args, **keywords)
        bound.__dict__.update(x.__dict__)
        return bound
    if id(x) in copies:
        return copies[id(x)]
    if type(x) is tuple:
        parts = tuple([part if type(part) in CONSTANTS else inner(part) for part in x])
        return x if all(map(is_, parts, x)) else parts
    if getattr(type(x), "copied_with_closures", False):
        if not in_place:
            copies[id(x)] = copy(x)
    elif names := getattr(type(x), "kept_functions", ()):
        copies[id(x)] = made = copy(x)
        for name in names:
            setattr(made, name, inner(getattr(x, name)))
    elif type(x) is ndarray and is_changeable(x):
        if not workspace:
            copies[id(x)] = copy_of(x)
    elif closures_in(x):
        copies[id(x)] = made = copy(x)
        made.clear()
        if isinstance(made, dict):
            made.update((inner(key), inner(value)) for key, value in x.items())
        else:
            (made.extend if isinstance(made, list) else made.update)(map(inner, x))
    elif isinstance(x, FunctionType):
        table = KeptGlobals(x) if reads_values(x) else None
        if table is None and not x.__closure__:
            return x
        if in_place or not CHANGING.isdisjoint(x.__code__.co_names) or written_names(x.__code__):
            # It may put functions into containers, and finds those that are there.
            met = [] if table is None else [value for _, value in globals_of(x)]
            for value in (*met, *closed_over(x).values()):
                for kept in (value, *found) if (found := closures_in(value)) else ():
                    copies.setdefault(id(kept), kept)
        closure = x.__closure__ or ()
        filled = [is_filled(cell) for cell in closure]
        if in_place:
            assigned = assigned_names(x.__code__)
            variables = zip(filled, x.__code__.co_freevars, strict=True)
            filled = [f and name not in assigned for f, name in variables]
            written = written_names(x.__code__)
            for name, value in closed_over(x).items() if written else ():
                # Other functions are to see what is written to it, or to a part of it.
                while name in written and type(value) is ndarray:
                    copies[id(value)] = value
                    value = value.base
        # A name that is not defined yet will be found in the cell itself.
        cells = [CellType() if f else c for f, c in zip(filled, closure, strict=True)]
        names = x.__globals__ if table is None else table
        made = FunctionType(x.__code__, names, x.__name__, x.__defaults__, tuple(cells))
        made.__kwdefaults__ = x.__kwdefaults__
        if in_place:
            made.__dict__ = x.__dict__
        else:
            made.__dict__.update(x.__dict__)
        copies[id(x)] = made
        if table is not None:
            table.fill(inner)
        for cell, old, f in zip(cells, closure, filled, strict=True):
            if f:
                cell.cell_contents = inner(old.cell_contents)
        if is_entry(x) and all(map(is_same_cell, cells, closure)):
            # A public function of functensor, whose names never change, is told by its identity.
            copies[id(x)] = x
    return copies.get(id(x), x)


def closures_in(x: Any) -> list[FunctionType]:
    """Returns the functions that a list, a set or a dictionary holds."""
    if type(x) not in (list, set, dict):
        return []
    values = [*x, *x.values()] if isinstance(x, dict) else x
    return [value for value in values if isinstance(value, FunctionType)]


def copy_of(x: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Returns a copy of an array, which nobody changes: the last one, if that is still the same."""
    last = last_copies.get(id(x))
    if last is not None and is_same(last, x):
        return last
    made = last_copies[id(x)] = x.copy()
    # So that it is copied once, however often the function runs again.
    made.flags.writeable = False
    return made


def is_same(x: ndarray[Any, Any], y: ndarray[Any, Any]) -> bool:
    """Says whether two arrays have the same shape, dtype and bits."""
    alike = x.shape == y.shape and x.dtype == y.dtype and not x.dtype.hasobject
    return alike and same_bits(x, y)


def is_same_cell(a: CellType, b: CellType) -> bool:
    """Says whether two names stand for the same object."""
    return a.cell_contents is b.cell_contents
