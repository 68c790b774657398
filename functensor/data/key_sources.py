"""Sources of random keys for the orders of examples, one key for each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..primitives.core.trace import under
from ..random.generator import Generator, default_generator
from ..random.keys import RandomKey, checked_key, fold_in, key

__all__ = ["EpochKeys", "KeySource", "Randomness", "key_of_words", "key_source", "words_of_key"]


class KeySource(Protocol):
    """A source of keys, which can go on from an earlier state."""

    def next_key(self) -> Any: ...
    def get_state(self) -> tuple[Any, ...]: ...
    def set_state(self, new_state: Any) -> Any: ...


# A generator, a key, or the seed of one; None is the default generator.
Randomness: TypeAlias = Generator | RandomKey | int | None


def words_of_key(random_key: Any) -> list[int]:
    """Returns a key as two Python integers."""
    return [int(word) for word in np.asarray(random_key)]


def key_of_words(words: Sequence[int]) -> Any:
    """Returns the key of two integers."""
    low, high = words
    return key(int(low) + (int(high) << 64))


class EpochKeys:
    """The keys of epochs, each made of one key and the number of the epoch."""

    def __init__(self, start: RandomKey | int) -> None:
        whole = isinstance(start, int | np.integer)
        self._key = key(int(start)) if whole else checked_key(start)  # type: ignore[arg-type]
        self._epoch = 0

    def next_key(self) -> Any:
        """Returns the next epoch's key."""
        with under(None):
            found = fold_in(self._key, self._epoch)
        self._epoch += 1
        return found

    def get_state(self) -> tuple[Any, ...]:
        """Returns the key's words, and how many epochs there were."""
        return words_of_key(self._key), self._epoch

    def set_state(self, new_state: Any) -> None:
        """Goes on from a state that `get_state` returned."""
        self._key, self._epoch = key_of_words(new_state[0]), int(new_state[1])


def key_source(randomness: Randomness) -> KeySource:
    """Returns the source that a sampler's user means."""
    if randomness is None:
        return default_generator
    return randomness if isinstance(randomness, Generator | EpochKeys) else EpochKeys(randomness)
