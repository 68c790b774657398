"""The table that people read, and the same as JSON."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.measure import Row, Statistic


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def milliseconds(seconds: float | None) -> str:
    """Three significant digits of a time in ms."""
    if seconds is None:
        return "-"
    value = 1e3 * seconds
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{min(digits, 4)}f}"


def decimal(value: float | None) -> str:
    """Two decimals, or a dash."""
    return "-" if value is None else f"{value:.2f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells under each other: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]
        ).rstrip()
        for line in lines
    )


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; the first line has the columns' titles."""
    heading, *rest = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([heading, "|---" * len(lines[0]) + "|", *rest])


def status(problems: Sequence[str]) -> int:
    """Prints each problem once; returns the status with which a process ends."""
    print("".join(f"PROBLEM {problem}\n" for problem in dict.fromkeys(problems)), end="")
    return 1 if problems else 0


def mean_ratios(
    rows: Sequence[Row], subject: str, peers: Sequence[str], statistic: Statistic
) -> dict[str, float | None]:
    """Each peer's geometric mean of the subject's ratios over the rows that both ran."""
    return {
        peer: geometric_mean(
            [ratio for row in rows if (ratio := row.ratio(subject, peer, statistic)) is not None]
        )
        for peer in peers
    }


def title(row: Row) -> str:
    """The row's first cell: the workload, marked * if it trains, and whether it is forward only."""
    trains = any(outcome["trained"] is not None for outcome in row.outcomes.values())
    return f"{row.workload}{'*' if trains else ''}{' forward' if row.mode == 'forward' else ''}"


def table(rows: Sequence[Row], subject: str, peers: Sequence[str], statistic: Statistic) -> str:
    """Milliseconds of each peer and, in brackets, the subject's time over the peer's.

    The column `others` is the number of cores that other processes kept busy meanwhile.
    """
    others = [peer for peer in peers if peer != subject]
    with_ratios = subject in peers
    lines = [["workload", "threads", "others", *([subject] if with_ratios else []), *others]]
    for row in rows:
        cells = [title(row), str(row.threads), decimal(row.others)]
        if with_ratios:
            cells.append(milliseconds(row.seconds(subject, statistic)))
        for peer in others:
            cell = milliseconds(row.seconds(peer, statistic))
            if with_ratios:
                cell += f" [{decimal(row.ratio(subject, peer, statistic))}]"
            cells.append(cell)
        lines.append(cells)
    if with_ratios:
        means = mean_ratios(rows, subject, others, statistic)
        brackets = [f"[{decimal(means[peer])}]" for peer in others]
        lines.append(["geometric mean", "", "", "", *brackets])
    return aligned(lines)


def machine() -> dict[str, Any]:
    """The machine that figures are taken on."""
    return {
        "platform": platform.platform(),
        "processor": platform.processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }


def as_json(
    tables: Sequence[Sequence[Row]], subject: str, versions: dict[str, str], statistic: Statistic
) -> dict[str, Any]:
    """Everything that was measured; times in seconds."""
    peers = list(versions)
    return {
        "machine": machine(),
        "versions": versions,
        "subject": subject,
        "statistic": statistic,
        "tables": [
            {
                "rows": [
                    asdict(row)
                    | {
                        "seconds": {peer: row.seconds(peer, statistic) for peer in peers},
                        "ratios": {peer: row.ratio(subject, peer, statistic) for peer in peers},
                    }
                    for row in rows
                ],
                "geometric_means": mean_ratios(rows, subject, peers, statistic),
            }
            for rows in tables
        ],
    }
