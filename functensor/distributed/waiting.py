"""The one place where a process waits for others: for requests of MPI."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["wait"]


def wait(request: Any, what: str) -> None:
    """Waits until a request of MPI is done; other processes may use the core meanwhile.

    Args:
        request: of a call that does not block.
        what: what it does, in words, for messages.
    """
    while not request.Test():
        os.sched_yield()
