"""Tables of text, for the reports of hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar, get_args

from .scopes import BY

__all__ = ["report", "table"]

Sums = TypeVar("Sums")


def report(
    head: str,
    titles: Sequence[str],
    sums: Callable[[BY], Mapping[tuple[str, str], Sums]],
    cells: Callable[[Sums], tuple[Any, ...]],
) -> str:
    """Returns a line, and tables of what was added up, the largest numbers first.

    Args:
        head: the line.
        titles: those of the columns of numbers.
        sums: returns what was added up, by names of primitives or of scopes, and phases.
        cells: returns the numbers of a row. The rows with the largest first number come first.
    """
    parts = [head]
    for by in get_args(BY):
        found = sums(by)
        rows = [(*cells(x), phase, name or "(all)") for (name, phase), x in found.items()]
        rows.sort(key=itemgetter(0), reverse=True)
        if by == "primitive" or any(name for name, _ in found):
            parts.append(table([*titles, "phase", by], rows))
    return "\n\n".join(parts)


def table(titles: Sequence[str], rows: Sequence[Sequence[str | int | float]]) -> str:
    """Returns rows below their titles, in columns: numbers to the right, text to the left.

    >>> print(table(["ms", "name"], [(1234.5, "sin"), (2.0, "multiply")]))
           ms  name
    1,234.500  sin
        2.000  multiply
    """
    numeric = [all(not isinstance(x, str) for x in column) for column in zip(*rows, strict=True)]
    numeric = numeric or [False] * len(titles)
    shown = [list(titles), *([cell(x) for x in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in shown
    ]
    return "\n".join(lines)


def cell(x: str | int | float) -> str:
    """Returns the text of a cell."""
    return x if isinstance(x, str) else f"{x:,}" if isinstance(x, int) else f"{x:,.3f}"
