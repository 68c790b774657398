"""Values as they were before a call was staged, which may change them: they are given back."""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from ...random.generator import default_generator
from ..graph_breaks import UNSTAGED, SurroundingsChanged
from .looked_into import NOTHING_THERE
from .outside_calls import without_outside_calls
from .pictures import Picture

__all__ = ["undone"]

KINDS_OF_CONTAINERS = OrderedDict, dict, list, set, deque
FUNCTION_PARTS = "__code__", "__defaults__", "__kwdefaults__"


def undone(picture: Picture, call: Callable[[], Any]) -> Any:
    """Returns what a call returns that changes nothing of what a picture has met.

    Raises:
        SurroundingsChanged: it has changed something, which is given back.
    """
    before = Before(picture)
    try:
        out = without_outside_calls(picture.words, call)
    except Exception as error:
        # Run as it is, it raises its own error behind its changes.
        if before.restore() and not isinstance(error, UNSTAGED):
            raise SurroundingsChanged("it changes values beside its arguments") from error
        raise
    except BaseException:
        before.restore()
        raise
    if before.restore():
        raise SurroundingsChanged("it changes values beside its arguments")
    return out


class Before:
    """All that a picture has met, as it is now: containers, variables, attributes and arrays.

    So are the states of Python's, NumPy's and our generators of random numbers. Tensors are not.

    Args:
        picture: the picture.
    """

    def __init__(self, picture: Picture) -> None:
        parts = [(x, name) for x in picture.functions for name in FUNCTION_PARTS]
        parts += [(x, "cell_contents") for x in picture.cells]
        # What has a name, what returns its value, the name, and the value.
        self._places: list[tuple[Any, ...]] = [
            (owner, get, name, found(get, name))
            for owner, get, name in (
                *picture.places,
                *[(x, partial(getattr, x), name) for x, name in parts],
            )
        ]
        # Namespaces of classes and modules, to which names may come that code has.
        spaces = [(owner, vars(owner)) for owner, _ in picture.owners.values()]
        spaces += [(x.__globals__, x.__globals__) for x in picture.functions]
        words = picture.words.keys()
        self._spaces = [(owner, table, words - table.keys()) for owner, table in spaces]
        self._copies = [(x, items(x)) for x in (*picture.tables, *picture.sequences)]
        self._arrays = picture.arrays
        self._misses = [(x, x.cache_info().misses) for x in picture.caches]
        self._random, self._numpy = random.getstate(), numpy_state()
        self._tensors = default_generator.get_state()

    def restore(self) -> bool:
        """Undoes what was changed; says whether something was."""
        changed = False
        for owner, get, name, before in self._places:
            if found(get, name) is not before:
                changed = True
                put_back(owner, name, before)
        for owner, table, absent in self._spaces:
            for name in absent.intersection(table):
                changed = True
                put_back(owner, name, NOTHING_THERE)
        for x, before in self._copies:
            changed = given_back(x, before) or changed
        for x, elements in self._arrays:
            if not elements.are_of(x):
                changed = True
                elements.put_into(x)
        for x, misses in self._misses:
            if x.cache_info().misses != misses:
                # It may keep values that belong to the plan alone.
                changed = True
                x.cache_clear()
        return self._redraw() or changed

    def _redraw(self) -> bool:
        """Sets generators back that have drawn, or have other seeds; says whether some had."""
        drawn = random.getstate() != self._random
        if drawn:
            random.setstate(self._random)
        if default_generator.get_state() != self._tensors:
            drawn = True
            default_generator.set_state(self._tensors)
        now = numpy_state()
        if pickle.dumps(now) != pickle.dumps(self._numpy):
            np.random.set_state(self._numpy)  # noqa: NPY002 - users may draw from it
            return True
        return drawn


def numpy_state() -> Any:
    """Returns the state of NumPy's global generator."""
    return np.random.get_state(legacy=False)  # noqa: NPY002 - users may draw from it


def found(get: Any, name: str) -> Any:
    """Returns the value of a name, which may have none."""
    try:
        return get(name)
    except (AttributeError, ValueError):
        return NOTHING_THERE


def put_back(owner: Any, name: str, value: Any) -> None:
    """Puts a value under a name in a dictionary or an object; takes the name away for none."""
    if isinstance(owner, dict):
        if value is NOTHING_THERE:
            del owner[name]
        else:
            owner[name] = value
    elif value is NOTHING_THERE:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def items(x: Any) -> list[Any]:
    """Returns the items of a container, of a dictionary its keys with their values."""
    return [*dict.items(x)] if isinstance(x, dict) else [*x]


def given_back(x: Any, before: list[Any]) -> bool:
    """Gives a container the items that it had; says whether it has others."""
    now = items(x)
    if isinstance(x, dict):
        same = all(a is c and b is d for (a, b), (c, d) in zip(now, before))
    else:
        same = all(map(is_, now, before))
    if same and len(now) == len(before):
        return False
    # Not by methods of its own class, which may count, or note changes.
    kind: Any = next(kind for kind in KINDS_OF_CONTAINERS if isinstance(x, kind))
    kind.clear(x)
    (kind.extend if kind in (list, deque) else kind.update)(x, before)
    return True
