"""PyTorch's loader: its arguments, their order and their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....backends.devices import resolved
from ....data.dataset import IterableDataset
from ....data.loading import Loading, refused, sampling
from ....data.samplers import RandomSampler, checked_count, checked_size
from ....random.generator import Generator
from ....tensors import Tensor
from .batches import converted, default_collate, default_convert, of_gathered

__all__ = ["DataLoader", "get_worker_info"]

# So many batches is each thread ahead, where nothing else is said.
PREFETCH_FACTOR = 2


class DataLoader(Loading):
    """Goes through a set of examples in batches of tensors.

    Workers are threads here and no processes: they share the set and copy nothing. The batches and
    their order are the same whatever their number. An `IterableDataset` is read once, by one thread
    after the other, so that there is nothing to divide between workers.

    Args:
        dataset: an `IterableDataset`, or what has ``__getitem__`` and ``__len__``. The batches of a
            `TensorDataset` are made by one gather per tensor.
        batch_size: the number of examples in a batch; None gives single examples.
        shuffle: whether each epoch has a random order of its own.
        sampler: numbers of examples in the wanted order.
        batch_sampler: lists of such numbers.
        num_workers: how many threads prepare batches ahead; 0 for none.
        collate_fn: makes a batch of a list of examples; `default_collate` by default.
        pin_memory: has no effect: copies to a GPU go through pinned memory anyway.
        drop_last: whether a last batch of fewer examples is left out.
        timeout: how many seconds a batch is waited for; 0 for ever.
        worker_init_fn: is called in each thread with its number, from 0.
        multiprocessing_context: None; there are no processes.
        generator: draws the orders; None for the default generator.
        prefetch_factor: how many batches each thread is ahead; 2 by default.
        persistent_workers: has no effect: to start a thread takes less than a millisecond.
        pin_memory_device: has no effect, as ``pin_memory``.
        in_order: True: batches always come in order.
        device: where the tensors go, as an extension: ``"cuda"`` for a copy through pinned memory,
            which is queued ahead by the threads.

    Raises:
        ValueError: arguments contradict each other, or are out of their range.

    >>> from functensor.torch.utils.data import DataLoader
    >>> list(DataLoader([1.0, 2.0, 3.0], batch_size=2))
    [Tensor([1., 2.], dtype=float64), Tensor([3.], dtype=float64)]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: str | None = None,
    ) -> None:
        checked_count("num_workers", num_workers, 0)
        if timeout < 0:
            raise refused(f"timeout={timeout}", "timeout=60, in seconds, or 0")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
            what = "prefetch_factor or persistent_workers without workers"
            raise refused(what, "num_workers=2, for instance")
        if prefetch_factor is not None:
            checked_count("prefetch_factor", prefetch_factor, 1)
        if multiprocessing_context is not None:
            raise refused("a multiprocessing_context: workers are threads", "None")
        if not in_order:
            raise refused("in_order=False: batches always come in order", "in_order=True")
        if shuffle and (sampler is not None or isinstance(dataset, IterableDataset)):
            what = "an IterableDataset" if sampler is None else "a sampler"
            raise refused(f"shuffle=True beside {what}", "shuffle=False")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise refused(
                    "batch_sampler beside batch_size, shuffle, sampler or drop_last",
                    "DataLoader(dataset, batch_sampler=batch_sampler)",
                )
            batch_size = None
        elif batch_size is not None:
            checked_size("batch_size", batch_size)
        elif drop_last:
            raise refused("drop_last without batches", "batch_size=32, for instance")
        if device is not None:
            resolved(device)
        if shuffle:
            sampler = RandomSampler(dataset, generator=generator)
        alone = batch_size is None and batch_sampler is None
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.generator = generator
        jobs = sampling(dataset, batch_size, sampler, batch_sampler, drop_last)
        self.batch_sampler = None if alone else jobs
        self.sampler = jobs if alone else getattr(jobs, "sampler", None)
        plain = default_convert if alone else default_collate
        super().__init__(
            dataset,
            jobs,
            batch_size=batch_size,
            drop_last=drop_last,
            collate=plain if collate_fn is None else collate_fn,
            gathered=of_gathered if collate_fn is None else None,
            finish=Moving(device),
            threads=num_workers,
            depth=num_workers * (prefetch_factor or PREFETCH_FACTOR),
            timeout=timeout or None,
            begin=worker_init_fn,
            device=device,
            alone=alone,
        )


class Moving:
    """Moves the tensors of a batch to a device.

    Args:
        device: its name; None leaves them where they are.
    """

    def __init__(self, device: str | None) -> None:
        self._device = device

    def __call__(self, batch: Any) -> Any:
        return batch if self._device is None else converted(batch, tuple, self._moved)

    def _moved(self, leaf: Any) -> Any:
        return leaf.to(device=self._device) if isinstance(leaf, Tensor) else leaf


def get_worker_info() -> None:
    """Returns None: workers are threads that share a set, of which each reads no part of its own.

    A set that divides itself between PyTorch's processes by this gives all its examples here.

    >>> from functensor.torch.utils.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return None
