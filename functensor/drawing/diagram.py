"""The parts of a picture of a program: nodes, boxes within boxes, and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Box", "BoxKind", "Diagram", "Edge", "Name", "Node", "NodeKind", "printable"]

NodeKind: TypeAlias = Literal["input", "constant", "operation", "output", "folded"]
BoxKind: TypeAlias = Literal["program", "scope", "call", "control", "body", "fused"]
# Texts that are longer lose their end.
LONGEST_TEXT = 60


class Name(NamedTuple):
    """A value of a program: its letters in the listing, and its shape and dtype."""

    letters: str
    type: str


class Node:
    """One operation, input, constant or output.

    Attributes:
        number: unique in the diagram.
        kind: its shape and colour.
        title: its first line in the picture.
        detail: its second line; empty where one is enough.
        names: the values that it defines, or shows.
        text: its words in the listing.
        line: the user's ``file:line``; empty where there is none.
        colour: the kind of the box that it stands for, if it is folded.
    """

    __slots__ = ("colour", "detail", "kind", "line", "names", "number", "text", "title")

    def __init__(
        self,
        number: int,
        kind: NodeKind,
        title: str,
        names: Sequence[Name],
        text: str,
        detail: str = "",
        line: str = "",
        colour: BoxKind | None = None,
    ) -> None:
        self.number = number
        self.kind = kind
        self.title = title
        self.names = tuple(names)
        self.text = text
        self.detail = detail
        self.line = line
        self.colour = colour


class Box:
    """Nodes and boxes that belong together: those of a scope, a call, a loop, a fused region.

    Attributes:
        number: unique in the diagram.
        kind: its colour.
        title: its name.
        items: its nodes and boxes, in the order of the program.
    """

    __slots__ = ("items", "kind", "number", "title")

    def __init__(self, number: int, kind: BoxKind, title: str) -> None:
        self.number = number
        self.kind = kind
        self.title = title
        self.items: list[Node | Box] = []

    def nodes(self) -> Iterator[Node]:
        """Yields its nodes and those of the boxes within it, in order."""
        for item in self.items:
            if isinstance(item, Box):
                yield from item.nodes()
            else:
                yield item

    def boxes(self) -> list[Box]:
        """Returns the boxes directly within it."""
        return [item for item in self.items if isinstance(item, Box)]

    def operations(self) -> int:
        """Returns how many operations it holds."""
        return sum(node.kind == "operation" for node in self.nodes())


class Edge(NamedTuple):
    """A value on its way from the node that makes it to one that takes it, by their numbers."""

    source: int
    target: int
    value: Name


class Diagram(NamedTuple):
    """A picture before it is laid out: the outermost box, and the edges of all boxes."""

    box: Box
    edges: list[Edge]


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Returns a text on one line, cut where it is long, with escapes for what cannot be seen.

    >>> printable("a" + chr(0) + chr(10)), printable("abcdef", 4)
    ('a\\\\x00\\\\n', 'abc…')
    """
    seen = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"
