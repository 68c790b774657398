"""The loader of the functional face: trees of arrays, and orders that follow from a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..backends.devices import on_device, resolved
from ..backends.dtypes import is_number_dtype
from ..primitives.core.array import Array
from ..primitives.core.buffers import owned, wrap
from ..random.keys import RandomKey
from .collating import default_collate
from .dataset import IterableDataset
from .loading import Loading, refused, sampling
from .samplers import RandomSampler, checked_count, checked_size

__all__ = ["DataLoader"]


class DataLoader(Loading):
    """Goes through a set of examples in batches: trees of arrays, or of NumPy arrays.

    Args:
        dataset: an `IterableDataset`, or what has ``__getitem__`` and ``__len__``. The batches of a
            `TensorDataset` are made by one gather per array.
        batch_size: the number of examples in a batch; None gives single examples, uncollated.
        shuffle: whether each epoch has a random order of its own.
        key: a random key, or the seed of one, that the orders follow from: the order of epoch n
            follows from the key and n alone.
        drop_last: whether a last batch of fewer examples is left out.
        sampler: numbers of examples in the wanted order.
        batch_sampler: lists of such numbers, in place of all of the above.
        collate_fn: makes a batch of a list of examples; `default_collate` by default.
        threads: how many threads prepare batches ahead; 0 for none. The batches and their order
            are the same whatever their number.
        prefetch: how many batches each thread is ahead.
        timeout: how many seconds a batch is waited for; None for ever.
        device: where the arrays go: ``"cuda"`` for a copy through pinned memory, which is queued
            ahead by the threads. None for the device where they are, the CPU for NumPy arrays.
        as_numpy: whether NumPy arrays stay what they are.

    Raises:
        ValueError: arguments contradict each other, or are out of their range.

    >>> import numpy
    >>> from functensor.data import DataLoader, TensorDataset
    >>> pairs = TensorDataset(numpy.arange(5.0), numpy.arange(5))
    >>> loader = DataLoader(pairs, 2, shuffle=True, key=0, threads=2)
    >>> [len(labels) for _, labels in loader]
    [2, 2, 1]
    >>> state = loader.state_dict()
    >>> state["epoch"], state["batches"]
    (1, 0)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        *,
        key: RandomKey | int | None = None,
        drop_last: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        threads: int = 0,
        prefetch: int = 2,
        timeout: float | None = None,
        device: str | None = None,
        as_numpy: bool = False,
    ) -> None:
        if batch_sampler is not None:
            if batch_size not in (1, None) or shuffle or sampler is not None or drop_last:
                raise refused(
                    "batch_sampler beside batch_size, shuffle, sampler or drop_last",
                    "DataLoader(dataset, batch_sampler=batch_sampler)",
                )
            batch_size = None
        elif batch_size is not None:
            checked_size("batch_size", batch_size)
        elif drop_last:
            raise refused("drop_last without batches", "batch_size=32, for instance")
        if shuffle and (sampler is not None or isinstance(dataset, IterableDataset)):
            what = "an IterableDataset" if sampler is None else "a sampler"
            raise refused(f"shuffle=True beside {what}", "shuffle=False")
        if shuffle != (key is not None):
            fix = "DataLoader(dataset, batch_size, shuffle=True, key=0)"
            raise refused("shuffle=True without a key" if shuffle else "a key without shuffle", fix)
        checked_count("threads", threads, 0)
        checked_count("prefetch", prefetch, 1)
        if timeout is not None and timeout <= 0:
            raise refused(f"timeout={timeout}", "timeout=60.0, in seconds, or None")
        if device is not None:
            resolved(device)
            if as_numpy:
                raise refused("as_numpy=True beside a device", "device alone")
        if shuffle:
            sampler = RandomSampler(dataset, generator=key)
        alone = batch_size is None and batch_sampler is None
        plain = unchanged_examples if alone else default_collate
        super().__init__(
            dataset,
            sampling(dataset, batch_size, sampler, batch_sampler, drop_last),
            batch_size=batch_size,
            drop_last=drop_last,
            collate=plain if collate_fn is None else collate_fn,
            gathered=unchanged_examples if collate_fn is None else None,
            finish=unchanged_examples
            if as_numpy
            else Placing(device, fresh=collate_fn is None and not alone),
            threads=threads,
            depth=threads * prefetch,
            timeout=timeout,
            begin=None,
            device=device,
            alone=alone,
        )


def unchanged_examples(examples: Any) -> Any:
    """Returns examples as they are."""
    return examples


class Placing:
    """Makes a tree's NumPy arrays arrays, and moves arrays to a device.

    Args:
        device: its name; None leaves arrays where they are.
        fresh: whether nobody else has the memory of the NumPy arrays.
    """

    def __init__(self, device: str | None, fresh: bool) -> None:
        self._device = device
        self._fresh = fresh

    def __call__(self, batch: Any) -> Any:
        return tree.map(self._placed, batch)

    def _placed(self, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray | np.generic) and is_number_dtype(leaf.dtype):
            leaf = wrap(np.asarray(leaf) if self._fresh else owned(np.asarray(leaf)))
        if self._device is None or type(leaf) is not Array:
            return leaf
        return wrap(on_device(leaf._data, self._device))
