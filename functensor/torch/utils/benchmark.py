"""PyTorch's timers of statements: ``torch.utils.benchmark``.

>>> from functensor.torch.utils.benchmark import Timer
>>> measured = Timer("x + x", setup="x = torch.ones(3)").timeit(10)
>>> measured.number_per_run, len(measured.times), measured.median > 0
(10, 1, True)
"""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from .. import cuda
from ..settings import get_num_threads, set_num_threads

__all__ = ["Measurement", "TaskSpec", "Timer", "timer"]

# No statement takes less, in seconds.
LEAST_SECONDS = 1e-9
# A block is so long that reading the clock takes no greater part of it, and at least this part of
# all time; no block has more runs.
CLOCK_PART, BLOCK_PART, MOST_RUNS = 1e-4, 1e-3, 2**31 - 1
# How far apart the middle half of times is, by their median, where a measurement warns.
NOISY = {
    0.25: "This suggests significant environmental influence.",
    0.1: "This could indicate system fluctuation.",
}
# From so many times on the middle half of them is shown.
FEWEST_SHOWN = 4
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def timer() -> float:
    """Returns the seconds of a clock, once GPUs have computed all that they were given."""
    if cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


@dataclass(frozen=True)
class TaskSpec:
    """A statement that is timed, and what it is called.

    Attributes:
        stmt, setup: the statement, and what runs once before it.
        label, sub_label, description, env: how it is named.
        num_threads: how many threads it may use.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        named = self.label is not None or "\n" not in self.stmt
        if named:
            text = self.stmt if self.label is None else self.label
            return f"{text}: {self.sub_label}" if self.sub_label else text
        below = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{below}\n{textwrap.indent(self.stmt, '  ')}"

    def summarize(self) -> str:
        """Returns the title, the description and the setup."""
        shown = "" if self.setup == "pass" else self.setup
        if shown:
            lines = f"\n{textwrap.indent(shown, '  ')}" if "\n" in shown else f" {shown}"
            shown = f"setup:{lines}"
        parts = [x for x in (self.title, self.description or "", shown) if x]
        return "\n".join(f"{x}\n" if "\n" in x else x for x in parts)


class Measurement:
    """The times of a statement.

    Args:
        number_per_run: how often it ran for each time.
        raw_times: the times, in seconds.
        task_spec: the statement.
        metadata: the user's own.
    """

    def __init__(
        self, number_per_run: int, raw_times: list[float], task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.task_spec = task_spec
        self.metadata = metadata

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """The seconds of one run, from each of the times."""
        return [x / self.number_per_run for x in self.raw_times]

    def _quantile(self, part: float) -> float:
        return float(np.quantile(self.times, part))

    @property
    def median(self) -> float:
        """The median of the seconds of one run."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean of the seconds of one run."""
        return float(np.mean(self.times))

    @property
    def iqr(self) -> float:
        """The width of the middle half of the times, in seconds."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def title(self) -> str:
        """The label, or the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Says whether the middle half of the times is close, as a part of their median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """True where the times are far apart."""
        return not self.meets_confidence()

    def __repr__(self) -> str:
        median, count, threads = self.median, len(self.raw_times), self.task_spec.num_threads
        unit, size = next((x for x in UNITS if median >= x[1]), UNITS[-1])
        ends = [self._quantile(part) / size for part in (0.25, 0.75)]
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{median / size:.2f} {unit}")
        if count >= FEWEST_SHOWN:
            lines.append(
                f"  IQR:    {self.iqr / size:.2f} {unit} ({ends[0]:.2f} to {ends[1]:.2f})"
            )
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {self.number_per_run} runs "
            f"{'per measurement,' if count > 1 else ','} {threads} "
            f"thread{'s' if threads > 1 else ''}"
        )
        for limit, text in NOISY.items():
            if not self.meets_confidence(limit):
                part = self.iqr / median * 100
                lines.append(
                    f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.\n"
                    f"           {text}"
                )
                break
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Returns one measurement of all times of each statement."""
        together: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            together.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, times, spec) for spec, times in together.items()]


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
