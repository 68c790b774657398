"""Graphs of kernels before there are loops: numbers at points of a grid, made of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..terms import FormulaTerm, select, term_function
from .operations import result_dtype

__all__ = [
    "Expr",
    "ExprGraph",
    "Gathering",
    "GridAxes",
    "Term",
    "bits",
    "cast",
    "function",
    "select",
]

# The numbers of the grid's axes that a node has: it is the same at all places of the others.
GridAxes: TypeAlias = frozenset[int]
EVERYWHERE: GridAxes = frozenset()


class Expr(FormulaTerm):
    """A number at each point of some axes of the grid.

    Nodes have Python's operators. Equal nodes of a graph are made once.

    Attributes:
        graph: the graph that it is of.
        operation: an operation or a function; ``constant``, ``input``, ``place`` or ``fold``;
            ``spread`` for the same along more axes; ``within`` for the place that a number names;
            ``gather`` for an element of an input at such places, which is a ``source``;
            ``library`` for a function of the C library where a mask is true.
        operands: the nodes that it is made of.
        dtype: its dtype.
        axes: the axes that it has.
        detail: the constant; the number of the input, with that of the part of its elements, or of
            the axis; the operation of a fold; the length of the axis that places are within; where
            elements are gathered; the name of the library's function.
    """

    __slots__ = ("axes", "detail", "dtype", "graph", "number", "operands", "operation")

    graph: ExprGraph
    axes: GridAxes
    dtype: np.dtype[Any]

    def __init__(
        self,
        graph: ExprGraph,
        operation: str,
        operands: tuple[Expr, ...],
        dtype: np.dtype[Any],
        axes: GridAxes,
        detail: Any = None,
    ) -> None:
        self.graph = graph
        self.operation = operation
        self.operands = operands
        self.dtype = dtype
        self.axes = axes
        self.detail = detail
        self.number = len(graph.nodes)

    def __repr__(self) -> str:
        return f"<{self.operation} {self.dtype} over {sorted(self.axes)}>"


class SourceArray(NamedTuple):
    """An input whose elements are gathered.

    Attributes:
        number: its number.
        elements: how many elements its memory has.
    """

    number: int
    elements: int


class Gathering(NamedTuple):
    """The places of an input at which elements are gathered.

    Attributes:
        number: the number of the input.
        terms: axes of the grid and their strides in the input, in elements.
        strides: the stride of each place that is an operand.
        begin: the first element.
    """

    number: int
    terms: tuple[tuple[int, int], ...]
    strides: tuple[int, ...]
    begin: int = 0


# A Python number takes the dtype of the node beside it.
Term: TypeAlias = "Expr | float | np.generic"


class ExprGraph:
    """Nodes over one grid.

    Attributes:
        lengths: the lengths of the grid's axes.
        nodes: all nodes, operands before what is made of them.
    """

    def __init__(self, lengths: Sequence[int] = ()) -> None:
        self.lengths = tuple(lengths)
        self.nodes: list[Expr] = []
        self._known: dict[Any, Expr] = {}

    def _made(
        self,
        operation: str,
        operands: tuple[Expr, ...],
        dtype: np.dtype[Any],
        axes: GridAxes,
        detail: Any = None,
        key: Any = None,
    ) -> Expr:
        known = operation, operands, dtype, axes, detail if key is None else key
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = Expr(self, operation, operands, dtype, axes, detail)
            self.nodes.append(found)
        return found

    def constant(self, number: Any, dtype: Any) -> Expr:
        """Returns a number of a dtype."""
        dtype = np.dtype(dtype)
        value = np.asarray(number, dtype)[()]
        return self._made("constant", (), dtype, EVERYWHERE, value, value.tobytes())

    def input(
        self, number: int, dtype: Any, axes: Iterable[int] = (), part: int | None = None
    ) -> Expr:
        """Returns the element of an input at each point.

        Args:
            number: the number of the input.
            dtype: the dtype of the node.
            axes: the axes that the input has.
            part: 0 for the real part of complex elements, and 1 for the imaginary part.
        """
        detail = number if part is None else (number, part)
        return self._made("input", (), np.dtype(dtype), frozenset(axes), detail)

    def op(self, operation: str, *operands: Term) -> Expr:
        """Returns an operation of nodes; numbers take the dtype of the nodes beside them."""
        nodes = self._as_nodes(operands, 1 if operation == "select" else 0)
        dtype = result_dtype(operation, [x.dtype for x in nodes])
        return self._made(operation, nodes, dtype, joint_axes(nodes))

    def limited(self, x: Expr, lowest: float, highest: float) -> Expr:
        """Returns x within limits; of two zeros its own."""
        if lowest != -np.inf:
            x = select(x < lowest, lowest, x)
        return select(x > highest, highest, x) if highest != np.inf else x

    def _as_nodes(self, operands: Sequence[Term], first: int) -> tuple[Expr, ...]:
        dtype = next((x.dtype for x in operands[first:] if isinstance(x, Expr)), None)
        return tuple([x if isinstance(x, Expr) else self.constant(x, dtype) for x in operands])

    def fma(self, x: Term, y: Term, z: Term) -> Expr:
        """Returns ``x * y + z`` of floats, rounded once."""
        return self.op("fma", x, y, z)

    def converted(self, operation: str, x: Expr, dtype: Any) -> Expr:
        """Returns ``cast``, the same number, or ``bits``, the same bits, in another dtype."""
        dtype = np.dtype(dtype)
        return x if x.dtype == dtype else self._made(operation, (x,), dtype, x.axes)

    def library(self, name: str, where: Expr, otherwise: Expr, *operands: Expr) -> Expr:
        """Returns a function of the C library where a mask is true: for rare, hard numbers."""
        nodes = where, otherwise, *operands
        return self._made("library", nodes, otherwise.dtype, joint_axes(nodes), name)

    def place(self, axis: int) -> Expr:
        """Returns the number of each place along an axis, of 32 bits."""
        return self._made("place", (), np.dtype(np.int32), frozenset([axis]), axis)

    def source(self, number: int, dtype: Any, elements: int) -> Expr:
        """Returns an input whose elements are gathered."""
        detail = SourceArray(number, elements)
        return self._made("source", (), np.dtype(dtype), EVERYWHERE, detail)

    def within(self, x: Expr, length: int) -> Expr:
        """Returns the places along an axis of some length that whole numbers name."""
        return self._made("within", (x,), np.dtype(np.int64), x.axes, length)

    def gather(self, dtype: Any, places: Sequence[Expr], where: Gathering) -> Expr:
        """Returns elements of an input at places that are ``within`` its axes."""
        axes = joint_axes(places) | {axis for axis, _ in where.terms}
        return self._made("gather", tuple(places), np.dtype(dtype), axes, where)

    def spread(self, x: Expr, axes: GridAxes) -> Expr:
        """Returns a node as one that has more axes; along them it is the same."""
        return self._made("spread", (x,), x.dtype, axes)

    def fold(self, operation: str, x: Expr, axes: Iterable[int]) -> Expr:
        """Returns the fold of a node over axes that it has, by ``add``, ``maximum`` and so on."""
        gone = frozenset(axes)
        return self._made("fold", (x,), x.dtype, x.axes - gone, operation, (operation, gone))


def input_place(x: Expr) -> tuple[int, int | None]:
    """Returns the number of an input, and the part of its elements; None for whole elements."""
    if x.operation == "source":
        return x.detail.number, None
    return x.detail if isinstance(x.detail, tuple) else (x.detail, None)


def joint_axes(nodes: Iterable[Expr]) -> GridAxes:
    """Returns the axes that any of some nodes has."""
    return EVERYWHERE.union(*[x.axes for x in nodes])


def cast(x: Expr, dtype: Any) -> Expr:
    """Returns the same number in another dtype."""
    return x.graph.converted("cast", x, dtype)


def bits(x: Expr, dtype: Any) -> Expr:
    """Returns the same bits as another dtype of that size."""
    return x.graph.converted("bits", x, dtype)


def function(name: str) -> Callable[..., Expr]:
    """Returns an operation of nodes as a function: ``sqrt = function("sqrt")``."""
    return term_function(name)
