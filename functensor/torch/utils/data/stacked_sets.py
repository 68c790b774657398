"""Sets that are made of others, beside those of `functensor.data`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ....data.dataset import Dataset, IterableDataset

__all__ = ["ChainDataset", "StackDataset"]


class ChainDataset(IterableDataset):
    """The examples of sets without numbers, one set after the other.

    Args:
        datasets: sets of the class `IterableDataset`.

    >>> from functensor.torch.utils.data import ChainDataset, IterableDataset
    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset: {type(dataset).__name__} is no IterableDataset"
                )
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class StackDataset(Dataset):
    """Examples that are tuples, or dictionaries, of those of several sets with equal numbers.

    Args:
        args: the sets of tuples.
        kwargs: those of dictionaries, by the names there.

    Raises:
        ValueError: there are none, there are both, or their lengths differ.

    >>> from functensor.torch.utils.data import StackDataset
    >>> StackDataset("ab", [1, 2])[1], StackDataset(letter="ab", number=[1, 2])[0]
    (('b', 2), {'letter': 'a', 'number': 1})
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give sets by place or by name, and at least one")
        self.datasets: Any = args or kwargs
        lengths = {len(dataset) for dataset in args or kwargs.values()}
        if len(lengths) > 1:
            raise ValueError(f"StackDataset: sets of different lengths, {sorted(lengths)}")
        (self._length,) = lengths

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns several examples, of sets that can tell several at once by one call each."""
        named = isinstance(self.datasets, dict)
        columns = [
            several_of(dataset, indices)
            for dataset in (self.datasets.values() if named else self.datasets)
        ]
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row)) if named else row for row in rows]


def several_of(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Returns several examples of a set.

    Raises:
        ValueError: the set gives another number of them.
    """
    several = getattr(dataset, "__getitems__", None)
    found = list(several(indices)) if callable(several) else [dataset[i] for i in indices]
    if len(found) != len(indices):
        raise ValueError(
            f"StackDataset: a set gave {len(found)} examples, where {len(indices)} were wanted"
        )
    return found
