"""Objects and short words that processes give each other, on the host."""

from __future__ import annotations

import pickle  # of our own processes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .waiting import wait

__all__ = ["broadcast_object", "gathered_words"]


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
