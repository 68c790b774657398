"""Objects and short words that processes give each other, on the host."""

from __future__ import annotations

import pickle  # of our own processes
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from .waiting import wait, wait_until

__all__ = ["broadcast_object", "gathered_words", "said_by_first"]

# The tag of messages of `said_by_first`.
SAID_TAG = 900
# What first processes have said of keys, by their ranks, and has not been asked for.
_said: dict[tuple[int, bytes], Any] = {}
# Messages that others may not have taken yet.
_sent: list[Any] = []


def broadcast_object(
    value: Any, comm: Any, what: str = "broadcast", ranks: Sequence[int] | None = None
) -> Any:
    """Returns an object of the process of rank 0, which is pickled for the others.

    Args:
        value: the object; others than that of rank 0 are not looked at.
        comm: the communicator; None for a process alone.
        what: what is broadcast, for messages.
        ranks: the processes of the communicator; None for all.
    """
    if comm is None:
        return value
    text = np.frombuffer(pickle.dumps(value), np.uint8) if comm.rank == 0 else None
    length = np.array([0 if text is None else text.size])
    wait(comm.Ibcast(length, 0), what, ranks)
    out = np.empty(int(length[0]), np.uint8) if text is None else text.copy()
    wait(comm.Ibcast(out, 0), what, ranks)
    return pickle.loads(out.tobytes())


def gathered_words(comm: Any, words: str, what: str, length: int = 64) -> list[str]:
    """Returns short words of all processes of a communicator.

    Args:
        comm: the communicator.
        words: those of this process.
        what: what is exchanged, for messages.
        length: how many bytes of them the others get.
    """
    own, rows = np.zeros(length, np.uint8), np.empty((comm.size, length), np.uint8)
    letters = words.encode()[:length]
    own[: len(letters)] = list(letters)
    wait(comm.Iallgather(own, rows), what)
    return [row.tobytes().rstrip(b"\0").decode(errors="ignore") for row in rows]


def said_by_first(comm: Any, ranks: Sequence[int], key: str, value: Any, what: str) -> Any:
    """Returns what the first of some processes says for a key. It waits for no other one.

    Each process calls it once for a key, at any time.

    Args:
        comm: a communicator that has the processes.
        ranks: their ranks in it.
        key: the key.
        value: what this process says; that of others than the first one is not looked at.
        what: what is said, in words, for messages.
    """
    first = ranks[0]
    digest = blake2b(f"{key} of {[*ranks]}".encode(), digest_size=16).digest()
    if comm.rank == first:
        _sent[:] = [request for request in _sent if not request.Test()]
        _sent.extend(comm.isend((digest, value), rank, SAID_TAG) for rank in ranks[1:])
        return value

    def came() -> bool:
        while (found := comm.improbe(first, SAID_TAG)) is not None:
            other, said = found.recv()
            _said[first, other] = said
        return (first, digest) in _said

    wait_until(came, what, [first])
    return _said.pop((first, digest))
