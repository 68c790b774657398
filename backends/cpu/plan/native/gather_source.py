"""Inputs of kernels whose elements are gathered, at places all over the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .complex_nodes import part_dtype
from .layouts import extent

if TYPE_CHECKING:
    from ....annotations import DType, Shape
    from ....kernels.graph import Expr, ExprGraph

__all__ = ["GatherSource"]


class GatherSource(NamedTuple):
    """An input whose elements are gathered.

    Attributes:
        number: its number.
        dtype, shape: its own.
        strides: the strides of its axes, in elements.
    """

    number: int
    dtype: DType
    shape: Shape
    strides: Sequence[int]

    @property
    def elements(self) -> int:
        """The numbers in its memory, from the first element to the last one."""
        return (1 + (self.dtype.kind == "c")) * extent(self.shape, self.strides)

    def node(self, graph: ExprGraph) -> Expr:
        """Returns its node."""
        dtype = part_dtype(self.dtype) if self.dtype.kind == "c" else self.dtype
        return graph.source(self.number, dtype, self.elements)
