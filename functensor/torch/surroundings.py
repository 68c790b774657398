"""Values beside a call that it may change while it is staged: those that functions read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from functools import partial
from operator import is_
from types import CellType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

from ..functions.frozen_globals import globals_of
from .watched_values import MOST_ITEMS, MOST_VALUES, NOTHING_THERE, is_looked_into

__all__ = ["GIVEN_BACK", "Surroundings", "copied_items", "given_back"]

GIVEN_BACK = dict, list, set, deque
# What stands in a class beside numbers, texts and containers.
DESCRIPTORS = FunctionType, staticmethod, classmethod, property, MemberDescriptorType


class Surroundings:
    """All that functions of the user's close over and name, as it was, with what is in it.

    As many values are kept as pictures have, and of containers of as many items; tensors are not.

    Args:
        functions: the functions, or classes that have them.
    """

    def __init__(self, functions: Iterable[Any]) -> None:
        self._met: dict[int, Any] = {}
        # What returns a value now and what sets it, with the value as it was.
        self._places: list[tuple[Callable[[], Any], Callable[[Any], Any], Any]] = []
        self._copies: list[tuple[Any, Any]] = []
        waiting = deque(functions)
        while waiting and len(self._met) < MOST_VALUES:
            x = waiting.popleft()
            if id(x) not in self._met:
                self._met[id(x)] = x
                # Objects may refuse to be looked at.
                with suppress(Exception):
                    waiting.extend(self._within(x))

    def _within(self, x: Any) -> Iterable[Any]:
        """Keeps what is in a value, and returns it."""
        if isinstance(x, FunctionType):
            return self._within_function(x) if is_looked_into(x.__module__) else ()
        if isinstance(x, MethodType):
            return x.__self__, x.__func__
        if isinstance(x, partial):
            return x.func, x.args, x.keywords
        if isinstance(x, type):
            return self._within_class(x) if is_looked_into(x.__module__) else ()
        if isinstance(x, (staticmethod, classmethod)):
            return (x.__func__,)
        if isinstance(x, property):
            return x.fget, x.fset
        if type(x) is tuple:
            return x
        if isinstance(x, GIVEN_BACK):
            if len(x) > MOST_ITEMS:
                return ()
            self._copies.append((x, copied_items(x)))
            return [*x.values()] if isinstance(x, dict) else [*x]
        return (vars(x), type(x)) if is_of_a_users_class(x) else ()

    def _within_function(self, fun: FunctionType) -> Iterable[Any]:
        for cell in fun.__closure__ or ():
            self._place(partial(in_cell, cell), partial(setattr, cell, "cell_contents"))
        known = len(self._places) - len(fun.__closure__ or ())
        table = fun.__globals__
        for name, _ in globals_of(fun):
            self._place(partial(table.get, name, NOTHING_THERE), partial(table.__setitem__, name))
        return [value for *_, value in self._places[known:]]

    def _within_class(self, kind: type) -> Iterable[Any]:
        inner: list[Any] = [*kind.__bases__]
        for name, value in vars(kind).items():
            if not name.startswith("__"):
                inner.append(value)
                if not isinstance(value, DESCRIPTORS):
                    get = partial(vars(kind).get, name, NOTHING_THERE)
                    self._place(get, partial(setattr, kind, name))
            elif isinstance(value, FunctionType):
                inner.append(value)
        return inner

    def _place(self, get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        self._places.append((get, put, get()))

    def restore(self) -> bool:
        """Undoes what was changed; says whether something was."""
        changed = False
        for get, put, before in self._places:
            if get() is not before and before is not NOTHING_THERE:
                changed = True
                put(before)
        for x, before in self._copies:
            changed = given_back(x, before) or changed
        return changed


def copied_items(x: Any) -> Any:
    """Returns a copy of a container; of a set, whose copy has another order, a list."""
    return list(x) if isinstance(x, set) else copy(x)


def given_back(x: Any, before: Any) -> bool:
    """Gives a container the items of its copy again; says whether it had others."""
    if isinstance(x, dict):
        now, then = [*x, *x.values()], [*before, *before.values()]
    else:
        now, then = [*x], [*before]
    if len(now) == len(then) and all(map(is_, now, then)):
        return False
    x.clear()
    if isinstance(x, (list, deque)):
        x.extend(before)
    else:
        x.update(before)
    return True


def in_cell(cell: CellType) -> Any:
    """Returns what is in a cell, if there is something."""
    try:
        return cell.cell_contents
    except ValueError:
        return NOTHING_THERE


def is_of_a_users_class(x: Any) -> bool:
    """Says whether a value is an object of a class of the user's, with attributes."""
    return is_looked_into(type(x).__module__) and isinstance(getattr(x, "__dict__", None), dict)
