"""The results of kernels, in the words of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .efforts import gone
from .graph import Expr, GridAxes

__all__ = ["KernelResult"]


class KernelResult(NamedTuple):
    """A result of a kernel.

    Attributes:
        node: its element at each point; a fold over the first axis for a part of each block.
        axes: the axes that it has, at least those of the node.
        divisor: what a fold over the first axis is divided by in the end, for a mean.
        imag: the imaginary part of complex elements, whose real part the node is. Of a fold over
            the first axis it is such a fold, too, and nothing is divided.
        strides: those of its axes, where it lies in a part of an array; None in C order.
    """

    node: Expr
    axes: GridAxes
    divisor: int = 1
    imag: Expr | None = None
    strides: Mapping[int, int] | None = None

    @property
    def nodes(self) -> tuple[Expr, ...]:
        """The parts of its elements."""
        return (self.node,) if self.imag is None else (self.node, self.imag)

    @property
    def late(self) -> bool:
        """Says whether it is complete only after all blocks: each makes a part."""
        return self.node.operation == "fold" and 0 in gone(self.node)
