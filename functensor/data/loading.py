"""The machinery of loaders: epochs, batches, threads, and the state from which they go on.

`functensor.data.DataLoader` and `functensor.torch.utils.data.DataLoader` are its two faces: they
differ in their arguments, and in what a batch is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, repeat
from typing import Any

from ..backends.devices import placement, resolved, set_default_device
from ..backends.errors.public_functions import check_function
from ..backends.logs import log_debug
from ..primitives.core.errors import failure
from .dataset import IterableDataset, gathering
from .key_sources import key_of_words, words_of_key
from .prefetching import END_OF_BATCHES, in_this_thread, in_threads
from .samplers import BatchSampler, KeyedSampler, SequentialSampler

__all__ = ["Loading", "refused", "sampling"]

# The versions of states that can be gone on from.
STATE_VERSION = 1


def refused(what: str, fix: str) -> ValueError:
    """Returns the error for options of a loader that contradict each other."""
    return failure(ValueError, f"DataLoader: {what}", fix=fix)


def sampling(
    dataset: Any, batch_size: int | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> Any:
    """Returns what gives a loader's jobs: numbers, lists of them, or nothing for iterables.

    Args:
        dataset: the set.
        batch_size: the number of examples in a batch; None for examples alone.
        sampler: the order, by default that of the numbers.
        batch_sampler: gives whole batches.
        drop_last: whether a last batch of fewer examples is left out.

    Raises:
        TypeError: the set has no examples by number, or no length.
    """
    if isinstance(dataset, IterableDataset):
        if sampler is not None or batch_sampler is not None:
            raise refused("a sampler for an IterableDataset, whose order is its own", "no sampler")
        return None
    ordered = sampler is not None or batch_sampler is not None
    if not hasattr(dataset, "__getitem__") or not (ordered or hasattr(dataset, "__len__")):
        raise failure(
            TypeError,
            f"DataLoader: dataset is a {type(dataset).__name__}, without __getitem__ or __len__",
            fix="data.TensorDataset(x, y), or a data.IterableDataset whose __iter__ gives examples",
        )
    if batch_sampler is not None:
        return batch_sampler
    order = SequentialSampler(dataset) if sampler is None else sampler
    return order if batch_size is None else BatchSampler(order, batch_size, drop_last)


class Loading:
    """A set of examples that is gone through in batches, again and again.

    Args:
        dataset: the set.
        jobs: what `sampling` returned.
        batch_size: the number of examples in a batch; None for examples alone.
        drop_last: whether a last batch of fewer examples is left out.
        collate: makes a batch of a list of examples; of one example where there are no batches.
        gathered: makes a batch of what the set's own method ``batch`` returns; None to go by
            single examples whatever the set can.
        finish: makes what the user gets of a batch.
        threads: how many threads prepare batches; 0 for none.
        depth: how many batches are prepared ahead of the one that is asked for.
        timeout: how many seconds a batch is waited for; None for ever.
        begin: is called in each thread with its number.
        device: where batches go; None where they stay where they are.
        alone: whether a job is one example and not a list of them.
    """

    def __init__(
        self,
        dataset: Any,
        jobs: Any,
        *,
        batch_size: int | None,
        drop_last: bool,
        collate: Callable[[Any], Any],
        gathered: Callable[[Any], Any] | None,
        finish: Callable[[Any], Any],
        threads: int,
        depth: int,
        timeout: float | None,
        begin: Callable[[int], Any] | None,
        device: str | None,
        alone: bool,
    ) -> None:
        check_function("DataLoader", collate, "collate_fn")
        if begin is not None:
            check_function("DataLoader", begin, "worker_init_fn")
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.collate_fn = collate
        self._jobs = jobs
        self._gathered = None if gathering(dataset) is None else gathered
        self._finish = finish
        self._threads = threads
        self._depth = depth
        self._timeout = timeout
        self._begin = begin
        self._device = device
        self._alone = alone
        # The position: an epoch, its key, and how many of its batches were handed out.
        self._epoch = 0
        self._key: list[int] | None = None
        self._handed = 0
        self._started = False
        # The iteration whose position is the loader's: the last one that began.
        self._iteration: object = None

    # -- the position

    def _keyed(self) -> KeyedSampler | None:
        """Returns the sampler whose order follows from a key, if the jobs are in such an order."""
        jobs = self._jobs
        plain = isinstance(jobs, BatchSampler) and type(jobs).__iter__ is BatchSampler.__iter__
        order = jobs.sampler if plain else jobs
        known = isinstance(order, KeyedSampler)
        return order if known and type(order).__iter__ is KeyedSampler.__iter__ else None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position: the epoch, and how many of its batches were handed out.

        Batches that threads have prepared, and nobody has asked for, do not count.

        Returns:
            Python's numbers and lists alone, which a JSON file can hold.
        """
        keyed = self._keyed()
        shared = keyed is None or keyed.generator is None
        return {
            "version": STATE_VERSION,
            "epoch": self._epoch,
            "batches": self._handed,
            "key": self._key,
            "generator": None if keyed is None or shared else list(keyed._keys.get_state()),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a position: the next iteration gives the rest of that epoch.

        The loader has to be made of the same set, with the same arguments. Later epochs have the
        orders that they would have had, unless those come from the default generator, whose state
        is its own.

        Args:
            state_dict: what `state_dict` returned.

        Raises:
            ValueError: it is nothing that `state_dict` returns.
        """
        wanted = {"version", "epoch", "batches", "key", "generator"}
        if not isinstance(state_dict, dict) or state_dict.keys() != wanted:
            names = sorted(state_dict) if isinstance(state_dict, dict) else []
            raise failure(
                ValueError,
                f"load_state_dict: {type(state_dict).__name__} of {names} in place of "
                f"{sorted(wanted)}",
                fix="loader.load_state_dict(earlier_loader.state_dict())",
            )
        keyed = self._keyed()
        state = state_dict["generator"]
        if state is not None:
            if keyed is None or keyed.generator is None:
                raise failure(
                    ValueError,
                    "load_state_dict: the state of a loader that shuffles by a key or a generator",
                    fix="the same arguments as of the loader whose state it is",
                )
            keyed._keys.set_state(state)
        self._epoch = int(state_dict["epoch"])
        self._handed = int(state_dict["batches"])
        self._key = None if state_dict["key"] is None else list(state_dict["key"])
        self._started = False
        self._iteration = None

    # -- the batches

    def __len__(self) -> int:
        if self._jobs is not None:
            return len(self._jobs)
        number = len(self.dataset)
        if self.batch_size is None:
            return number
        return number // self.batch_size if self.drop_last else -(-number // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self._started:
            # The epoch before was left in the middle.
            self._next_epoch()
        self._started = True
        iteration = self._iteration = object()
        jobs: Iterator[Any]
        keyed, skipped = self._keyed(), self._handed
        if self._jobs is None:
            jobs = repeat(None)
        elif keyed is None:
            jobs = islice(self._jobs, skipped, None)
        else:
            if self._key is None:
                self._key = words_of_key(keyed._keys.next_key())
            order = keyed.order(key_of_words(self._key))
            plain = isinstance(self._jobs, BatchSampler)
            jobs = islice(self._jobs.batches(order) if plain else order, skipped, None)
        log_debug("data", "epoch %d begins at batch %d", self._epoch, skipped)
        return self._batches(iteration, jobs, skipped)

    def _next_epoch(self) -> None:
        self._epoch += 1
        self._handed = 0
        self._key = None
        self._started = False

    def _batches(self, iteration: object, jobs: Iterator[Any], skipped: int) -> Iterator[Any]:
        reads = self._jobs is None
        take = Reader(self, skipped) if reads else unchanged
        results = self._results(enumerate(jobs, skipped), take, reads)
        while True:
            found = [next(results, END_OF_BATCHES)]
            if found[0] is END_OF_BATCHES:
                break
            if self._iteration is iteration:
                self._handed += 1
            # Nothing here keeps the batch alive.
            yield found.pop()
        if self._iteration is iteration:
            self._next_epoch()

    def _results(
        self, jobs: Iterator[Any], take: Callable[[Any], Any], reads: bool
    ) -> Iterator[Any]:
        work = Work(self)
        if not self._threads:
            return in_this_thread(jobs, take, work)
        device, begin = placement.device, self._begin

        def first(number: int) -> None:
            set_default_device(device)
            if begin is not None:
                begin(number)

        return in_threads(
            jobs,
            take,
            work,
            threads=self._threads,
            depth=self._depth,
            one_reads=reads,
            timeout=self._timeout,
            begin=first,
        )


def unchanged(job: Any) -> Any:
    """Returns a job of numbers as it is."""
    return job


class Reader:
    """Reads the examples of an iterable set, a batch at a time.

    Args:
        loading: the loader.
        skipped: how many batches are read and dropped first.
    """

    def __init__(self, loading: Loading, skipped: int) -> None:
        self._dataset = loading.dataset
        self._size = loading.batch_size
        self._drop_last = loading.drop_last
        self._skipped = skipped * (loading.batch_size or 1)
        self._examples: Iterator[Any] | None = None

    def __call__(self, job: Any) -> Any:
        number, _ = job
        try:
            if self._examples is None:
                self._examples = islice(self._dataset, self._skipped, None)
            size = self._size or 1
            examples = list(islice(self._examples, size))
        except Exception as error:
            error.add_note(f"in batch {number} of the DataLoader, which reads its dataset")
            raise
        if not examples or (self._drop_last and len(examples) < size):
            return END_OF_BATCHES
        return number, examples


class Work:
    """Makes the batch of a job: gets the examples, collates them, and moves them to a device."""

    def __init__(self, loading: Loading) -> None:
        self._dataset = loading.dataset
        self._alone = loading._alone
        self._reads = loading._jobs is None
        self._collate = loading.collate_fn
        self._finish = loading._finish
        self._gathered = None if self._reads or self._alone else loading._gathered
        self._several = getattr(self._dataset, "__getitems__", None)
        self._stream: Callable[[], AbstractContextManager[Any]] = nullcontext
        if loading._device is not None:
            self._stream = resolved(loading._device)[0].stream_of_thread()

    def __call__(self, taken: Any) -> Any:
        number, given = taken
        try:
            batch = self._batch(given)
            with self._stream():
                return self._finish(batch)
        except Exception as error:
            error.add_note(f"in batch {number} of the DataLoader{self._told(given)}")
            raise

    def _told(self, given: Any) -> str:
        """Returns which examples a job has, for messages."""
        if self._reads:
            return ""
        return f", example {given}" if self._alone else f", examples {shortened(given)}"

    def _batch(self, given: Any) -> Any:
        if self._gathered is not None:
            return self._gathered(self._dataset.batch(given))
        if self._reads:
            return self._collate(given[0] if self._alone else given)
        if self._alone:
            return self._collate(self._dataset[given])
        if self._several is not None:
            return self._collate(self._several(given))
        return self._collate([self._example(index) for index in given])

    def _example(self, index: Any) -> Any:
        try:
            return self._dataset[index]
        except Exception as error:
            error.add_note(f"in example {index} of the dataset")
            raise


def shortened(indices: Any) -> str:
    """Returns numbers as a message shows them."""
    known = list(indices)
    shown = ", ".join(map(str, known[:8]))
    return f"{shown} and {len(known) - 8} more" if len(known) > 8 else shown
