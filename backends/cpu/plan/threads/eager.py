"""Work that the pool's helpers share outside of plans, where it pays.

A hand-off takes tens of microseconds. Where other processes want the cores, a helper may begin a
part and lose its core for milliseconds, in which the caller waits for it. So it is noted what
sharing has saved, and it rests where it has cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Any

from ....blas_threads import controlled
from . import pool as pools

__all__ = ["Balance", "PoolErrand", "balance", "send", "share_parts", "share_work"]

# More errands do not wait for helpers: they keep the memory of their operands.
MOST_WAITING = 3
# Sharing rests once it has cost so many seconds. What it saved earlier counts less with every
# piece.
MOST_LOST, LEFT_OF_EARLIER = 0.002, 0.9
# It rests for so many pieces of work at first, and for twice as many if it has not saved as much in
# between, up to so many.
FEWEST_RESTED, MOST_RESTED = 200, 3200


class Balance:
    """What sharing has saved of late, in seconds.

    Attributes:
        saved: that number; it is negative where sharing has cost time.
        resting: how many pieces of work are not to be shared.
        next_rest: how many it will be the next time.
    """

    __slots__ = ("next_rest", "resting", "saved")

    def __init__(self) -> None:
        self.saved = 0.0
        self.resting = 0
        self.next_rest = FEWEST_RESTED

    def pays(self) -> bool:
        """Says whether the next piece of work is to be shared."""
        if self.resting:
            self.resting -= 1
        return not self.resting

    def note(self, seconds: float) -> None:
        """Notes what a piece of work has saved."""
        self.saved = LEFT_OF_EARLIER * self.saved + seconds
        if self.saved > MOST_LOST:
            self.next_rest = FEWEST_RESTED
        elif self.saved < -MOST_LOST:
            self.saved = 0.0
            self.resting = self.next_rest
            self.next_rest = min(2 * self.next_rest, MOST_RESTED)


balance = Balance()


def may_share() -> bool:
    """Says whether there are helpers who may compute products, and whether it pays now."""
    return pools.threads.number > 1 and controlled() is not None and balance.pays()


def share_work(work: Callable[[], Any], number: int) -> None:
    """Calls a function on at most a number of threads, where that pays; else once.

    Every call takes its share of the work from an iterator that all have.
    """
    if number < 2 or not may_share():
        work()
        return
    spent: list[float] = []

    def timed() -> None:
        begun = thread_time()
        work()
        spent.append(thread_time() - begun)

    begun = perf_counter()
    pools.share(timed, number)
    # Without helpers it would have taken what all threads have spent.
    balance.note(sum(spent) - (perf_counter() - begun))


def share_parts(work: Callable[[Any], Any], parts: Sequence[Any]) -> None:
    """Calls a function with each of some parts, on several threads where that pays."""
    waiting = iter(parts)

    def some() -> None:
        for part in waiting:
            work(part)

    share_work(some, min(pools.threads.number, len(parts)))


class PoolErrand:
    """A function that a helper calls once, or that its sender calls in the end."""

    __slots__ = ("_job", "_pool", "_returned", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        returned: list[tuple[Any, float]] = []

        def run() -> None:
            begun = thread_time()
            out = work()
            returned.append((out, thread_time() - begun))

        self._returned = returned
        self._pool = pools.pool
        self._job = pools.Job(run, 1)
        self._pool.jobs.put(self._job)

    def __repr__(self) -> str:
        return f"<an errand, {'done' if self._returned else 'not done'}>"

    def result(self) -> Any:
        """Returns what the function returned, or raises what it raised."""
        work, job = self._work, self._job
        # The child of a fork has no helpers: none ends what one had begun.
        if self._taken_back() or self._pool is not pools.pool:
            assert work is not None
            return work()
        begun = perf_counter()
        while not job.ended:
            pools.wait(job, 1)
        raised = job.ended[0]
        if raised is not None:
            raise raised
        out, spent = self._returned[0]
        balance.note(spent - (perf_counter() - begun))
        return out

    def call_back(self) -> None:
        """Gives up the work, unless a helper has begun it."""
        self._taken_back()
        self._work = None

    def _taken_back(self) -> bool:
        """Says whether no helper has begun it, and keeps them from it."""
        try:
            self._job.tickets.pop()
        except IndexError:
            return False
        # The job stays in the queue, and must not keep the arrays.
        del self._job.work
        return True


def send(work: Callable[[], Any]) -> PoolErrand | None:
    """Sends a function to a helper; returns None where there is none, or too much waits for it."""
    helpers = pools.threads.number - 1
    if not may_share() or pools.pool.jobs.qsize() >= MOST_WAITING:
        return None
    if pools.pool.started < helpers:
        pools.pool.grow(helpers)
    pools.pool.make_room()
    return PoolErrand(work)
