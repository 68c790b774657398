"""Snapshots of a function's arguments and of the values that it closes over, for a second run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from types import CellType, FunctionType
from typing import Any

from numpy import ndarray

from ..backends.errors.public_functions import is_entry
from ..primitives.core.buffers import is_changeable
from ..primitives.core.bytecode import is_filled
from ..random.generator import noting_draws, repeating_draws
from ..random.key_stream import KeyStream

__all__ = ["Frozen"]

Copies = dict[int, Any]


class Frozen:
    """A call that can be done again, though loops go on and names come to stand for others.

    Functions among the values that the function closes over are remembered in the same way. Streams
    of keys are copied, so that they give the same keys, and generators give theirs again. Mixed
    precision of tensors is as it was.
    """

    def __init__(self, fun: Callable[..., Any], leaves: Sequence[Any]) -> None:
        copies: Copies = {}
        self._fun = frozen(fun, copies)
        self._leaves = _streams(leaves, copies)
        self._drawn: list[Any] = []
        # It is there where a program uses mixed precision.
        autocasting: Any = sys.modules.get("functensor.tensors.autocasting")
        self._casting = autocasting and autocasting.keeping_casts()

    def first(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, which notes what it draws from generators."""
        return noting_draws(fun, self._drawn)

    def again(self) -> tuple[Callable[..., Any], list[Any]]:
        """Returns the function, which draws the same, and the leaves."""
        copies: Copies = {}
        again = repeating_draws(frozen(self._fun, copies), self._drawn)
        again = self._casting(again) if self._casting else again
        return again, _streams(self._leaves, copies)


def _streams(leaves: Sequence[Any], copies: Copies) -> list[Any]:
    return [frozen(x, copies) if isinstance(x, KeyStream) else x for x in leaves]


def frozen(x: Any, copies: Copies) -> Any:
    """Returns a copy of a function that keeps its closure as it is now; other values themselves.

    Streams of keys, and arrays that may change, are copied too. ``copies`` are those that were made
    already, by the ids of the originals.
    """
    if isinstance(x, partial):
        args = [frozen(arg, copies) for arg in x.args]
        keywords = {name: frozen(arg, copies) for name, arg in x.keywords.items()}
        # A transformed function is one too, and keeps its name.
        bound = partial.__new__(type(x), frozen(x.func, copies), *args, **keywords)
        bound.__dict__.update(x.__dict__)
        return bound
    if id(x) in copies:
        return copies[id(x)]
    if isinstance(x, KeyStream):
        copies[id(x)] = copy(x)
    elif type(x) is ndarray and is_changeable(x):
        copies[id(x)] = x.copy()
        # So that it is copied once, however often the function runs again.
        copies[id(x)].flags.writeable = False
    elif isinstance(x, FunctionType) and x.__closure__:
        filled = [is_filled(cell) for cell in x.__closure__]
        # A name that is not defined yet will be found in the cell itself.
        cells = [CellType() if f else c for f, c in zip(filled, x.__closure__, strict=True)]
        made = FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, tuple(cells))
        made.__kwdefaults__ = x.__kwdefaults__
        made.__dict__.update(x.__dict__)
        copies[id(x)] = made
        for cell, old, f in zip(cells, x.__closure__, filled, strict=True):
            if f:
                cell.cell_contents = frozen(old.cell_contents, copies)
        if is_entry(x) and all(map(is_same_cell, cells, x.__closure__)):
            # A public function of functensor, whose names never change, is told by its identity.
            copies[id(x)] = x
    return copies.get(id(x), x)


def is_same_cell(a: CellType, b: CellType) -> bool:
    """Says whether two names stand for the same object."""
    return a.cell_contents is b.cell_contents
