"""Generators, as PyTorch has them: each counts out random keys, and functions draw from them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Self

import numpy as np

from ..backends.errors.words import WRAPPER_CODES
from ..backends.restoring import setting
from ..primitives.core.errors import failure
from ..primitives.core.trace import RAW, Trace, is_staged, slot
from .keys import fold_in, key

__all__ = [
    "Generator", "default_generator", "drawing_from", "initial_seed", "keeping_draws",
    "manual_seed", "noting_draws", "repeating_draws", "seed", "sharing_draws",
]  # fmt: skip


class Draws(threading.local):
    """The keys that a thread draws: who notes them, and whether they are given again.

    Attributes:
        journals: lists that note them, of runs that may be done again.
        again: the keys of a run that is done again.
        shared: whether a draw within ``vmap`` may be the same for all examples.
        given: the keys of a run that is given a random key, from which all draws come.
    """

    def __init__(self) -> None:
        self.journals: tuple[list[Any], ...] = ()
        self.again: Iterator[Any] | None = None
        self.shared = False
        self.given: Iterator[Any] | None = None


draws = Draws()


def outer_traces() -> Iterator[Trace]:
    """Yields the transformations that run, the innermost first."""
    trace = slot.trace
    while trace is not None and trace is not RAW:
        yield trace
        trace = trace.parent


def sharing_draws(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that may draw the same for all examples of a batch."""

    def shared(*args: Any, **kwargs: Any) -> Any:
        with setting(draws, shared=True):
            return fun(*args, **kwargs)

    WRAPPER_CODES.add(shared.__code__)
    return shared


def keys_from(key: Any, noted: Callable[[], None]) -> Iterator[Any]:
    """Yields keys that follow from one; ``noted`` is called when the first is asked for."""
    noted()
    for number in count():
        yield fold_in(key, number)


def drawing_from(
    fun: Callable[..., Any], noted: Callable[[], None]
) -> Callable[..., Any]:
    """Returns a function that takes a random key first, from which all draws of another come.

    ``noted`` is called when it draws for the first time.
    """

    def drawing(key: Any, *args: Any, **kwargs: Any) -> Any:
        with setting(draws, given=keys_from(key, noted)):
            return fun(*args, **kwargs)

    WRAPPER_CODES.add(drawing.__code__)
    return drawing


def noting_draws(fun: Callable[..., Any], journal: list[Any]) -> Callable[..., Any]:
    """Returns a function that notes the keys that another draws."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        with setting(draws, journals=(*draws.journals, journal)):
            return fun(*args, **kwargs)

    WRAPPER_CODES.add(noted.__code__)
    return noted


def repeating_draws(fun: Callable[..., Any], journal: list[Any]) -> Callable[..., Any]:
    """Returns a function in which another draws the keys that were noted."""

    def repeated(*args: Any, **kwargs: Any) -> Any:
        with setting(draws, journals=(), again=iter(tuple(journal))):
            return fun(*args, **kwargs)

    WRAPPER_CODES.add(repeated.__code__)
    return repeated


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
        # The key that is next: the one it follows from, by which number, and itself.
        self._upcoming: tuple[Any, int, Any] = None, 0, None
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Begins anew with a seed, and returns the generator."""
        with self._lock:
            self._seed, self._draws = int(seed) % 2**64, 0
            self._key = key(self._seed % 2**63)
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
        """Returns a key that was not returned before.

        Raises:
            RuntimeError: a program is staged, every call of which would use the same key; or a
                function runs for a batch, all examples of which would.
        """
        if draws.given is None and is_staged():
            raise failure(
                RuntimeError,
                "random numbers of a generator within jit, which would be the same in every call",
                fix="draw them outside and pass them in, or pass a key of ft.random",
            )
        if not draws.shared and any(trace.batching for trace in outer_traces()):
            raise failure(
                RuntimeError,
                "random numbers of a generator within vmap, the same ones for all examples",
                fix="torch.func.vmap(f, randomness='different'), or 'same'",
            )
        keys = draws.again if draws.given is None else draws.given
        found = None if keys is None else next(keys, None)
        if found is None:
            with self._lock:
                self._draws += 1
                found = fold_in(self._key, self._draws)
        for journal in draws.journals:
            journal.append(found)
        return found

    def upcoming_key(self) -> Any:
        """Returns the key that `next_key` will return."""
        first, number = self._key, self._draws + 1
        known = self._upcoming
        if known[0] is not first or known[1] != number:
            known = first, number, fold_in(first, number)
            # Under a transformation it may be traced.
            if slot.trace is None:
                self._upcoming = known
        return known[2]


default_generator = Generator()


class keeping_draws(setting):
    """Sets a generator back at the end of a ``with`` block to where it was at its beginning."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator, _seed=None, _draws=None, _key=None)

    def __enter__(self) -> Any:
        self._values = {name: getattr(self._owner, name) for name in self._values}
        return super().__enter__()

    def _recreate_cm(self) -> Self:
        return type(self)(self._owner)


def manual_seed(seed: int) -> Generator:
    """Begins the default generator anew with a seed, and returns it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Begins the default generator anew with a seed of the system's, and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """Returns the seed that the default generator began with."""
    return default_generator.initial_seed()
