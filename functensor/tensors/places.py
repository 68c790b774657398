"""Places of a view's elements in the memory of the tensor that it was taken from."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
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
    places = _places_in_root(x)
    return places is not None and bool(places.flags.c_contiguous)


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

    None where views take parts of complex numbers.
    """
    taken = []
    while (source := getattr(x, "_source", None)) is not None:
        taken.append(source)
        x = source[0]
    places = np.empty(x.shape, bool)
    for _, take, key, *_ in reversed(taken):
        if isinstance(take, Recast):
            return None
        places = _taken_places(places, itemgetter(key) if take is None else take)
    return places


def _taken_places(places: Any, take: Callable[[Any], Any]) -> Any:
    """Returns what a view takes of places, lying among them also where that is a copy."""
    with under(None):
        found = take(TAPE.wrap(places, None))._data
        if not found.size or np.may_share_memory(found, places):
            return found
        # A copy is small, and tells by the numbers of its elements where they lie.
        numbers = take(TAPE.wrap(np.arange(places.size).reshape(places.shape), None))._data
    first = np.unravel_index(numbers.flat[0], places.shape)
    steps = []
    for axis, n in enumerate(numbers.shape):
        following = np.moveaxis(numbers, axis, 0)[min(1, n - 1)].flat[0]
        ways = np.subtract(np.unravel_index(following, places.shape), first)
        steps.append(int(np.dot(ways, places.strides)))
    return as_strided(places[(*first, ...)], numbers.shape, steps)
