"""HTML of a large array for notebooks: a short table of facts, above some of its elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from ...backends.devices import to_host

__all__ = ["html_of"]

# The most elements of which the least, the greatest and the mean are computed.
MOST_SUMMARISED = 1_000_000
# Colours are those of the page, whether it is light or dark.
TABLE = "border-collapse: collapse; color: inherit; background: transparent; margin: 0"
CELL = "text-align: left; padding: 0.1em 0.8em; border: 1px solid; background: transparent"
TEXT_STYLE = "color: inherit; background: transparent; margin: 0.3em 0 0 0"


def html_of(x: Any, more: Mapping[str, object] | None = None) -> str | None:
    """Returns an array as HTML; None where its text says it better.

    That is an array whose text has all elements, and one that was donated and has none any more.

    Args:
        x: an array or a tensor whose values are known.
        more: what else to say of it, by names.

    >>> import functensor.numpy as np
    >>> html_of(np.ones((50, 50))).count("<td"), html_of(np.ones(2))
    (7, None)
    """
    buffer: Any = x._data
    if hasattr(type(buffer), "shown") or x.size <= np.get_printoptions()["threshold"]:
        return None
    elements = np.asarray(to_host(buffer))
    cells: dict[str, object] = {"type": type(x).__name__, "shape": x.shape, "dtype": x.dtype}
    cells |= {"device": x.device, **(more or {})}
    if str(x.device) == "cpu" and x.size <= MOST_SUMMARISED:
        cells.update(facts_of(elements))
    names = "".join(table_cell("th", name) for name in cells)
    values = "".join(table_cell("td", value) for value in cells.values())
    text = escape(np.array2string(elements, separator=", "))
    return (
        f'<div style="overflow-x: auto"><table style="{TABLE}">'
        f"<tr>{names}</tr><tr>{values}</tr></table></div>"
        f'<pre style="{TEXT_STYLE}">{text}</pre>'
    )


def table_cell(tag: str, value: object) -> str:
    """Returns a cell of a table."""
    return f'<{tag} style="{CELL}">{escape(str(value))}</{tag}>'


def facts_of(elements: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yields the least, the greatest and the mean of real numbers; how many booleans are true."""
    if elements.dtype.kind == "b":
        yield "true", f"{np.count_nonzero(elements)} of {elements.size}"
        return
    # A kind of its own has bfloat16, which NumPy's functions of floats do not take.
    if elements.dtype.name == "bfloat16" or elements.dtype == np.float16:
        elements = elements.astype(np.float32)
    if elements.dtype.kind not in "iuf":
        return
    finite = elements[np.isfinite(elements)]
    if finite.size:
        ends = {"min": finite.min(), "max": finite.max()}
        for name, end in ends.items():
            yield name, f"{end:.5g}" if finite.dtype.kind == "f" else str(end)
        # Without an overflow of sums.
        yield "mean", f"{finite.mean(dtype=np.float64):.5g}"
    if finite.size < elements.size:
        yield "not finite", str(elements.size - finite.size)
