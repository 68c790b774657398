"""The page of a report: one HTML file with its style, its script and its data inside."""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import PurePath
from typing import Any, NamedTuple

from .measured import BACKWARD, Measured, Row
from .timeline import bars

__all__ = ["page"]

# A table has so many rows.
MOST_ROWS = 200
KEYS = (
    "Hover a bar for details. Click it, or go from operation to operation with ← and →; Enter "
    "zooms to the chosen one. + and − zoom, shift and an arrow move, 0 shows all. Drag to move; "
    "the wheel zooms with Ctrl, or after a click."
)
WATCHED = (
    "An operation whose way back is watched keeps all its operands until then. With "
    "profile(f, backward=False) what is made forward is kept for as long as in a plain run; what "
    "the way back makes is not seen."
)


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: its head.
        numeric: whether it holds numbers.
    """

    title: str
    numeric: bool = True


class Cell(NamedTuple):
    """A cell of a table: its HTML, and the number by which it is sorted."""

    html: str
    value: float = 0


ROW_COLUMNS = tuple(map(Column, ("time, ms", "share", "forward, ms", "backward, ms")))
ROW_COLUMNS += (Column("calls"), Column("bytes made"))


def page(report: Measured) -> str:
    """Returns the HTML of a report's page."""
    style, script = (read_text(name) for name in ("page.css", "page.js"))
    name = escape(report.name)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Profile of {name}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>Profile of <code>{name}</code></h1>
{summary(report)}
<h2>Timeline</h2>
<p id="keys">{KEYS}</p>
<div class="buttons">
<button id="zoom-in">Zoom in</button> <button id="zoom-out">Zoom out</button>
<button id="left" aria-label="Earlier">←</button> <button id="right" aria-label="Later">→</button>
<button id="all">All</button>
</div>
<svg id="timeline" tabindex="0" role="application" aria-label="Timeline of operations"
 aria-describedby="keys"></svg>
<output id="details" aria-live="polite">No operation is chosen.</output>
<h2>Memory</h2>
<p>{WATCHED if report.watched else ""}</p>
<svg id="memory" role="img" aria-label="{escape(peak_words(report))}"></svg>
<output id="alive">{escape(peak_words(report))}</output>
<h3>Alive at the peak</h3>
{holdings_table(report)}
<h2>Hottest lines</h2>
{rows_table("lines", ("line", "code"), report, report.by_line(), line_cells)}
<h2>Primitives</h2>
{rows_table("primitives", ("primitive",), report, report.by_primitive(), name_cells)}
<h2>Scopes</h2>
{rows_table("scopes", ("scope",), report, report.by_scope(), name_cells)}
</main>
<script type="application/json" id="data">{embedded(page_data(report))}</script>
<script>
{script}</script>
</body>
</html>
"""


def read_text(name: str) -> str:
    """Returns the text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def summary(report: Measured) -> str:
    """Returns the list of the most important numbers."""
    backward = sum(event.phase == BACKWARD for event in report.events)
    numbers = {
        "whole run": f"{report.total / 1e6:,.3f} ms",
        "in operations": f"{sum(report.own_times) / 1e6:,.3f} ms",
        "operations forward": f"{len(report.events) - backward:,}",
        "operations backward": f"{backward:,}",
        "peak memory": f"{report.peak:,} bytes",
    }
    parts = [f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in numbers.items()]
    rest = "The rest of the run is Python, transformations, and the recording itself."
    return f"<dl>{''.join(parts)}</dl>\n<p>{rest}</p>"


def peak_words(report: Measured) -> str:
    """Returns the sentence about the peak."""
    moment, most = report.peak_moment
    return f"At most {most:,} bytes are alive, at {moment / 1e6:,.3f} ms."


def page_data(report: Measured) -> dict[str, Any]:
    """Returns what the script draws: words are numbers of a list, since many come often."""
    words: dict[str, int] = {}

    def word(text: str) -> int:
        return words.setdefault(text, len(words))

    events = [
        [*map(word, (e.scope, e.line, e.phase, e.shapes)), e.bytes, e.batch_size]
        for e in report.events
    ]
    drawn = [[*bar[:4], word(bar.name), bar.event] for bar in bars(report.events)]
    return {
        "total": report.total,
        "events": events,
        "bars": drawn,
        "memory": report.memory,
        "peak": report.peak_moment,
        "words": list(words),
    }


def embedded(data: Any) -> str:
    """Returns data as JSON that may stand in a page: nothing in it ends the script.

    >>> embedded(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def rows_table(
    name: str,
    heads: Sequence[str],
    report: Measured,
    rows: Sequence[Row],
    named: Callable[[Row], list[Cell]],
) -> str:
    """Returns the table of rows, each with its time and its share of the time in operations."""
    whole = max(sum(report.own_times), 1)
    cells = [[*named(row), *row_cells(row, whole)] for row in rows[:MOST_ROWS]]
    columns = [*(Column(head, False) for head in heads), *ROW_COLUMNS]
    more = len(rows) - MOST_ROWS
    note = f"<p>{more:,} more take less time.</p>" if more > 0 else ""
    return table(name, columns, cells, sorted_by=len(heads)) + note


def code_cell(text: str) -> Cell:
    """Returns a cell of code."""
    return Cell(f"<code>{escape(text)}</code>")


def place_cell(line: str) -> Cell:
    """Returns the cell of a line of source, with the file's name alone."""
    return Cell(f'<span title="{escape(line)}">{escape(PurePath(line).name)}</span>')


def name_cells(row: Row) -> list[Cell]:
    """Returns the cell of a row's name."""
    return [code_cell(row.name)]


def line_cells(row: Row) -> list[Cell]:
    """Returns the cells of a line of source: where it is, and its text."""
    file, _, number = row.name.rpartition(":")
    code = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
    return [place_cell(row.name), code_cell(code)]


def row_cells(row: Row, whole: int) -> list[Cell]:
    """Returns the cells of a row's numbers."""
    share = row.time / whole
    part = f'<span class="share" style="--part: {share:.1%}">{share:.1%}</span>'
    times = [Cell(f"{t / 1e6:,.3f}", t) for t in (row.time, row.forward, row.backward)]
    return [
        times[0],
        Cell(part, share),
        *times[1:],
        Cell(f"{row.calls:,}", row.calls),
        Cell(f"{row.bytes:,}", row.bytes),
    ]


def holdings_table(report: Measured) -> str:
    """Returns the table of what was alive at the peak."""
    columns = [Column("bytes"), Column("arrays"), Column("type", False), Column("made by", False)]
    columns += [Column("scope", False), Column("line", False)]
    cells = []
    for held in report.at_peak()[:MOST_ROWS]:
        numbers = [Cell(f"{n:,}", n) for n in (held.bytes, held.arrays)]
        texts = map(code_cell, (held.type, held.maker, held.scope))
        cells.append([*numbers, *texts, place_cell(held.line)])
    return table("holdings", columns, cells, sorted_by=0)


def table(
    name: str, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], sorted_by: int
) -> str:
    """Returns a table that a click on a head sorts."""
    heads = []
    for place, column in enumerate(columns):
        kind = ' class="number"' if column.numeric else ""
        order = ' aria-sort="descending"' if place == sorted_by else ""
        heads.append(f'<th scope="col"{kind}{order}><button>{column.title}</button></th>')
    body = []
    for row in rows:
        cells = [
            f'<td class="number" data-value="{cell.value}">{cell.html}</td>'
            if column.numeric
            else f"<td>{cell.html}</td>"
            for cell, column in zip(row, columns, strict=True)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    inner = "\n".join(body)
    return (
        f'<div class="table"><table id="{name}">\n<thead><tr>{"".join(heads)}</tr></thead>\n'
        f"<tbody>\n{inner}\n</tbody></table></div>"
    )
