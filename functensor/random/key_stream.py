"""A source of fresh keys for code that draws many."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from ..backends.annotations import ShapeLike
from ..primitives.core.array import Array
from ..primitives.random.bits import STREAMED
from .keys import RandomKey, checked_key, shape_of_draws, words
from .keys import key as key_of

__all__ = ["KeyStream"]

# Threads that draw from one stream take turns, so that no two get the same key.
ONE_DRAW_AT_A_TIME = Lock()


class KeyStream:
    """Gives a fresh key at every call: the one thing here that has a state, its position.

    Args:
        key: a key, or the seed of one.

    The n-th key, counted from 0, depends on the first key and n alone. A copy, or a
    stream from a pickle, continues at the same position: with the same keys as the original.

    A transformation runs its function once: a stream from outside of it gives one key for all
    examples of ``vmap``, and a staged program holds the key as a constant; make the stream within
    the function, ``KeyStream(key)`` of a key that is its argument, for keys of its own.

    >>> from functensor import random
    >>> keys = random.KeyStream(0)
    >>> x, y = random.normal(keys()), random.normal(next(keys))
    >>> keys(3).shape, keys
    ((3, 2), KeyStream(key(0), position=5))
    """

    __slots__ = ("_key", "_position")
    # A function that runs again, or later, has the keys of its first run.
    copied_with_closures = True

    def __init__(self, key: RandomKey | int | np.integer[Any] = 0) -> None:
        self._key = key_of(key) if isinstance(key, int | np.integer) else checked_key(key)
        self._position = 0

    def __call__(self, num: ShapeLike | None = None) -> Array:
        """Returns the next key; or, of shape ``(num, 2)`` or ``(*num, 2)``, the next keys.

        Args:
            num: how many keys, or the shape of an array of them; None for a single one.
        """
        shape = () if num is None else shape_of_draws(num)
        number = 1
        for length in shape:
            number *= length
        with ONE_DRAW_AT_A_TIME:
            start = self._position
            self._position += number
        # A key is the first half of a block of its own.
        blocks = words(self._key, (*shape, 4), 64, STREAMED, start=start, use=False)
        return blocks[..., :2]

    def __next__(self) -> Array:
        return self()

    def __iter__(self) -> KeyStream:
        return self

    def __getstate__(self) -> tuple[RandomKey, int]:
        return self._key, self._position

    def __setstate__(self, state: tuple[RandomKey, int]) -> None:
        self._key, self._position = state

    def __repr__(self) -> str:
        return f"KeyStream({_shown_key(self._key)}, position={self._position})"


def _shown_key(key: RandomKey) -> str:
    try:
        low, high = key.tolist()
    except TypeError:
        return repr(key)
    return f"key({low + (high << 64)})"
