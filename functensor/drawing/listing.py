"""The text of a diagram: a line for each value, in boxes by indentation, with aligned columns."""

from __future__ import annotations

from typing import NamedTuple

from .diagram import Box, Diagram, Node

__all__ = ["listing"]

INDENT = "  "


class Row(NamedTuple):
    """One line: letters with their indentation, a type, and what is computed; or a title alone."""

    letters: str
    type: str
    text: str


def listing(diagram: Diagram) -> str:
    """Returns the text of a diagram."""
    rows = [Row(diagram.box.title, "", ""), *rows_of(diagram.box, 1)]
    letters = max((len(row.letters) for row in rows if row.type), default=0)
    types = max((len(row.type) for row in rows), default=0)
    return "\n".join(
        f"{row.letters:{letters}}  {row.type:{types}}  {row.text}".rstrip()
        if row.type or row.text
        else row.letters
        for row in rows
    )


def rows_of(box: Box, level: int) -> list[Row]:
    """Returns the rows of what is in a box."""
    rows: list[Row] = []
    for item in box.items:
        if isinstance(item, Box):
            word = "scope " if item.kind == "scope" else ""
            rows.append(Row(f"{INDENT * level}{word}{item.title}", "", ""))
            rows += rows_of(item, level + 1)
        else:
            rows += node_rows(item, level)
    return rows


def node_rows(node: Node, level: int) -> list[Row]:
    """Returns the rows of a node: one for each value, the first with what is computed."""
    if not node.names:
        return [Row(INDENT * level, "", node.text)]
    first, *others = [Row(f"{INDENT * level}{name.letters}", name.type, "") for name in node.names]
    return [first._replace(text=node.text), *others]
