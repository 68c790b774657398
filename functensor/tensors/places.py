"""Places of a view's elements in the memory of the tensor that it was taken from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..primitives.core.trace import under
from .tape import TAPE

if TYPE_CHECKING:
    from ..primitives.core.array import Tracer

__all__ = ["Recast", "lies_in_order", "repeats", "steps_in_memory", "would_share_memory"]


class Recast:
    """Takes a view whose elements are not elements of its base, but what these are made of."""

    __slots__ = ()

    def __call__(self, x: Tracer) -> Any:
        """Returns the view of a tensor."""
        raise NotImplementedError

    def put(self, x: Any, value: Any) -> Any:
        """Returns the value of a tensor whose view has another value."""
        raise NotImplementedError

    def of_array(self, x: Any) -> Any:
        """Returns the view of a NumPy array."""
        raise NotImplementedError


def repeats(x: Any) -> bool:
    """Says whether a view is taken of what repeats elements, which is a copy here."""
    while (source := getattr(x, "_source", None)) is not None:
        if x.numel() > source[0].numel() and not isinstance(source[1], Recast):
            return True
        x = source[0]
    return False


def lies_in_order(x: Any) -> bool:
    """Says whether the elements of a tensor would lie in order in memory.

    What was computed does; a view lies where it was taken.
    """
    if repeats(x):
        places = _places_in_root(x)
        return places is not None and bool(places.flags.c_contiguous)
    found = _of_root(x, lambda root: np.empty(root.shape, bool))
    return found is not None and bool(found.flags.c_contiguous)


def steps_in_memory(x: Any) -> tuple[int, ...] | None:
    """Returns how many elements would lie between those of a view; None where that is not known."""
    places = _places_in_root(x)
    return None if places is None else places.strides


def would_share_memory(base: Any, take: Callable[[Any], Any]) -> bool:
    """Says whether a result would lie in the memory of a view, if that repeated elements there."""
    places = _places_in_root(base)
    if places is None:
        return False
    with under(None):
        taken = take(TAPE.wrap(places, None))
    return np.may_share_memory(taken._data, places)


def _places_in_root(x: Any) -> Any:
    """Returns an array of one byte each that lies as a view would, if that repeated elements there.

    None where that is not known.
    """
    places = _of_root(x, _element_numbers)
    if places is None:
        return None
    if not places.size:
        return np.empty(places.shape, bool)
    first = int(places[(0,) * places.ndim])
    steps = [
        int(places[(0,) * axis + (1,) + (0,) * (places.ndim - axis - 1)]) - first if n > 1 else 0
        for axis, n in enumerate(places.shape)
    ]
    last = first + sum([step * (n - 1) for step, n in zip(steps, places.shape) if step > 0])
    return as_strided(np.empty(last + 1, bool)[first:], places.shape, steps)


def _element_numbers(x: Any) -> Any:
    """Returns the numbers of a tensor's elements, in an array of its shape."""
    count = x.numel()
    return np.arange(count, dtype=np.int32 if count < 2**31 else np.int64).reshape(x.shape)


def _of_root(x: Any, made: Callable[[Any], Any]) -> Any:
    """Returns what views take of an array that is made in place of the tensor that they view.

    None where they take parts of complex numbers.
    """
    taken = []
    while (source := getattr(x, "_source", None)) is not None:
        taken.append(source)
        x = source[0]
    with under(None):
        y = TAPE.wrap(made(x), None)
        for _, take, key, *_ in reversed(taken):
            if isinstance(take, Recast):
                return None
            y = y[key] if take is None else take(y)
    return y._data
