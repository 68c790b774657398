"""The derivatives of pooling as nodes: each element takes from the windows that have it.

The windows along an axis are counted back from the last one that begins at or before the element.
They are added up in eager mode's order, which is that of the places in the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....kernels.graph import Expr, ExprGraph, Gathering, cast, select
from .layouts import unjoined

if TYPE_CHECKING:
    from ..annotations import EquationLike
    from .gather_source import GatherSource

__all__ = ["AXES_IN_FRONT", "SpreadAxes", "is_short_enough"]

# Axes before the spatial ones: the batch and the channels.
AXES_IN_FRONT = 2
# Numbers of 32 bits are divided by a factor and a shift; products of shorter axes are exact.
QUOTIENT_BITS = 16


class Crossing(NamedTuple):
    """A window of each element along an axis, of those that may have it.

    Attributes:
        window: the number of the window.
        place: the place of the element in it.
        inside: where there is such a window, and it has the element; None everywhere.
    """

    window: Expr
    place: Expr
    inside: Expr | None


class SpreadAxes(NamedTuple):
    """The windows that elements take values of.

    Attributes:
        equation: the equation, of ``avg_pool_grad`` or ``pool_scatter``.
        sources: the values of windows, and the places that have won.
        place: the axes of the grid that its result has.
    """

    equation: EquationLike
    sources: Sequence[GatherSource]
    place: Sequence[int | None]

    @property
    def indexed(self) -> Sequence[tuple[int, int]]:
        """The axes that index arrays are for: none."""
        return ()

    def unjoined_axes(self, lengths: Sequence[int]) -> Iterator[frozenset[int]]:
        """Yields sets of the grid's axes that are not joined with axes outside of their set."""
        for axis in self.place[AXES_IN_FRONT:]:
            if axis is not None:
                yield frozenset([axis])
        for source in self.sources:
            pairs = zip(self.place[:AXES_IN_FRONT], source.strides)
            slices = {axis: stride for axis, stride in pairs if axis is not None}
            yield frozenset(slices)
            yield from unjoined(slices, lengths)

    def node(self, graph: ExprGraph, indices: Sequence[Expr], groups: Sequence[int]) -> Expr:
        """Returns the result."""
        windows = self.equation.params["windows"]
        along = [self._crossings(graph, i, groups) for i in range(len(windows.window))]
        values = [self._value(graph, parts, groups) for parts in product(*along)]
        overlap = [s < k for k, s in zip(windows.window, windows.stride)]
        if self.equation.primitive.name == "pool_scatter":
            return summed_in_order(values, any(overlap))
        for crossings, adds in zip(along, overlap):
            behind = len(values) // len(crossings)
            values = [summed_in_order(values[i::behind], adds) for i in range(behind)]
        return values[0]

    def _crossings(self, graph: ExprGraph, number: int, groups: Sequence[int]) -> list[Crossing]:
        """Returns the windows along a spatial axis, the last one first."""
        windows = self.equation.params["windows"]
        window, stride = windows.window[number], windows.stride[number]
        before = windows.padding[number][0]
        axis = self.place[AXES_IN_FRONT + number]
        count = self.sources[0].shape[AXES_IN_FRONT + number]
        length = self.equation.outputs[0].type.shape[AXES_IN_FRONT + number]
        place = graph.constant(0, np.int32) if axis is None else graph.place(groups[axis])
        place = place + before
        last = floor_of_quotient(place, stride)
        found: list[Crossing] = []
        for back in range(-(-window // stride)):
            number_of = last - back
            within = place - number_of * stride
            tests: list[Expr] = []
            if back:
                tests.append(number_of >= 0)
            if (length - 1 + before) // stride - back >= count:
                tests.append(number_of < count)
            if (back + 1) * stride > window:
                tests.append(within < window)
            found.append(Crossing(number_of, within, all_of(tests)))
        return found

    def _value(self, graph: ExprGraph, parts: Sequence[Crossing], groups: Sequence[int]) -> Expr:
        """Returns what an element takes of one of its windows; zero where it takes nothing."""
        windows = self.equation.params["windows"]
        counts = self.sources[0].shape[AXES_IN_FRONT:]
        places = [graph.within(x.window, n) for x, n in zip(parts, counts, strict=True)]
        elements = []
        for source in self.sources:
            terms = [
                (groups[axis], source.strides[number])
                for number, axis in enumerate(self.place[:AXES_IN_FRONT])
                if axis is not None
            ]
            where = Gathering(source.number, tuple(terms), tuple(source.strides[AXES_IN_FRONT:]))
            elements.append(graph.gather(source.dtype, places, where))
        value, *winners = elements
        tests = [x.inside for x in parts if x.inside is not None]
        if not winners:
            value = value / prod(windows.window)
        for winner in winners:
            number = graph.constant(0, np.int32)
            for x, length in zip(parts, windows.window):
                number = number * length + x.place
            tests.append(winner.equals(cast(number, winner.dtype)))
        inside = all_of(tests)
        return value if inside is None else select(inside, value, 0)


def summed_in_order(values: Sequence[Expr], from_zero: bool) -> Expr:
    """Returns a sum in order; ``from_zero`` says whether it begins with zero."""
    first, *others = values
    total = first.graph.constant(0, first.dtype) + first if from_zero else first
    for x in others:
        total = total + x
    return total


def all_of(tests: Sequence[Expr]) -> Expr | None:
    """Returns where all tests hold; None for no test."""
    found: Expr | None = None
    for test in tests:
        found = test if found is None else found & test
    return found


def floor_of_quotient(place: Expr, divisor: int) -> Expr:
    """Returns numbers of 32 bits, none of them negative, divided and rounded down."""
    if divisor & (divisor - 1) == 0:
        return place >> divisor.bit_length() - 1 if divisor > 1 else place
    return place * ((1 << QUOTIENT_BITS) // divisor + 1) >> QUOTIENT_BITS


def is_short_enough(length: int, stride: int) -> bool:
    """Says whether all places of an axis, with its padding, can be divided by a stride."""
    return stride & (stride - 1) == 0 or length * stride < 1 << QUOTIENT_BITS
