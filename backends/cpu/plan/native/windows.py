"""Pooling as nodes: each element of a window is gathered, and all are folded in eager mode's order.

For an element of the padding the nearest element is gathered, and a constant chosen in its place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....kernels.graph import Expr, ExprGraph, Gathering, function, select
from ...eager_ways import FEWEST_CHANNELS, MOST_WINDOW_ELEMENTS
from ...pooling import lowest
from ..codegen.operands import is_variable
from .layouts import unjoined
from .machine_dtypes import WHOLE_DTYPES
from .spreads import AXES_IN_FRONT, SpreadAxes, is_short_enough

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike
    from .gather_source import GatherSource

__all__ = ["LONGEST_GRID_AXIS", "WindowAxes", "is_native_windowed", "windowed_axes"]

# Primitives whose results are longer than what they take elements of.
SPREADS = frozenset({"avg_pool_grad", "pool_scatter"})
ORDERED_DTYPES = f"fd{WHOLE_DTYPES}?"
# The dtypes of their operands.
POOLED_DTYPES = {
    **dict.fromkeys(("max_pool", "max_pool_argmax"), (ORDERED_DTYPES,)),
    **dict.fromkeys(("avg_pool", "avg_pool_grad"), ("fd",)),
    **dict.fromkeys(("pool_scatter", "pool_take"), ("fd", WHOLE_DTYPES)),
}
# In shorter rows too many windows reach into the padding: their elements are gathered one by one.
SHORTEST_PADDED = 128
# NumPy is quicker for more elements with a stride above 2.
MOST_STRIDED_ELEMENTS = 1 << 17
# Kernels number places along an axis, with those of the padding, in 32 bits.
LONGEST_GRID_AXIS = 1 << 30

maximum = function("maximum")


class PlaceInWindow(NamedTuple):
    """The place of one element of each window along an axis.

    Attributes:
        terms: the axis of the grid, with its stride.
        begin: the first element.
        place: a node with the places in all windows, if some lie in the padding; None otherwise.
        stride: the stride of that node.
        inside: a node that says which places lie outside of the padding; None if all do.
    """

    terms: tuple[tuple[int, int], ...] = ()
    begin: int = 0
    place: Expr | None = None
    stride: int = 0
    inside: Expr | None = None


class WindowAxes(NamedTuple):
    """The places of the elements of windows.

    Attributes:
        equation: the equation.
        sources: what it takes elements of, alone.
        place: the axes of the grid that its result has.
    """

    equation: EquationLike
    sources: Sequence[GatherSource]
    place: Sequence[int | None]

    @property
    def source(self) -> GatherSource:
        """The array of which elements are taken."""
        return self.sources[0]

    @property
    def indexed(self) -> Sequence[tuple[int, int]]:
        """The axes that index arrays are for: none."""
        return ()

    def unjoined_axes(self, lengths: Sequence[int]) -> Iterator[frozenset[int]]:
        """Yields sets of the grid's axes that are not joined with axes outside of their set."""
        slices: dict[int, int] = {}
        strides = [1] * AXES_IN_FRONT + list(self.equation.params["windows"].stride)
        for number, axis in enumerate(self.place):
            if axis is not None:
                slices[axis] = strides[number] * self.source.strides[number]
                if number >= AXES_IN_FRONT:
                    yield frozenset([axis])
        yield frozenset(slices)
        yield from unjoined(slices, lengths)

    def node(self, graph: ExprGraph, indices: Sequence[Expr], groups: Sequence[int]) -> Expr:
        """Returns the result; the index of ``pool_take`` is the place that it takes."""
        name, windows = self.equation.primitive.name, self.equation.params["windows"]
        dtype = self.source.dtype
        front = {
            groups[axis]: self.source.strides[number]
            for number, axis in enumerate(self.place[:AXES_IN_FRONT])
            if axis is not None
        }
        along = [
            [self._along(graph, number, k, groups) for k in range(length)]
            for number, length in enumerate(windows.window)
        ]
        other = lowest(dtype) if name.startswith("max_pool") else 0
        elements = [
            self._element(graph, tuple(front.items()), parts, other) for parts in product(*along)
        ]
        if name == "max_pool_argmax":
            return first_largest(elements, self.equation.outputs[0].type.dtype)
        if name == "pool_take":
            return taken_elements(elements, indices[0])
        folded = folded_windows(name, elements, windows.window)
        return folded / prod(windows.window) if name == "avg_pool" else folded

    def _along(self, graph: ExprGraph, number: int, k: int, groups: Sequence[int]) -> PlaceInWindow:
        """Returns where the element number k of all windows lies along a spatial axis."""
        windows = self.equation.params["windows"]
        axis = self.place[AXES_IN_FRONT + number]
        stride = self.source.strides[AXES_IN_FRONT + number]
        length = self.source.shape[AXES_IN_FRONT + number]
        count = self.equation.outputs[0].type.shape[AXES_IN_FRONT + number]
        first, step = k - windows.padding[number][0], windows.stride[number]
        if first >= 0 and first + (count - 1) * step < length:
            terms = () if axis is None else ((groups[axis], step * stride),)
            return PlaceInWindow(terms, first * stride)
        place = graph.constant(first, np.int32)
        if axis is not None:
            place = graph.place(groups[axis])
            place = (place if step == 1 else place * step) + first
        inside = (place >= 0) & (place < length)
        return PlaceInWindow((), 0, graph.within(place, length), stride, inside)

    def _element(
        self,
        graph: ExprGraph,
        front: tuple[tuple[int, int], ...],
        parts: Sequence[PlaceInWindow],
        other: Any,
    ) -> Expr:
        """Returns an element of each window; a constant in place of one of the padding."""
        places = [x.place for x in parts if x.place is not None]
        where = Gathering(
            self.source.number,
            (*front, *[term for x in parts for term in x.terms]),
            tuple([x.stride for x in parts if x.place is not None]),
            sum(x.begin for x in parts),
        )
        found = graph.gather(self.source.dtype, places, where)
        inside: Expr | None = None
        for x in parts:
            if x.inside is not None:
                inside = x.inside if inside is None else inside & x.inside
        return found if inside is None else select(inside, found, other)


def first_largest(elements: Sequence[Expr], dtype: DType) -> Expr:
    """Returns the number of the first element that is the largest one, or the first NaN."""
    best, *others = elements
    graph = best.graph
    winner = graph.constant(0, dtype)
    for number, x in enumerate(others, 1):
        here = graph.constant(number, dtype)
        if best.dtype.kind not in "biu":
            # A comparison with NaN is false, and nothing is after one.
            better = select(best.equals(best), here, winner)
            winner = select(x <= best, winner, better)
        else:
            winner = select(x > best, here, winner)
        best = maximum(best, x)
    return winner


def taken_elements(elements: Sequence[Expr], winner: Expr) -> Expr:
    """Returns the elements whose numbers are given, as a sum: it has no zero with a sign."""
    graph, dtype = winner.graph, winner.dtype
    parts = [
        select(winner.equals(graph.constant(number, dtype)), x, 0)
        for number, x in enumerate(elements)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def folded_windows(name: str, elements: Sequence[Expr], window: Sequence[int]) -> Expr:
    """Returns the largest element of windows, or their sum: along one axis after the other."""
    rest = list(elements)
    for length in window:
        behind = len(rest) // length
        folded = rest[:behind]
        for k in range(1, length):
            step = rest[k * behind : (k + 1) * behind]
            pairs = zip(folded, step, strict=True)
            folded = [x + y if name == "avg_pool" else maximum(x, y) for x, y in pairs]
        rest = folded
    return rest[0]


def windowed_axes(
    equation: EquationLike, sources: Sequence[GatherSource], place: Sequence[int | None]
) -> WindowAxes | SpreadAxes:
    """Returns where the elements of windows lie, or the windows of elements.

    Args:
        equation: the equation.
        sources: what it takes elements of.
        place: the axes of the grid that its result has.
    """
    kind = SpreadAxes if equation.primitive.name in SPREADS else WindowAxes
    return kind(equation, sources, place)


def is_native_windowed(equation: EquationLike, orders: Container[object]) -> bool:
    """Says whether kernels compute an equation of windows in less time than NumPy.

    Args:
        equation: the equation.
        orders: the variables whose channels lie last.
    """
    name, params = equation.primitive.name, equation.params
    windows, out = params["windows"], equation.outputs[0].type
    if not params.get("count_include_pad", True) and any(map(any, windows.padding)):
        return False
    if not 1 < prod(windows.window) <= MOST_WINDOW_ELEMENTS or not all(out.shape):
        return False
    for x, dtypes in zip(equation.operands, POOLED_DTYPES[name], strict=True):
        if not is_variable(x) or x.type.dtype.char not in dtypes or not x.type.dtype.isnative:
            return False
    types = [x.type for x in equation.operands if is_variable(x)]
    if max(n for known in (*types, out) for n in known.shape) >= LONGEST_GRID_AXIS:
        return False
    if any(x in orders for x in equation.operands):
        # Axes of a single place have no place in the order of the others.
        if min(n for known in (*types, out) for n in known.shape) < 2:
            return False
        if out.shape[1] < FEWEST_CHANNELS:
            return False
        lengths = [n + sum(pad) for n, pad in zip(out.shape[AXES_IN_FRONT:], windows.padding)]
        return name not in SPREADS or all(map(is_short_enough, lengths, windows.stride))
    if name in SPREADS:
        return False
    x = types[0]
    if any(windows.padding[-1]) and windows.stride[-1] == 1 and x.shape[-1] < SHORTEST_PADDED:
        return False
    return not (windows.stride[-1] > 2 and x.size > MOST_STRIDED_ELEMENTS)
