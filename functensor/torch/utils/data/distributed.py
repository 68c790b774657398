"""The sampler of PyTorch's scripts of several processes: ``torch.utils.data.distributed``."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from ....data.samplers import Sampler, numbers
from ....distributed.world import world
from ....faces.publish import publish
from ....primitives.core.errors import failure
from ....primitives.core.trace import under
from ....random.keys import fold_in
from ....random.keys import key as random_key
from ....random.sampling import permutation

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Gives each process every so many numbers of examples, equally many.

    Args:
        dataset: a set, for its length.
        num_replicas, rank: the number of processes, and of this one; by default those of the
            program.
        shuffle: whether each epoch has a random order, of ``seed`` and the epoch's number.
        seed: the same number on all processes.
        drop_last: whether examples are left out that processes do not divide; else the first ones
            come twice.

    Raises:
        ValueError: there is no process of that rank.

    >>> from functensor.torch.utils.data.distributed import DistributedSampler
    >>> list(DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        here = world()
        self.dataset = dataset
        self.num_replicas = here.size if num_replicas is None else num_replicas
        self.rank = here.rank if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise failure(
                ValueError,
                f"DistributedSampler: there is no rank {self.rank} of {self.num_replicas}",
                fix="DistributedSampler(dataset), for the ranks of the program",
            )
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    @property
    def num_samples(self) -> int:
        """The number of numbers that this process gets."""
        length = len(self.dataset)
        return length // self.num_replicas if self.drop_last else -(-length // self.num_replicas)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch, which its order follows from."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        length, total = len(self.dataset), self.num_samples * self.num_replicas
        order = list(range(length))
        if self.shuffle:
            with under(None):
                order = numbers(permutation(fold_in(random_key(self.seed), self.epoch), length))
        while order and len(order) < total:
            order += order[: total - len(order)]
        return iter(order[self.rank : total : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


publish(globals())
