"""Orders of examples: samplers give numbers, and batch samplers lists of them.

A random sampler takes one key of its source for every iteration, and its order follows from that
key alone. A loader that goes on in the middle of an epoch asks for the order of the same key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from typing import Any

import numpy as np

from ..backends.devices import to_host
from ..primitives.core.errors import failure
from ..primitives.core.trace import under
from ..random.discrete import randint
from ..random.keys import fold_in
from ..random.sampling import choice, permutation
from .key_sources import Randomness, key_source

__all__ = [
    "BatchSampler", "KeyedSampler", "RandomSampler", "Sampler", "SequentialSampler",
    "SubsetRandomSampler", "WeightedRandomSampler", "checked_count", "checked_size",
]  # fmt: skip


def checked_size(name: str, size: Any) -> int:
    """Returns a number of examples, which is a positive integer.

    Raises:
        ValueError: it is not.
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size <= 0:
        what = f"{name} is a positive integer, not {size!r}"
        raise failure(ValueError, what, fix=f"{name}=32, for instance")
    return int(size)


def checked_count(name: str, count: Any, least: int) -> int:
    """Returns a number of threads, or of batches, which is an integer and not too small.

    Raises:
        ValueError: it is not.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
        what = f"{name} is an integer of at least {least}, not {count!r}"
        raise failure(ValueError, what, fix=f"{name}=2, for instance")
    return int(count)


def numbers(drawn: Any) -> list[int]:
    """Returns an array of integers as a list."""
    found: list[int] = to_host(drawn._data).tolist()
    return found


class Sampler:
    """The base of orders of examples; a subclass has ``__iter__``, and ``__len__`` if it can.

    >>> from functensor.data import Sampler
    >>> class Backwards(Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(Backwards())
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[Any]:
        raise failure(
            NotImplementedError,
            f"{type(self).__name__} has no order",
            fix="def __iter__(self): yield from range(n)",
        )


class SequentialSampler(Sampler):
    """The order of the numbers themselves.

    Args:
        data_source: a set, for its length.

    >>> from functensor.data import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class KeyedSampler(Sampler):
    """A sampler whose order follows from a key.

    Attributes:
        generator: a generator, a key or a seed; None stands for the default generator.
    """

    def __init__(self, generator: Randomness) -> None:
        self.generator = generator
        self._keys = key_source(generator)

    def order(self, key: Any) -> Iterable[int]:
        """Returns the numbers in the order of a key."""
        raise NotImplementedError(f"{type(self).__name__} has no method order")

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(self._keys.next_key()))


class RandomSampler(KeyedSampler):
    """A random order, in which every number comes once, or may come again.

    Args:
        data_source: a set, for its length.
        replacement: whether a number may come again.
        num_samples: how many numbers; None for the length of the set.
        generator: a generator, a random key, or the seed of one, which give another order in each
            iteration; None for the default generator.

    Raises:
        ValueError: there are no examples to draw.

    >>> from functensor.data import RandomSampler
    >>> sorted(RandomSampler("abcd", generator=0))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Randomness = None,
    ) -> None:
        super().__init__(generator)
        self.data_source = data_source
        self.replacement = replacement
        self._number = None if num_samples is None else checked_size("num_samples", num_samples)
        if not len(data_source):
            raise failure(
                ValueError,
                "RandomSampler: the dataset has no examples to draw",
                fix="shuffle=False, which gives no batches; or a dataset with examples",
            )

    @property
    def num_samples(self) -> int:
        """The number of numbers in an iteration."""
        return len(self.data_source) if self._number is None else self._number

    def order(self, key: Any) -> Iterable[int]:
        """Returns the numbers in the order of a key."""
        length, number = len(self.data_source), self.num_samples
        with under(None):
            if self.replacement:
                return numbers(randint(key, (number,), 0, length))
            # Whole permutations follow each other where more numbers are asked for.
            keys = [key]
            if number > length:
                keys = [fold_in(key, i) for i in range(-(-number // length))]
            rounds = [numbers(permutation(one, length)) for one in keys]
        return islice(chain.from_iterable(rounds), number)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(KeyedSampler):
    """A random order of some numbers.

    Args:
        indices: the numbers.
        generator: as of `RandomSampler`.

    >>> from functensor.data import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([7, 3, 5], generator=0))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Randomness = None) -> None:
        super().__init__(generator)
        self.indices = indices

    def order(self, key: Any) -> Iterable[int]:
        """Returns the numbers in the order of a key."""
        with under(None):
            places = numbers(permutation(key, len(self.indices)))
        return [self.indices[place] for place in places]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(KeyedSampler):
    """Numbers drawn with probabilities that are proportional to weights.

    Args:
        weights: a weight for each number, none negative, in any scale.
        num_samples: how many numbers.
        replacement: whether a number may come again.
        generator: as of `RandomSampler`.

    Raises:
        ValueError: there are no samples to draw, or more than positive weights without
            replacement, or a weight is negative or not finite.

    >>> from functensor.data import WeightedRandomSampler
    >>> set(WeightedRandomSampler([0.0, 1.0, 0.0], 5, generator=0))
    {1}
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Randomness = None,
    ) -> None:
        super().__init__(generator)
        self.weights = np.array(weights, np.float64)
        self.num_samples = checked_size("num_samples", num_samples)
        self.replacement = replacement
        fix = "WeightedRandomSampler([0.5, 2.0, 1.0], 10), a weight for each example"
        usable = np.isfinite(self.weights) & (self.weights >= 0)
        if self.weights.ndim != 1 or not usable.all():
            what = "WeightedRandomSampler: weights are one axis of finite numbers, none negative"
            raise failure(ValueError, what, fix=fix)
        positive = int(np.count_nonzero(self.weights))
        if not positive or (not replacement and num_samples > positive):
            what = f"WeightedRandomSampler: {num_samples} samples of {positive} positive weights"
            raise failure(ValueError, what, fix=f"{fix}, or replacement=True")

    def order(self, key: Any) -> Iterable[int]:
        """Returns the numbers in the order of a key."""
        shape, length = (self.num_samples,), len(self.weights)
        with under(None):
            return numbers(choice(key, length, shape, self.replacement, self.weights))

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of the numbers that a sampler gives.

    Args:
        sampler: a sampler, or any numbers that can be gone over again.
        batch_size: how many numbers there are in a list.
        drop_last: whether a last list of fewer numbers is left out.

    Raises:
        ValueError: the size is no positive integer.

    >>> from functensor.data import BatchSampler
    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size = checked_size("batch_size", batch_size)
        self.drop_last = drop_last

    def batches(self, order: Iterable[Any]) -> Iterator[list[Any]]:
        """Yields lists of numbers in an order."""
        rest = iter(order)
        while batch := list(islice(rest, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __iter__(self) -> Iterator[list[Any]]:
        return self.batches(self.sampler)

    def __len__(self) -> int:
        number = len(self.sampler)
        return number // self.batch_size if self.drop_last else -(-number // self.batch_size)
