"""Prints functions such as ``exp`` as LLVM's text, by their formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..kernels.functions import expanded_together
from .instructions import Lines, constant, element_type, shown_type

if TYPE_CHECKING:
    from ..annotations import DType
    from ..kernels.graph import Expr

__all__ = ["FunctionPrinter"]


class FunctionPrinter:
    """Prints a function of some lanes by its formula, or several of the same operands as one.

    Attributes:
        kind: LLVM's type of what it returns.
    """

    def __init__(self, own: str, names: Sequence[str], dtype: DType, width: int) -> None:
        self.own = own
        self.dtype = dtype
        self.width = width
        self.lines = Lines()
        self.graph, self.results = expanded_together(tuple(names), dtype)
        one = self.lines.type(dtype, width)
        self.kind = one if len(names) == 1 else f"{{ {', '.join([one] * len(names))} }}"

    def text(self) -> str:
        """Returns the text of the function."""
        lines, width = self.lines, self.width
        lines.begin("entry")
        kind = lines.type(self.dtype, width)
        names: dict[Expr, str] = {}
        given = []
        for node in self.graph.nodes:
            if node.operation == "input":
                names[node] = f"%x{node.detail}"
                given.append(f"{kind} %x{node.detail}")
            elif node.operation == "constant":
                names[node] = constant(node.detail, width)
            elif node.operation == "library":
                names[node] = self._library(node, [names[x] for x in node.operands])
            else:
                operands = [names[x] for x in node.operands]
                taken = node.operands[1 if node.operation == "select" else 0].dtype
                names[node] = lines.operation(node.operation, node.dtype, operands, taken, width)
        found = names[self.results[0]]
        if len(self.results) > 1:
            found = "poison"
            for number, result in enumerate(self.results):
                part = f"{kind} {names[result]}, {number}"
                found = lines.let(f"insertvalue {self.kind} {found}, {part}")
        lines.add(f"ret {self.kind} {found}")
        head = f"define internal {self.kind} @{self.own}({', '.join(given)}) alwaysinline {{"
        return "\n".join([head, *lines.text, "}"])

    def _library(self, node: Expr, operands: Sequence[str]) -> str:
        """Writes the call of the C library's function for the lanes where a mask is true."""
        lines, width = self.lines, self.width
        mask, otherwise, *given = operands
        kind, element = lines.type(node.dtype, width), element_type(node.dtype)
        some = mask
        if width > 1:
            name = f"llvm.vector.reduce.or.v{width}i1"
            some = lines.call(name, "i1", [(shown_type("i1", width), mask)])
        rare, behind, before = lines.label("rare"), lines.label("behind"), lines.block
        lines.add(f"br i1 {some}, label %{rare}, label %{behind}")
        lines.begin(rare)
        called = f"{node.detail}{'f' if node.dtype.itemsize == 4 else ''}"
        found = self._by_lanes(called, element, given)
        chosen = f"{shown_type('i1', width)} {mask}, {kind} {found}, {kind} {otherwise}"
        found = lines.let(f"select {chosen}")
        lines.add(f"br label %{behind}")
        end = lines.block
        lines.begin(behind)
        return lines.let(f"phi {kind} [ {otherwise}, %{before} ], [ {found}, %{end} ]")

    def _by_lanes(self, called: str, element: str, given: Sequence[str]) -> str:
        lines, width = self.lines, self.width
        if width == 1:
            return lines.call(called, element, [(element, x) for x in given])
        kind = shown_type(element, width)
        found = "poison"
        for i in range(width):
            ones = [(element, lines.let(f"extractelement {kind} {x}, i32 {i}")) for x in given]
            one = lines.call(called, element, ones)
            found = lines.let(f"insertelement {kind} {found}, {element} {one}, i32 {i}")
        return found
