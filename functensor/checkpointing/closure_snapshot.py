"""Snapshots of what a function closes over and is given, taken when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from types import CellType, FunctionType
from typing import Any

from numpy import ndarray

from ..primitives.core.buffers import is_changeable
from ..primitives.core.bytecode import is_filled
from ..random.key_stream import KeyStream

__all__ = ["Frozen"]

Copies = dict[int, Any]


class Frozen:
    """A call that can be done again, though loops go on and names come to stand for others.

    What the function closes over is remembered, of functions too. Streams of keys are where they
    were, so that they give the same keys.

    Args:
        fun: the function.
        leaves: its arguments' leaves.
    """

    def __init__(self, fun: Callable[..., Any], leaves: Sequence[Any]) -> None:
        copies: Copies = {}
        self._fun = frozen(fun, copies)
        self._leaves = _streams(leaves, copies)

    def again(self) -> tuple[Callable[..., Any], list[Any]]:
        """Returns the function and the leaves."""
        copies: Copies = {}
        return frozen(self._fun, copies), _streams(self._leaves, copies)


def _streams(leaves: Sequence[Any], copies: Copies) -> list[Any]:
    return [frozen(x, copies) if isinstance(x, KeyStream) else x for x in leaves]


def frozen(x: Any, copies: Copies) -> Any:
    """Returns a copy of a function that keeps what it closes over now; other values as they are.

    Args:
        x: a function, a stream of keys, or any value.
        copies: what was copied already, by the ids of the originals.
    """
    if isinstance(x, partial):
        args = [frozen(arg, copies) for arg in x.args]
        keywords = {name: frozen(arg, copies) for name, arg in x.keywords.items()}
        # A transformed function is one too, and keeps its name.
        bound = partial.__new__(type(x), frozen(x.func, copies), *args, **keywords)
        bound.__dict__.update(x.__dict__)
        return bound
    if isinstance(x, KeyStream):
        if id(x) not in copies:
            copies[id(x)] = copy(x)
        return copies[id(x)]
    if type(x) is ndarray and is_changeable(x):
        if id(x) not in copies:
            copies[id(x)] = x.copy()
            # So that it is copied once, however often the function runs again.
            copies[id(x)].flags.writeable = False
        return copies[id(x)]
    if not isinstance(x, FunctionType) or not x.__closure__:
        return x
    if id(x) not in copies:
        filled = [is_filled(cell) for cell in x.__closure__]
        # What is not defined yet will be found in the cell itself.
        cells = [CellType() if f else c for f, c in zip(filled, x.__closure__, strict=True)]
        made = FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, tuple(cells))
        made.__kwdefaults__ = x.__kwdefaults__
        made.__dict__.update(x.__dict__)
        copies[id(x)] = made
        for cell, old, f in zip(cells, x.__closure__, filled, strict=True):
            if f:
                cell.cell_contents = frozen(old.cell_contents, copies)
    return copies[id(x)]
