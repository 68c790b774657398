"""Statements that were timed, and their times."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["UNITS", "Measurement", "TaskSpec"]

# How far apart the middle half of times is, by their median, where a measurement warns.
NOISY = {
    0.25: "This suggests significant environmental influence.",
    0.1: "This could indicate system fluctuation.",
}
# From so many times on the middle half of them is shown.
FEWEST_SHOWN = 4
# The least width of a median, in seconds, what a mean is known by, and the most digits shown.
CLOCK_SECONDS, NINETY_PERCENT, MOST_FIGURES = 25e-9, 1.645, 4
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


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
    def significant_figures(self) -> int:
        """The number of digits of the median that are more than chance, 1 to 4.

        A digit counts where the width of the confidence interval of 90 % of the middle half's mean,
        and of what the clock can tell, is no more than a unit of it.
        """
        times = sorted(self.times)
        middle = times[len(times) // 4 : -(-3 * len(times) // 4)]
        width = max(NINETY_PERCENT * float(np.std(middle)) / len(middle) ** 0.5, CLOCK_SECONDS)
        return int(min(max(np.floor(np.log10(self.median / width)), 1), MOST_FIGURES))

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
