"""Complex numbers as pairs of nodes. Kernels know their parts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ....kernels.graph import Expr, ExprGraph, GridAxes, cast, joint_axes, select
from ....kernels.schedule import KernelResult

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = [
    *("AnyNode", "ComplexExpr", "by_parts", "complex_constant", "fold_node", "input_node"),
    *("kernel_result", "leading", "part_dtype", "spread_node", "to_complex"),
]

PART_DTYPES: dict[str, DType] = {"F": np.dtype(np.float32), "D": np.dtype(np.float64)}


class ComplexExpr:
    """A complex number at each point of some axes of the grid.

    Products are those of NumPy's loops, which round one of the two terms alone. Quotients are by
    the larger part of the divisor: R. L. Smith, Algorithm 116: Complex division, Communications of
    the ACM 5, 1962.

    Attributes:
        real, imag: its parts, which may have fewer axes.
    """

    __slots__ = ("imag", "real")

    def __init__(self, real: Expr, imag: Expr) -> None:
        self.real = real
        self.imag = imag

    @property
    def graph(self) -> ExprGraph:
        """The graph that it is of."""
        return self.real.graph

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return np.dtype(f"c{2 * self.real.dtype.itemsize}")

    @property
    def axes(self) -> GridAxes:
        """The axes that it has."""
        return joint_axes((self.real, self.imag))

    def __add__(self, other: ComplexExpr) -> ComplexExpr:
        return ComplexExpr(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: ComplexExpr) -> ComplexExpr:
        return ComplexExpr(self.real - other.real, self.imag - other.imag)

    def __neg__(self) -> ComplexExpr:
        return ComplexExpr(-self.real, -self.imag)

    def __mul__(self, other: ComplexExpr) -> ComplexExpr:
        fma = self.graph.fma
        return ComplexExpr(
            fma(self.real, other.real, -(self.imag * other.imag)),
            fma(self.real, other.imag, self.imag * other.real),
        )

    def __truediv__(self, other: ComplexExpr) -> ComplexExpr:
        by_real = abs(other.real) >= abs(other.imag)
        larger = select(by_real, other.real, other.imag)
        smaller = select(by_real, other.imag, other.real)
        share = smaller / larger
        scale = 1.0 / (larger + smaller * share)
        first = select(by_real, self.real, self.imag)
        second = select(by_real, self.imag, self.real)
        crossed = first * share
        difference = select(by_real, self.imag, crossed) - select(by_real, crossed, self.real)
        none = other.real.equals(0.0) & other.imag.equals(0.0)
        return ComplexExpr(
            select(none, self.real * np.inf, (first + second * share) * scale),
            select(none, self.imag * np.inf, difference * scale),
        )


AnyNode: TypeAlias = "Expr | ComplexExpr"


def part_dtype(dtype: DType) -> DType:
    """Returns the dtype of the parts of complex numbers."""
    return PART_DTYPES[dtype.char]


def leading(node: AnyNode) -> Expr:
    """Returns the real part of a complex number, or a real one."""
    return node.real if isinstance(node, ComplexExpr) else node


def by_parts(function: Callable[[Expr], Expr], node: AnyNode) -> Any:
    """Returns a function of a node, or of both parts of a complex one."""
    if isinstance(node, ComplexExpr):
        return ComplexExpr(function(node.real), function(node.imag))
    return function(node)


def input_node(graph: ExprGraph, number: int, dtype: DType, axes: GridAxes) -> AnyNode:
    """Returns the elements of an input."""
    if dtype.kind != "c":
        return graph.input(number, dtype, axes)
    part = part_dtype(dtype)
    return ComplexExpr(*[graph.input(number, part, axes, i) for i in range(2)])


def complex_constant(graph: ExprGraph, number: Any, dtype: DType) -> ComplexExpr:
    """Returns a number of a complex dtype."""
    value = np.asarray(number, dtype)[()]
    part = part_dtype(dtype)
    return ComplexExpr(graph.constant(value.real, part), graph.constant(value.imag, part))


def to_complex(node: AnyNode, dtype: DType) -> ComplexExpr:
    """Returns a number in a complex dtype."""
    part = part_dtype(dtype)
    if isinstance(node, ComplexExpr):
        return ComplexExpr(cast(node.real, part), cast(node.imag, part))
    return ComplexExpr(cast(node, part), node.graph.constant(0.0, part))


def spread_node(node: AnyNode, axes: GridAxes) -> Any:
    """Returns a node that has all of some axes."""
    return by_parts(lambda x: x if x.axes == axes else x.graph.spread(x, axes), node)


def fold_node(operation: str, node: AnyNode, axes: GridAxes) -> Any:
    """Returns the fold of a node over axes."""
    whole = spread_node(node, node.axes | axes)
    return by_parts(lambda x: x.graph.fold(operation, x, axes), whole)


def kernel_result(node: AnyNode, axes: GridAxes, divisor: int) -> KernelResult:
    """Returns a result of a kernel."""
    if isinstance(node, ComplexExpr):
        return KernelResult(node.real, axes, imag=node.imag)
    return KernelResult(node, axes, divisor)
