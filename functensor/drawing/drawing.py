"""The result of ``draw``: a picture through graphviz, or a text without it."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from ..backends.optional_modules import MissingExtraError, extra
from .diagram import Diagram
from .dot import dot_source
from .listing import listing

__all__ = ["Drawing"]

MISSING = (
    "{} is not installed: pip install 'functensor[draw]' brings the Python package, and "
    "apt install graphviz (Debian, Ubuntu) or conda install graphviz the program; "
    "str(drawing) needs neither"
)
SOURCES = (".dot", ".gv")


class Drawing:
    """A drawing of a program, as `draw` makes it; notebooks show its picture.

    Attributes:
        diagram: the boxes, nodes and edges.
        limit: how many nodes a picture may have.
    """

    def __init__(self, diagram: Diagram, limit: int) -> None:
        self.diagram = diagram
        self.limit = limit

    @property
    def dot(self) -> str:
        """The source of the picture, in graphviz's language DOT."""
        return dot_source(self.diagram)

    @cached_property
    def svg(self) -> str:
        """The picture, as the text of an SVG file.

        Raises:
            MissingExtraError: the Python package graphviz, or its program dot, is not installed.
            ValueError: the picture would have more nodes than its limit.
            RuntimeError: graphviz failed.
        """
        return self._rendered("svg").decode()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the picture to a file, in the format that the suffix of its name stands for.

        Args:
            path: ends with ``.svg``, ``.png``, ``.pdf`` or another format of graphviz; ``.dot`` and
                ``.gv`` stand for the source, and ``.txt`` for the text, which need no graphviz.

        Raises:
            ValueError: graphviz has no format of that suffix, or the picture would have more nodes
                than its limit.
            MissingExtraError: the Python package graphviz, or its program dot, is not installed.
            RuntimeError: graphviz failed; it may have been built without the format.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind in SOURCES:
            path.write_text(self.dot, encoding="utf-8")
        elif kind == ".txt":
            path.write_text(f"{self}\n", encoding="utf-8")
        elif kind == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        else:
            path.write_bytes(self._rendered(kind[1:]))

    def _nodes(self) -> int:
        """Returns how many nodes the picture has."""
        return sum(1 for _ in self.diagram.box.nodes())

    def _rendered(self, kind: str) -> bytes:
        """Returns the picture in a format, by graphviz."""
        number = self._nodes()
        if number > self.limit:
            raise ValueError(
                f"the picture would have {number} nodes, and its limit is {self.limit}: name parts "
                "of the function by ft.scope, which are folded then, or raise the limit, "
                f"ft.draw(f, limit={number}); str(drawing) has no limit"
            )
        try:
            graphviz = extra("graphviz", "draw")
        except MissingExtraError:
            raise MissingExtraError(MISSING.format("the Python package graphviz")) from None
        if kind not in graphviz.FORMATS:
            raise ValueError(
                f"graphviz has no format {kind!r}: name the file drawing.svg, .png or .pdf"
            )
        try:
            found: bytes = graphviz.Source(self.dot).pipe(format=kind, quiet=True)
        except graphviz.ExecutableNotFound:
            raise MissingExtraError(MISSING.format("graphviz's program dot")) from None
        except graphviz.CalledProcessError as error:
            words = error.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise RuntimeError(
                f"graphviz did not draw the picture as {kind}: {words}; fold parts of it by "
                "ft.draw(f, depth=1), or print the drawing as text"
            ) from None
        return found

    def _repr_svg_(self) -> str | None:
        # A notebook shows the text where there is no picture.
        try:
            return self.svg if self._nodes() <= self.limit else None
        except MissingExtraError:
            return None

    def __str__(self) -> str:
        return listing(self.diagram)

    __repr__ = __str__

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Drawing) and self.dot == other.dot and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.dot)
