"""Collectives among a group of processes over MPI, on NumPy's arrays without copies.

Values that are only moved go as bytes, whatever their dtype. Sums of float16 and bfloat16 are
added up in float32. Maxima and minima go as integers of the same order (`ordered_integers`), since
MPI does not say what becomes of NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.optional_modules import extra
from .ordered_integers import from_ordered, to_ordered
from .waiting import wait

__all__ = ["MpiGroup"]

# What MPI adds up as it is; others have no type there that every MPI knows.
SUMMED = frozenset("bhilqBHILQfdFD")


class Pending:
    """A sum that is on its way, or a mean.

    Attributes:
        kept: what its memory is needed of until it is there.
        count: by how many a sum is divided.
        ranks: the processes whose sum it is.
    """

    def __init__(
        self,
        request: Any,
        out: Any,
        dtype: Any,
        kept: Any,
        count: int = 1,
        ranks: tuple[int, ...] | None = None,
    ) -> None:
        self.request = request
        self.out = out
        self.dtype = dtype
        self.kept = kept
        self.count = count
        self.ranks = ranks

    def advance(self) -> bool:
        """Lets MPI go on with it, and says whether it is there.

        Most MPIs do nothing between the calls of a program.
        """
        return bool(self.request.Test())

    def result(self) -> Any:
        """Waits for the sum, or the mean, and returns it."""
        if self.request is not None:
            wait(self.request, "sum", self.ranks)
            self.request = self.kept = None
            if self.count > 1:
                self.out /= self.out.dtype.type(self.count)
        return self.out.astype(self.dtype, copy=False)


class MpiGroup:
    """A group of processes that exchange NumPy's arrays.

    Args:
        comm: its communicator.
        ranks: of its processes among all, in their order.

    Attributes:
        size, rank: the number of processes, and of this one among them.
    """

    def __init__(self, comm: Any, ranks: tuple[int, ...]) -> None:
        self.comm = comm
        self.ranks = ranks
        self.size: int = comm.size
        self.rank: int = comm.rank
        self._mpi = extra("mpi4py.MPI", "mpi")

    def begin_mean(self, x: Any, owned: bool) -> Pending:
        """Begins to average the arrays of all, in the memory of this one if nobody else has it."""
        return self._begin(x, self.size, owned)

    def _begin(self, x: Any, count: int, owned: bool = False) -> Pending:
        given = np.asarray(x, dtype=None if x.dtype.char in SUMMED else np.float32, order="C")
        owned = owned or given.dtype != x.dtype
        out = given if owned else np.empty_like(given)
        request = self.comm.Iallreduce(self._mpi.IN_PLACE if owned else given, out, self._mpi.SUM)
        return Pending(request, out, x.dtype, given, count, self.ranks)

    def sum(self, x: Any) -> Any:
        """Returns the sum of the arrays of all."""
        return self._begin(x, 1).result()

    def extremum(self, x: Any, largest: bool) -> Any:
        """Returns the largest elements of the arrays of all, or the smallest; NaN wins."""
        given = to_ordered(np, np.asarray(x, order="C"), largest)
        out = np.empty_like(given)
        operation = self._mpi.MAX if largest else self._mpi.MIN
        wait(self.comm.Iallreduce(given, out, operation), "extremum", self.ranks)
        return from_ordered(np, out, x.dtype)

    def gather(self, x: Any) -> Any:
        """Returns the arrays of all, along a new first axis."""
        x = np.asarray(x, order="C")
        out = np.empty((self.size, *x.shape), x.dtype)
        wait(self.comm.Iallgather(as_bytes(x), as_bytes(out)), "gather", self.ranks)
        return out

    def begin_scatter_mean(self, x: Any) -> Pending:
        """Begins to average the arrays of all, of which each gets the row of its rank."""
        return self._begin_scatter(x, self.size)

    def _begin_scatter(self, x: Any, count: int) -> Pending:
        given = np.asarray(x, dtype=None if x.dtype.char in SUMMED else np.float32, order="C")
        out = np.empty(given.shape[1:], given.dtype)
        request = self.comm.Ireduce_scatter_block(given, out, self._mpi.SUM)
        return Pending(request, out, x.dtype, given, count, self.ranks)

    def scatter_sum(self, x: Any) -> Any:
        """Returns of the sum of all arrays the row of this process's rank."""
        return self._begin_scatter(x, 1).result()

    def exchange(self, x: Any) -> Any:
        """Returns the rows that all have for this process, in the order of their ranks."""
        x = np.asarray(x, order="C")
        out = np.empty_like(x)
        wait(self.comm.Ialltoall(as_bytes(x), as_bytes(out)), "exchange", self.ranks)
        return out

    def permute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """Returns the array that another process sends to this one; zeros where none does."""
        x = np.asarray(x, order="C")
        requests = []
        out = None
        for source, destination in pairs:
            if destination == self.rank:
                out = np.empty_like(x)
                requests.append(self.comm.Irecv(as_bytes(out), source))
        requests += [
            self.comm.Isend(as_bytes(x), destination)
            for source, destination in pairs
            if source == self.rank
        ]
        peers = {peer for pair in pairs if self.rank in pair for peer in pair}
        ranks = [self.ranks[peer] for peer in sorted(peers)]
        for request in requests:
            wait(request, "permutation", ranks)
        return np.zeros_like(x) if out is None else out


def as_bytes(x: Any) -> Any:
    """Returns the memory of a contiguous array as bytes."""
    return x.reshape(-1).view(np.uint8)
