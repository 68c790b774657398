"""The result of a profiled run, to print and to save as a page."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from .measured import Measured
from .page import page

__all__ = ["Report"]

# The text has so many rows of a table.
MOST_TEXT_ROWS = 20


class Report(Measured):
    """A profiled run of a function, as `profile` returns it.

    `Measured` has its attributes.
    """

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the report as one HTML page that needs neither a network nor other files.

        Args:
            path: where to write it: ``"profile.html"``.
        """
        Path(path).write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        within = sum(self.own_times)
        times = f"{milliseconds(self.total)} ms, {milliseconds(within)} ms of them in"
        memory = f"at most {self.peak:,} bytes alive"
        text = [
            f"{self.name}: {times} {len(self.events)} operations; {memory}",
            f"{'ms':>12} {'forward':>12} {'backward':>12} {'calls':>8} {'bytes':>16}  primitive",
        ]
        rows = self.by_primitive()
        text += [
            f"{milliseconds(row.time):>12} {milliseconds(row.forward):>12} "
            f"{milliseconds(row.backward):>12} {row.calls:>8} {row.bytes:>16,}  {row.name}"
            for row in rows[:MOST_TEXT_ROWS]
        ]
        if len(rows) > MOST_TEXT_ROWS:
            text.append(f"... and {len(rows) - MOST_TEXT_ROWS} more")
        return "\n".join(text)

    __repr__ = __str__


def milliseconds(nanoseconds: int) -> str:
    """Returns a time in milliseconds.

    >>> milliseconds(1234567)
    '1.235'
    """
    return f"{nanoseconds / 1e6:,.3f}"
