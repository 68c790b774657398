"""Tables that compare measured times: rows of statements, columns of descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log10
from typing import NamedTuple

from .measurements import UNITS, Measurement

__all__ = ["Compare"]

UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# How a time is shown that is at most so many times the best, and at least.
CLOSE_STYLES = ((1.01, "\033[92m\033[1m"), (1.1, "\033[34m\033[1m"))
FAR_STYLES = ((5.0, "\033[31m\033[1m"), (2.0, "\033[2m\033[91m"))
STYLE_END = "\033[0m\033[0m"
NOISE_TEXT = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"


class ComparedRow(NamedTuple):
    """The words that the times of one row have in common."""

    num_threads: int
    env: str
    name: str


class ComparedTime(NamedTuple):
    """A time of a table: its number, its warning, and the colours before it."""

    number: str = ""
    noise: str = ""
    style: str = ""


class Compare:
    """A table of measured times, one for each label.

    A measurement's ``sub_label`` or statement, its threads and its ``env`` choose the row, its
    ``description`` the column. Several of one statement are taken together.

    Args:
        results: measurements, as a `Timer` gives them.

    >>> from functensor.torch.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def measured(seconds, name, way):
    ...     return Measurement(1, [seconds], TaskSpec("", "", "", "sums", name, way))
    >>> text = str(Compare([measured(2e-6, "short", "loop"), measured(1e-6, "short", "sum")]))
    >>> print("\\n".join(text.splitlines()[:4]))
    [---------- sums ----------]
                 |  loop  |  sum
    1 threads: -----------------
          short  |  2.0   |  1.0
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trimmed = False
        self._warns = False
        # Where the times are that one is compared with: "row"; "column", of the same
        # threads; or None for no colours.
        self._coloured: str | None = None
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements.

        Raises:
            ValueError: one is something else; nothing is added.
        """
        several = list(results)
        for each in several:
            if not isinstance(each, Measurement):
                raise ValueError(f"Compare: a result is a Measurement, not {type(each).__name__}")
        self._results += several

    def trim_significant_figures(self) -> None:
        """Shows no digits that are chance, by `Measurement.significant_figures`."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times by how far they are from the best of their column, or of their row."""
        self._coloured = "row" if rowwise else "column"

    def highlight_warnings(self) -> None:
        """Shows beside times of which the middle half is far apart how far."""
        self._warns = True

    def print(self) -> None:
        """Prints the tables."""
        print(self)

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for each in Measurement.merge(self._results):
            groups.setdefault(each.task_spec.label, []).append(each)
        return "\n".join([self._table(label or "", several) for label, several in groups.items()])

    def _table(self, label: str, results: list[Measurement]) -> str:
        """Returns the table of one label."""
        least = min(each.median for each in results)
        unit, size = next((x for x in UNITS if least >= x[1]), UNITS[-1])
        columns = list(dict.fromkeys([each.task_spec.description or "" for each in results]))
        places = {(row_of(each), each.task_spec.description or ""): each for each in results}
        found = dict.fromkeys([row for row, _ in places])
        rows = sorted(found, key=lambda row: (row.num_threads, row.env))
        cells = [self._column(rows, name, places, size) for name in columns]
        widths = [
            max(len(name), *[len(cell.number + cell.noise) for cell in column])
            for name, column in zip(columns, cells, strict=True)
        ]
        several_envs = len({row.env for row in rows}) > 1
        env = max(len(row.env) for row in rows) + 2 if several_envs else 2
        titles = [
            f"  {f'({row.env})' if several_envs and new else '':{env}}  {row.name}"
            for row, new in zip(rows, changes(rows), strict=True)
        ]
        start = max(map(len, titles))
        head = [name.center(width) for name, width in zip(columns, widths, strict=True)]
        lines = ["  |  ".join([" " * start, *head])]
        whole = len(lines[0])
        threads = None
        for i, row in enumerate(rows):
            if row.num_threads != threads:
                threads = row.num_threads
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            texts = [text_of_time(column[i], w) for column, w in zip(cells, widths, strict=True)]
            lines.append("  |  ".join([titles[i].ljust(start), *texts]))
        lines.insert(0, f"[{f' {label} '.center(whole - 2, '-')}]")
        noise = NOISE_TEXT if self._warns and any(x.has_warnings for x in results) else ""
        return "\n".join([*lines, "", f"Times are in {UNIT_WORDS[unit]} ({unit}).", noise])

    def _beside(self, one: tuple[ComparedRow, str], other: tuple[ComparedRow, str]) -> bool:
        """Says whether times in two places are compared."""
        if self._coloured == "row":
            return one[0] == other[0]
        return one[1] == other[1] and one[0].num_threads == other[0].num_threads

    def _column(
        self,
        rows: list[ComparedRow],
        name: str,
        places: dict[tuple[ComparedRow, str], Measurement],
        size: float,
    ) -> list[ComparedTime]:
        """Returns the cells of one column."""
        column = [places.get((row, name)) for row in rows]
        known = [each for each in column if each is not None]
        values = {id(each): each.median / size for each in known}
        digits = {id(each): ceil(log10(values[id(each)])) for each in known}
        behind = 1
        if self._trimmed:
            behind = max(min(x.significant_figures - digits[id(x)] for x in known), 0)
            for x in known:
                values[id(x)] = round(values[id(x)], x.significant_figures - digits[id(x)])
        width = max([1, *digits.values()]) + behind + (behind > 0)
        noisy = self._warns and any(each.has_warnings for each in known)
        found = []
        for row, each in zip(rows, column, strict=True):
            if each is None:
                found.append(ComparedTime())
                continue
            style = ""
            if self._coloured is not None:
                others = [x for key, x in places.items() if self._beside(key, (row, name))]
                style = style_of(each.median / min(x.median for x in others))
            noise = f" (! {each.iqr / each.median * 100:.0f}%)" if each.has_warnings else ""
            number = f"{values[id(each)]:{width}.{behind}f}"
            found.append(ComparedTime(number, noise if noisy else "", style))
        longest = max([len(cell.noise) for cell in found])
        # The space before a warning is left out where there is none.
        return [
            x._replace(noise=x.noise.ljust(longest if x.noise else max(longest - 1, 0)))
            if x.number else x
            for x in found
        ]  # fmt: skip


def row_of(each: Measurement) -> ComparedRow:
    """Returns the row that a measurement stands in."""
    return ComparedRow(each.task_spec.num_threads, each.task_spec.env or "", each.as_row_name)


def changes(rows: list[ComparedRow]) -> list[bool]:
    """Says for every row whether its threads or its ``env`` are others than in the row above."""
    return [i == 0 or row[:2] != rows[i - 1][:2] for i, row in enumerate(rows)]


def style_of(ratio: float) -> str:
    """Returns the colours of a time that is so many times the best."""
    close = [style for limit, style in CLOSE_STYLES if ratio <= limit]
    far = [style for least, style in FAR_STYLES if ratio >= least]
    return next(iter(close + far), "")


def text_of_time(cell: ComparedTime, width: int) -> str:
    """Returns the text of a cell."""
    text = (cell.number + cell.noise).center(width)
    return f"{cell.style}{text}{STYLE_END}" if cell.style else text
