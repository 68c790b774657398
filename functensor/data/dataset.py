"""Sets of examples: by number, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import index as as_integer
from typing import Any

import numpy as np

from .. import tree
from ..primitives.core.errors import describe, failure, misfit

__all__ = ["ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "gathering"]


class Dataset:
    """The base of sets whose examples have numbers; a subclass has ``__getitem__``, ``__len__``.

    Any object with these two methods serves a loader as well, a list for instance.

    >>> from functensor.data import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> (Squares() + [10])[3]
    10
    """

    def __getitem__(self, index: Any) -> Any:
        raise failure(
            NotImplementedError,
            f"{type(self).__name__} has no examples by number",
            fix="def __getitem__(self, index): return self.examples[index]",
        )

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """The base of sets that are read one example after the other; a subclass has ``__iter__``.

    >>> from functensor.data import DataLoader, IterableDataset
    >>> class Lines(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1.0, 2.0, 3.0])
    >>> [batch.tolist() for batch in DataLoader(Lines(), 2)]
    [[1.0, 2.0], [3.0]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise failure(
            NotImplementedError,
            f"{type(self).__name__} has no examples one after the other",
            fix="def __iter__(self): yield from self.examples",
        )

    def __add__(self, other: Any) -> ConcatDataset:
        raise failure(
            TypeError,
            f"{type(self).__name__} + {type(other).__name__}: examples without numbers",
            fix="itertools.chain in the __iter__ of one IterableDataset",
        )


class TensorDataset(Dataset):
    """Examples that are the rows of arrays; a loader takes each batch by one gather per array.

    Args:
        tensors: tensors, arrays, NumPy arrays, or trees of them, of equal lengths. They are not
            copied: what is written into them later is in later batches.

    Raises:
        ShapeError: lengths differ, or there is an array without axes.

    >>> import numpy
    >>> from functensor.data import TensorDataset
    >>> images, labels = numpy.ones((5, 2)), numpy.arange(5)
    >>> TensorDataset(images, labels)[3]
    (array([1., 1.]), np.int64(3))
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tensors
        leaves = tree.leaves_with_path(tensors)
        fix = "TensorDataset(x, y) with x.shape[0] == y.shape[0]"
        for path, leaf in leaves:
            if not getattr(leaf, "shape", ()):
                name = tree.keystr(path)
                raise misfit(f"TensorDataset: array {name} is {describe(leaf)}, without rows", fix)
        lengths = {leaf.shape[0] for _, leaf in leaves}
        if len(lengths) != 1:
            shown = ", ".join(f"{tree.keystr(path)} {describe(leaf)}" for path, leaf in leaves)
            what = f"arrays of different lengths: {shown}" if leaves else "no arrays"
            raise misfit(f"TensorDataset: {what}", fix)
        (self._length,) = lengths

    def __len__(self) -> int:
        return int(self._length)

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        rows: tuple[Any, ...] = tree.map(lambda leaf: leaf[index], self.tensors)
        return rows

    def batch(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Returns the rows of these numbers, by one gather per array.

        Args:
            indices: the examples' numbers.

        Returns:
            The trees with arrays of a first axis of that length.
        """
        return self[np.asarray(indices, np.intp)]


class Subset(Dataset):
    """The examples of a set that have these numbers.

    Args:
        dataset: the set.
        indices: the numbers, in the order of the subset.

    >>> from functensor.data import Subset
    >>> list(Subset("abcdef", [4, 0]))
    ['e', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def batch(self, indices: Sequence[int]) -> Any:
        """Returns the batch of examples of these numbers, if the set itself can tell batches."""
        return self.dataset.batch([self.indices[i] for i in indices])


class ConcatDataset(Dataset):
    """Sets one behind the other.

    Args:
        datasets: sets with lengths.

    Raises:
        ValueError: there are none.
        TypeError: one has no numbers.

    >>> from functensor.data import ConcatDataset
    >>> both = ConcatDataset(["ab", "cde"])
    >>> len(both), both[2], both[-1]
    (5, 'c', 'e')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        fix = "ConcatDataset([first, second])"
        if not self.datasets:
            raise failure(ValueError, "ConcatDataset of no datasets", fix=fix)
        for i, dataset in enumerate(self.datasets):
            if isinstance(dataset, IterableDataset):
                what = f"ConcatDataset: datasets[{i}] is an IterableDataset, without numbers"
                raise failure(TypeError, what, fix=fix)
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        number, length = as_integer(index), len(self)
        if not -length <= number < length:
            raise IndexError(f"example {number} of a ConcatDataset of {length} examples")
        number %= length
        part = bisect_right(self.cumulative_sizes, number)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][number - start]


def gathering(dataset: Any) -> Any:
    """Returns the method by which a set tells whole batches; None if it tells examples alone."""
    kind = type(dataset)
    own = getattr(kind, "__getitem__", None)
    if own is Subset.__getitem__:
        return None if gathering(dataset.dataset) is None else dataset.batch
    return dataset.batch if own is TensorDataset.__getitem__ else None
