"""The one place where a process waits for others: for requests of MPI."""

from __future__ import annotations

import os
from time import monotonic
from typing import Any

from .failures import SECONDS_BEFORE_TELLING, SECONDS_BETWEEN_LOOKS, Limit, news

__all__ = ["wait"]


def wait(request: Any, what: str) -> None:
    """Waits until a request of MPI is done; other processes may use the core meanwhile.

    Args:
        request: of a call that does not block.
        what: what it does, in words, for messages.

    Raises:
        DistributedError: another process has ended, or did not come in time.
    """
    known = news()
    begun = last = monotonic()
    told = False
    while not request.Test():
        os.sched_yield()
        now = monotonic()
        if known is None or now - last < SECONDS_BETWEEN_LOOKS:
            continue
        last = now
        known.check(what)
        if not told and now - begun > min(SECONDS_BEFORE_TELLING, Limit.seconds / 4):
            told = True
            known.tell("waits", what)
        if now - begun > Limit.seconds:
            raise known.late(what)
    if told and known is not None:
        known.tell("goes on")
