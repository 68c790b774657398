"""The states that functions and objects among their arguments are in, call by call."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...tree import containers as tree
from ..nn.module import Module
from .looked_into import HIDDEN_KINDS, PLAIN_KINDS, is_looked_into
from .pictures import Picture

__all__ = ["MOST_STATES", "ChangeCount", "NoState", "WatchedCalls", "objects_in"]

# Plans for so many states of what is read beside arrays are tried, those of the latest first.
MOST_STATES = 8
# So many choices of objects among the arguments are known, those of the latest calls.
MOST_CHOICES = 64
# A plan is given up once it was made for so many states, each of which served few calls.
MOST_CHANGES, FEW_CALLS = 16, 4
ARRAY_CLASSES = Array, np.ndarray, np.generic
CHANGING_KINDS = list, dict, set, deque, *HIDDEN_KINDS
CALLABLES = FunctionType, MethodType, partial, Module


class NoState(Exception):
    """A function reads beside its arrays what cannot be compared, or changes too often."""


class ChangeCount:
    """Counts the calls of a plan, and those that found other values than the plans before."""

    __slots__ = ("calls", "changes")

    def __init__(self) -> None:
        self.calls = self.changes = 0

    def changed(self) -> bool:
        """Counts a change; says whether plans serve too few calls."""
        self.changes += 1
        return self.changes >= MOST_CHANGES and self.calls < FEW_CALLS * self.changes


class Seen:
    """A function and objects among its arguments, and the states that they were in.

    Args:
        values: these.
        whole: whether the function is among them, whose code names what it reads.
    """

    __slots__ = ("_count", "_last", "_states", "_values", "_whole")

    def __init__(self, values: Sequence[Any], whole: bool) -> None:
        self._whole = whole
        # Kept, so that no other object gets its id.
        self._values = values
        self._count = ChangeCount()
        self._last: tuple[Picture, object] | None = None
        self._states: list[tuple[Any, object]] = []

    def state(self) -> object:
        """Returns what stands for the state that they are in."""
        self._count.calls += 1
        if self._last is not None and self._last[0].is_as_it_was():
            return self._last[1]
        picture = Picture(all_names=not self._whole)
        look = [picture.of(x) for x in self._values], picture.of_named()
        if self._whole and (fault := picture.unseen()):
            raise NoState(fault)
        picture.keep()
        state = next((known for other, known in self._states if other == look), None)
        if state is None:
            if self._states and self._count.changed():
                what = "what it reads beside its arguments has changed again and again"
                raise NoState(f"{what}, and each plan serves one value of it")
            state = object()
            self._states = [(look, state), *self._states[: MOST_STATES - 1]]
        self._last = picture, state
        return state


class WatchedCalls:
    """Tells for each call in which state the function and the objects that it is given are.

    Args:
        values: the function, or nothing where the plan itself tells what it reads of objects.
    """

    def __init__(self, *values: Any) -> None:
        self._values = values
        self._seen: dict[tuple[int, ...], Seen] = {}

    def state(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Returns what stands for the state; None where there is nothing to watch.

        Raises:
            NoState: it cannot be compared, or has changed again and again.
        """
        objects = [*objects_in(args), *objects_in(kwargs.values())] if kwargs else objects_in(args)
        if not (objects or self._values):
            return None
        key = tuple(map(id, objects))
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= MOST_CHOICES:
                self._seen = dict([*self._seen.items()][1 - MOST_CHOICES :])
            seen = self._seen[key] = Seen((*self._values, *objects), bool(self._values))
        return seen.state()


def objects_in(values: Collection[Any]) -> list[Any]:
    """Returns the objects among arguments, and in their containers, that may come to differ."""
    found: list[Any] = []
    if all(is_constant(kind) for kind in {*map(type, values)}):
        return found
    for x in values:
        kind: Any = type(x)
        if is_constant(kind):
            continue
        if kind in (list, tuple):
            found += objects_in(x)
        elif kind is dict:
            found += objects_in(x.values())
        else:
            leaves = tree.leaves(x)
            alone = len(leaves) == 1 and leaves[0] is x
            found += leaves if alone else objects_in(leaves)
    return found


@lru_cache(maxsize=1024)
def is_constant(kind: Any) -> bool:
    """Says whether values of a type are arrays, or never differ from what they were."""
    if kind in PLAIN_KINDS or issubclass(kind, ARRAY_CLASSES):
        return True
    if kind in (list, tuple, dict) or issubclass(kind, CALLABLES):
        return False
    return not (is_looked_into(kind.__module__) or issubclass(kind, CHANGING_KINDS))
