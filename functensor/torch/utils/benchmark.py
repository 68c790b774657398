"""PyTorch's timers of statements: ``torch.utils.benchmark``.

>>> from functensor.torch.utils.benchmark import Timer
>>> measured = Timer("x + x", setup="x = torch.ones(3)").timeit(10)
>>> measured.number_per_run, len(measured.times), measured.median > 0
(10, 1, True)
"""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable
from typing import Any

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from .. import cuda
from ..settings import get_num_threads, set_num_threads
from .compared_times import Compare
from .measurements import Measurement, TaskSpec

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]

# No statement takes less, in seconds.
LEAST_SECONDS = 1e-9
# A block is so long that reading the clock takes no greater part of it, and at least this part of
# all time; no block has more runs.
CLOCK_PART, BLOCK_PART, MOST_RUNS = 1e-4, 1e-3, 2**31 - 1

def timer() -> float:
    """Returns the seconds of a clock, once GPUs have computed all that they were given."""
    if cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


def dedented(text: str) -> str:
    """Returns lines of code without the space that all begin with, and without empty ones."""
    return textwrap.dedent(text).removeprefix("\n").rstrip()


class Timer:
    """Times a statement, after it has warmed up, with a given number of threads.

    Args:
        stmt: the statement; ``torch`` is known to it.
        setup: runs once before.
        timer: the clock; by default one that waits for GPUs.
        globals: the names that the statement knows.
        label, sub_label, description, env: how it is named.
        num_threads: how many threads it may use.
        global_setup, language: of PyTorch's C++; must be left as they are.

    Raises:
        ValueError: the statement is no string, or is of another language.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise ValueError("Timer: the statement is a string")
        if global_setup or language not in ("py", "python", 0):
            raise ValueError("Timer: statements are Python's, without a global_setup")
        check_function("Timer", timer, "timer")
        from ... import torch

        names = {"torch": torch, **(globals or {})}
        stmt, setup = dedented(stmt), dedented(setup)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _seconds(self, number: int) -> float:
        """Returns how long some runs take."""
        return max(self._timer.timeit(number), LEAST_SECONDS)

    def _threaded(self, measure: Callable[[], Any]) -> Any:
        """Returns what a function gives while the statement's threads are set."""
        before = get_num_threads()
        try:
            set_num_threads(self._spec.num_threads)
            return measure()
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Returns the time of some runs, after a hundredth as many, and 2 at least."""

        def measure() -> list[float]:
            self._seconds(max(number // 100, 2))
            return [self._seconds(number)]

        return Measurement(number, self._threaded(measure), self._spec)

    def _block(self, min_run_time: float) -> int:
        """Returns of how many runs it is that the clock takes no part in their time."""
        overhead = sorted(self._seconds(0) for _ in range(5))[2]
        number = 1
        while True:
            spent = self._seconds(number)
            long_enough = spent >= min_run_time * BLOCK_PART
            if (overhead / spent <= CLOCK_PART and long_enough) or spent > min_run_time:
                return number
            if number * 10 > MOST_RUNS:
                return number
            number *= 10

    def _blocks(
        self, least: float, most: float | None, enough: Callable[[Measurement], bool],
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:  # fmt: skip
        """Returns the times of as many blocks as are needed."""

        def measure() -> Measurement:
            number = self._block(least)
            found = Measurement(number, [], self._spec)
            done = False
            while not done or sum(found.raw_times) < least:
                found.raw_times.append(self._seconds(number))
                if callback is not None:
                    callback(number, found.raw_times[-1])
                done = enough(found)
                if most is not None and sum(found.raw_times) > most:
                    break
            return found

        out: Measurement = self._threaded(measure)
        return out

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Returns the times of blocks of runs, which take some seconds together.

        Args:
            callback: is called with the number of runs of every block and its seconds.
            min_run_time: the seconds.
        """
        return self._blocks(min_run_time, None, lambda found: True, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Returns the times of blocks of runs, as many as bring the middle half close together.

        Args:
            threshold: how close, as a part of the median.
            min_run_time, max_run_time: the fewest and the most seconds.
            callback: as for `blocked_autorange`.
        """
        return self._blocks(
            min_run_time, max_run_time,
            lambda found: len(found.raw_times) > 3 and found.meets_confidence(threshold), callback,
        )  # fmt: skip


publish(globals())
