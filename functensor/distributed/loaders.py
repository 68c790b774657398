"""Loaders and sets of which each process has its part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import Any

from ..data.dataset import IterableDataset, Subset
from ..data.loading import Loading
from ..data.samplers import BatchSampler, KeyedSampler
from ..primitives.core.errors import failure
from .world import world

__all__ = ["shard"]


def shard(source: Any) -> Any:
    """Returns a loader, or a set, that gives this process its part of each batch.

    All processes go through the same batches in the same order, whatever their number, and each
    gets a part of equal length. So a batch is as large as that of the loader that is given, for all
    processes together, and a training that goes on with another number of processes sees the same
    batches. What is left of a last batch that processes do not divide is left out.

    Args:
        source: a ``DataLoader`` of `functensor.data` or of PyTorch's face; its state is that of the
            whole, so that it may be saved by any process and loaded by any number. Or a set of
            examples with a length, of which each process gets every so many.

    Returns:
        A loader or a set of the same kind.

    Raises:
        ValueError: the size of batches is no multiple of the number of processes, or orders are
            drawn from a generator that each process has for itself.
        TypeError: it is neither a loader nor a set.

    >>> import functensor as ft
    >>> loader = ft.data.DataLoader([1.0, 2.0, 3.0, 4.0], 2)
    >>> [batch.tolist() for batch in ft.distributed.shard(loader)]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    here = world()
    if not isinstance(source, Loading):
        if not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
            raise failure(
                TypeError,
                f"distributed.shard: a {type(source).__name__} is neither a loader nor a set of "
                "examples with a length",
                fix="ft.distributed.shard(ft.data.DataLoader(dataset, 32))",
            )
        length = len(source) // here.size * here.size
        return Subset(source, range(here.rank, length, here.size))
    if here.size == 1:
        return source
    size = source.batch_size
    if size is None and isinstance(source._jobs, BatchSampler):
        size = source._jobs.batch_size
    if size is not None and size % here.size:
        raise failure(
            ValueError,
            f"distributed.shard: {here.size} processes do not divide batches of {size} examples",
            fix=f"batch_size={-(-size // here.size) * here.size}",
        )
    keyed = source._keyed()
    if keyed is not None and keyed.generator is None:
        raise failure(
            ValueError,
            "distributed.shard: the order of examples is drawn from the default generator, of "
            "which each process has its own",
            fix="DataLoader(..., shuffle=True, key=0), or generator=torch.Generator()",
        )
    out = copy(source)
    jobs = source._jobs
    if jobs is None:
        out.dataset = PartsOfIterable(source.dataset, size or here.size, source.drop_last)
        out.batch_size = size and size // here.size
    elif isinstance(jobs, BatchSampler) and type(jobs).__iter__ is BatchSampler.__iter__:
        out._jobs = PartsOfBatches(jobs.sampler, jobs.batch_size, jobs.drop_last)
    elif source._alone:
        out._jobs = SingleExamples(jobs)
    else:
        out._jobs = PartsOfLists(jobs)
    return out


def _own(batch: list[Any]) -> list[Any]:
    """Returns this process's part of a list."""
    here = world()
    length = len(batch) // here.size
    return batch[here.rank * length : (here.rank + 1) * length]


class PartsOfBatches(BatchSampler):
    """A process's parts of the lists that a batch sampler gives; arguments as of that."""

    def batches(self, order: Iterable[Any]) -> Iterator[list[Any]]:
        """Yields this process's parts of lists of numbers in an order."""
        for batch in super().batches(order):
            if part := _own(batch):
                yield part

    def __len__(self) -> int:
        # A last batch of fewer examples than processes has no parts.
        length, size = len(self.sampler), self.batch_size
        left = length % size
        return length // size + (not self.drop_last and left >= world().size)


class PartsOfLists:
    """A process's parts of the lists that any batch sampler gives."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[Any]]:
        for batch in self._batches:
            if part := _own(list(batch)):
                yield part

    def __len__(self) -> int:
        return len(self._batches)


class SingleExamples(KeyedSampler):
    """Every so many of the numbers that a sampler gives."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        if isinstance(sampler, KeyedSampler):
            self.generator = sampler.generator
            self._keys = sampler._keys
        else:
            super().__init__(0)

    def order(self, key: Any) -> Iterable[int]:
        """Returns this process's numbers in the order of a key."""
        known = isinstance(self._sampler, KeyedSampler)
        numbers = self._sampler.order(key) if known else self._sampler
        return islice(numbers, world().rank, len(self) * world().size, world().size)

    def __len__(self) -> int:
        return len(self._sampler) // world().size


class PartsOfIterable(IterableDataset):
    """A process's examples of a set that all processes read.

    Args:
        dataset: the set.
        size: how many examples are cut into parts at a time.
        drop_last: whether a last batch of fewer examples is left out.
    """

    def __init__(self, dataset: Any, size: int, drop_last: bool) -> None:
        self._dataset = dataset
        self._size = size
        self._drop_last = drop_last

    def __iter__(self) -> Iterator[Any]:
        examples = iter(self._dataset)
        while batch := list(islice(examples, self._size)):
            if len(batch) == self._size or not self._drop_last:
                yield from _own(batch)

    def __len__(self) -> int:
        length = len(self._dataset)
        if self._drop_last:
            length -= length % self._size
        return length // world().size
