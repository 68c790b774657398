"""The generators that PyTorch's functions draw from: each counts out random keys."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ... import random

__all__ = ["Generator", "default_generator", "initial_seed", "manual_seed", "seed"]


class Generator:
    """A source of random keys, the next at every draw; several threads may share one.

    Args:
        device: has no effect: keys are the same everywhere.

    >>> import functensor.torch as torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> a = torch.randn(2, generator=generator)
    >>> b = torch.randn(2, generator=generator.manual_seed(0))
    >>> torch.equal(a, b)
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = str(device)
        self._lock = threading.Lock()
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Begins anew with a seed, and returns the generator."""
        with self._lock:
            self._seed, self._draws = int(seed), 0
            self._key = random.key(self._seed % 2**63)
        return self

    def seed(self) -> int:
        """Begins anew with a seed of the system's, and returns it."""
        chosen = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """Returns the seed that draws began with."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """Returns the seed, and how many draws there were since."""
        return self._seed, self._draws

    def set_state(self, new_state: tuple[int, int]) -> Generator:
        """Goes on from a state that `get_state` returned."""
        self.manual_seed(new_state[0])
        with self._lock:
            self._draws = int(new_state[1])
        return self

    def next_key(self) -> Any:
        """Returns a key that was not returned before."""
        with self._lock:
            self._draws += 1
            return random.fold_in(self._key, self._draws)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Begins the default generator anew with a seed, and returns it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Begins the default generator anew with a seed of the system's, and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """Returns the seed that the default generator began with."""
    return default_generator.initial_seed()
