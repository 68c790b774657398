"""Roll calls: processes wait for each other in a way that tells which of them has not come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from ..backends.optional_modules import extra
from .waiting import wait_until

__all__ = ["call_tag", "roll_call"]

# Tags from 0 to 32,767 are in every MPI. The first ones are left to others.
FIRST_TAG, TAGS = 1000, 30000
# The messages of roll calls to which not all have come yet, by what tells calls apart.
_open: dict[Any, tuple[list[Any], dict[int, Any]]] = {}


def call_tag(ranks: Sequence[int]) -> int:
    """Returns a tag of MPI's that tells a group of processes from most others.

    >>> call_tag((0, 1)) == call_tag((0, 1)) != call_tag((0, 2))
    True
    """
    return FIRST_TAG + crc32(repr([*ranks]).encode()) % TAGS


def roll_call(comm: Any, ranks: Sequence[int], what: str) -> None:
    """Waits until all of some processes have come here.

    Args:
        comm: a communicator that has them.
        ranks: their ranks in it; that of this process is among them.
        what: what they are called for, in words.

    Raises:
        DistributedError: one of them has ended, or did not come in time.
    """
    others = [rank for rank in ranks if rank != comm.rank]
    tag, nothing = call_tag(ranks), [bytearray(1), 0, extra("mpi4py.MPI", "mpi").BYTE]
    key = comm.py2f(), tag
    # One that raised an error before goes on: each message is sent once.
    _, missing = _open.get(key) or _open.setdefault(
        key,
        (
            [comm.Isend(nothing, rank, tag) for rank in others],
            {rank: comm.Irecv(nothing, rank, tag) for rank in others},
        ),
    )

    def all_came() -> bool:
        for rank, request in [*missing.items()]:
            if request.Test():
                del missing[rank]
        return not missing

    wait_until(all_came, what, ranks, lambda: [*missing])
    sent, _ = _open.pop(key)
    for request in sent:
        request.Wait()
