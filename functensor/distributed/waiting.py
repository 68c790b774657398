"""The one place where a process waits for others: for requests of MPI."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from .failures import SECONDS_BETWEEN_LOOKS, Limit, late, news, seconds_before_telling

__all__ = ["wait", "wait_until"]

# Requests that an error, or Ctrl-C, has left: MPI may still write into the memory that they hold.
_left: list[Any] = []


def wait(request: Any, what: str, ranks: Sequence[int] | None = None) -> None:
    """Waits until a request of MPI is done; other processes may use the core meanwhile.

    Args:
        request: of a call that does not block.
        what: what it does, in words, for messages.
        ranks: of the processes that take part; None for all.

    Raises:
        DistributedError: another process has ended, or did not come in time.
    """
    try:
        wait_until(request.Test, what, ranks)
    except BaseException:
        _left.append(request)
        raise


def wait_until(
    done: Callable[[], Any],
    what: str,
    ranks: Sequence[int] | None = None,
    missing: Callable[[], Sequence[int]] | None = None,
) -> None:
    """Waits until something is done that takes other processes.

    Args:
        done: says whether it is, and has MPI go on with it.
        what, ranks: as for `wait`.
        missing: returns those of the processes that have not come; by default those that do not
            say that they wait.

    Raises:
        DistributedError: as for `wait`.
    """
    known = news()
    if known is not None and known.stale:
        known.go_on()
    begun = last = monotonic()
    token: object = None
    while not done():
        os.sched_yield()
        now = monotonic()
        if now - last < SECONDS_BETWEEN_LOOKS:
            continue
        last = now
        in_time = now - begun <= Limit.seconds
        if known is not None:
            known.check(what, ranks)
            if token is None and now - begun > seconds_before_telling():
                token = known.begin_wait(what)
            if not in_time:
                raise known.late(what, missing() if missing else known.silent(ranks)).error()
        elif missing is not None and not in_time:
            raise late(missing(), [f"this one waits for the {what}"]).error()
    if token is not None and known is not None:
        known.end_wait(token)
