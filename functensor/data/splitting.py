"""Sets divided into random parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isclose
from typing import Any

from ..primitives.core.errors import failure
from ..primitives.core.trace import under
from ..random.sampling import permutation
from .dataset import Subset
from .key_sources import Randomness, key_source
from .samplers import numbers

__all__ = ["random_split"]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Randomness = None
) -> list[Subset]:
    """Returns disjoint random parts of a set, which together are all of it.

    Args:
        dataset: a set with a length.
        lengths: the length of each part, or fractions of a sum of 1; examples that rounding leaves
            over go to the first parts, one to each.
        generator: a generator, a random key, or the seed of one; None for the default generator.

    Returns:
        A `Subset` for each length.

    Raises:
        ValueError: the lengths' sum is another one than the set's length, or one is negative.

    >>> from functensor.data import random_split
    >>> train, test = random_split(range(10), [0.8, 0.2], generator=0)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    total = len(dataset)
    counts = list(lengths)
    if counts and isclose(sum(counts), 1) and all(0 <= part <= 1 for part in counts):
        counts = [floor(total * part) for part in counts]
        for i in range(int(total - sum(counts))):
            counts[i % len(counts)] += 1
    whole = all(isinstance(part, int) or float(part).is_integer() for part in counts)
    if not whole or sum(counts) != total or any(part < 0 for part in counts):
        raise failure(
            ValueError,
            f"random_split: lengths {list(lengths)} of a dataset of {total} examples",
            fix=f"lengths of a sum of {total}, or fractions of a sum of 1",
        )
    with under(None):
        order = numbers(permutation(key_source(generator).next_key(), total))
    ends = [int(sum(counts[: i + 1])) for i in range(len(counts))]
    return [Subset(dataset, order[a:b]) for a, b in zip([0, *ends[:-1]], ends)]
