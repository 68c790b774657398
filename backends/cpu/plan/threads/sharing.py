"""Measures, for each piece of a plan's work, whether it is quicker on several threads than on one.

A hand-off to another thread takes tens of microseconds, and more where other processes want its
core. So the first calls of a piece run by turns on one thread and on several, and the quicker way
stays. It is measured again now and then, since other processes begin and end. The work is cut into
the same parts either way, so that results have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from .pool import share

__all__ = ["MeasuredSharing", "given_number"]

# The calls of each way whose times are compared, and how many of the slowest do not count.
MEASURED_CALLS, SLOWEST_CALLS = 8, 2
# Work is shared if several threads take less than this part of the time of one thread.
MOST_OF_ONE_THREADS_TIME = 0.95
# Work that takes longer on one thread, in seconds, is shared: a hand-off costs little beside it.
LONG_WORK = 0.005
# Both ways are measured again after so many seconds, or so many times the difference of what they
# took, if that is longer.
SECONDS_BETWEEN, TIMES_BETWEEN = 0.25, 20
# So many calls lie between in any case: those of a long program take seconds.
CALLS_BETWEEN = 400
# It is decided after so many calls of each way where all of one are quicker than all of the other.
FEWEST_CALLS = 3


class MeasuredSharing:
    """Shares the work of one place in a plan among threads where that is quicker.

    Attributes:
        pays: whether sharing was quicker when it was last measured.

    Args:
        long: work that takes longer on one thread, in seconds, is shared without a measurement.
        calls: how many calls lie between two measurements in any case.
        shares: shares work among at most a number of threads; `share` without it.
    """

    __slots__ = ("_calls", "_left", "_long", "_next", "_shares", "_times", "pays")

    def __init__(
        self,
        long: float = LONG_WORK,
        calls: int = CALLS_BETWEEN,
        shares: Callable[[Callable[..., Any], int], None] | None = None,
    ) -> None:
        self.pays = False
        self._calls = calls
        self._long = long
        self._shares = shares
        self._next = 0.0
        self._left = 0
        # The times of calls on one thread, and of those on several.
        self._times: tuple[list[float], list[float]] = [], []

    def __repr__(self) -> str:
        return f"<sharing that {'pays' if self.pays else 'does not pay'}>"

    def __call__(self, work: Callable[[], Any], number: int) -> None:
        """Does what `share` does, on one thread or on at most a number of them."""
        if number < 2:
            work()
            return
        begun = perf_counter()
        self._left -= 1
        asks = self._left < 0 and begun >= self._next
        alone, shared = self._times
        several = len(shared) < len(alone) if asks else self.pays
        self.shared(work, number if several else 1)
        if asks:
            self._note(several, perf_counter() - begun)

    def shared(self, work: Callable[..., Any], number: int) -> None:
        """Does work on at most a number of threads."""
        (share if self._shares is None else self._shares)(work, number)

    def _note(self, several: bool, seconds: float) -> None:
        """Notes the time of a call, and decides once there are enough."""
        alone, shared = self._times
        (shared if several else alone).append(seconds)
        most = MOST_OF_ONE_THREADS_TIME
        # Calls of other threads that began before the last decision are noted behind it.
        enough = min(len(alone), len(shared)) >= FEWEST_CALLS
        if (not several and seconds > self._long) or (enough and max(shared) < most * min(alone)):
            self._decide(True)
        elif enough and min(shared) > max(alone):
            self._decide(False)
        elif min(len(alone), len(shared)) >= MEASURED_CALLS:
            self._decide(score(shared) < most * score(alone))

    def _decide(self, pays: bool) -> None:
        self.pays = pays
        alone, shared = self._times
        wait = max(SECONDS_BETWEEN, TIMES_BETWEEN * abs(sum(alone) - sum(shared)))
        self._times = [], []
        self._left = self._calls
        self._next = perf_counter() + wait


def score(times: list[float]) -> float:
    """Returns the mean time of calls but for the slowest."""
    counted = sorted(times)[:-SLOWEST_CALLS]
    return sum(counted) / len(counted)


def given_number(work: Callable[[int], Any], number: int) -> None:
    """Calls a function with the number of threads that may do its work."""
    work(number)
