"""Parts of NumPy's work that threads take one after the other.

The parts are the same whoever computes them, and so are the bits of results. Nobody has measured
the work on one thread. What sharing has saved or cost is estimated by the processor's time that the
calling thread takes for its own parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from ....restoring import errstate
from .balance import balance
from .pool import has_callers, share, threads

__all__ = ["are_threads_free", "done_by_threads"]


def are_threads_free() -> bool:
    """Says whether threads may share work now."""
    return threads.number > 1 and perf_counter() >= balance.rests_until and not has_callers()


def done_by_threads(work: Callable[[Iterable[Any]], Any], parts: Sequence[Any]) -> bool:
    """Calls a function in several threads, with those parts that each of them takes.

    Args:
        work: a function of an iterator of parts. It writes the same however often it is called.
        parts: the parts, in any order.

    Returns:
        False if the caller is to do the work: where one thread is as quick, or where NumPy has
        something to say of overflow or invalid values, which only the caller's thread may tell.
    """
    number = min(threads.number, len(parts))
    if number < 2 or not are_threads_free():
        return False
    begun = perf_counter()
    treatment = np.geterr()
    told = {kind: "raise" for kind, choice in treatment.items() if choice != "ignore"}
    waiting, caller = iter(parts), get_ident()
    taken, worked = 0, -thread_time()

    def own_parts() -> Iterator[Any]:
        nonlocal taken, worked
        for part in waiting:
            taken += 1
            yield part
        worked += thread_time()

    def some() -> None:
        parts = own_parts() if get_ident() == caller else waiting
        if not told:
            work(parts)
            return
        with errstate(**{**treatment, **told}):
            work(parts)

    try:
        share(some, number)
    except FloatingPointError:
        if not told:
            raise
        return False
    if taken:
        end = perf_counter()
        balance.add(worked * len(parts) / taken - (end - begun), end)
    return True
