"""The bodies of loops while they are written, and what is done in them."""

from __future__ import annotations

from typing import NamedTuple

from .graph import Expr, GridAxes
from .kernel import Buffer, LoopValue, Statement

__all__ = ["Scope", "Sink", "leftover"]


class Scope:
    """The statements of a loop's body, and what is known in it.

    Attributes:
        axes: the axes of the loops around it, the outermost first.
    """

    def __init__(self, outer: Scope | None = None, axis: int = -1) -> None:
        self.outer = outer
        self.axes: tuple[int, ...] = () if outer is None else (*outer.axes, axis)
        self.statements: list[Statement] = []
        self.values: dict[Expr, LoopValue] = {}

    def find(self, node: Expr) -> LoopValue | None:
        """Returns the value of a node, if it is known here."""
        scope: Scope | None = self
        while scope is not None:
            if node in scope.values:
                return scope.values[node]
            scope = scope.outer
        return None

    def home(self, axes: GridAxes) -> Scope:
        """Returns the outermost scope that has some axes."""
        scope = self
        while scope.outer is not None and axes <= set(scope.outer.axes):
            scope = scope.outer
        return scope


class Sink(NamedTuple):
    """Work at all places of some axes: a store, or a fold.

    Attributes:
        node: what is stored, or the fold.
        axes: the axes of the loops around it.
        buffer: where it goes; None for a fold that is needed in the same scope alone.
        over: the axes of a fold.
        part: the part of elements that it is; None for whole elements.
        imag: what is stored as the imaginary part, beside the node as the real part.
    """

    node: Expr
    axes: tuple[int, ...]
    buffer: Buffer | None
    over: GridAxes = frozenset()
    part: int | None = None
    imag: Expr | None = None

    @property
    def needed(self) -> tuple[Expr, ...]:
        """The nodes that it stores or folds."""
        if self.over:
            return self.node.operands
        return (self.node,) if self.imag is None else (self.node, self.imag)


def leftover(sink: Sink) -> bool:
    """Says whether a fold leaves axes that lie within those that it goes over."""
    return any(a > min(sink.over, default=len(sink.axes) + 64) for a in sink.node.axes)
