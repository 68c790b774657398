"""Gathers in regions: elements of a whole array at places that numbers and axes of the grid name.

The array is no part of the grid. It is complete before the region runs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ..backends import get as get_backend
from ..backends.region_functions import GATHERS
from ..primitives.core.index_key import ARRAY, Layout
from ..programs.program import Equation, Variable, type_of
from .index_ranges import IndexRanges
from .region_proofs import GATHERED_FROM, Place, count_of_sources

__all__ = [
    "gather_place", "index_place", "indexed_lengths", "is_gather", "is_in_bounds", "is_slow_alone",
]  # fmt: skip

# On one thread NumPy gathers more elements by themselves as quickly as a kernel does, which tests
# indices before.
MOST_SINGLE_ELEMENTS = 1 << 14


def is_gather(equation: Equation) -> bool:
    """Says whether an equation takes elements of an array at places that only a run knows."""
    name = equation.primitive.name
    x = type_of(equation.operands[0]) if equation.operands else None
    if x is None or not x.shape or not x.size:
        return False
    return name in GATHERS and (name != "index" or bool(equation.params["key"].arrays))


def indexed_lengths(equation: Equation) -> list[int]:
    """Returns the lengths of the axes that the index arrays of a gather are for, in order."""
    if equation.primitive.name != "index":
        return []
    shape, native = type_of(equation.operands[0]).shape, equation.params["key"].native
    taken = sum(item is not None and item is not Ellipsis for item in native)
    lengths: list[int] = []
    axis = 0
    for item in native:
        if item is Ellipsis:
            axis += len(shape) - taken
        elif item is not None:
            if item == ARRAY:
                lengths.append(shape[axis])
            axis += 1
    return lengths


def is_slow_alone(equation: Equation) -> bool:
    """Says whether an equation gathers many single elements, not rows, which no threads share.

    NumPy does that as well.
    """
    if equation.primitive.name != "index" or not is_gather(equation):
        return False
    known = equation.outputs[0].type
    if known.size <= MOST_SINGLE_ELEMENTS or index_axes(equation) != (0, len(known.shape)):
        return False
    return get_backend("numpy").plan_threads() < 2


def is_in_bounds(
    equation: Equation, ranges: IndexRanges, among: Container[Variable] | None = None
) -> bool:
    """Says whether index arrays of a gather are proved to lie in bounds: those among some, or all.

    Constants are tested where the gather is staged.
    """
    return all(
        -length <= low and high < length
        for v, length in zip(equation.operands[1:], indexed_lengths(equation), strict=False)
        if type(v) is Variable and (among is None or v in among)
        for low, high in [ranges.of(v)]
    )


def index_axes(equation: Equation) -> tuple[int, int]:
    """Returns the first axis of the result that index arrays have, and the one behind the last."""
    x, *indices = map(type_of, equation.operands)
    layout = Layout(equation.params["key"], x.shape, [v.shape for v in indices])
    return layout.place, layout.place + len(layout.advanced)


def index_place(equation: Equation, place: Place, n: int) -> Place:
    """Returns where a gather whose result lies at a place takes its operand number n."""
    if n < count_of_sources(equation):
        return GATHERED_FROM
    if equation.primitive.name != "index":
        return place
    first, end = index_axes(equation)
    shape = type_of(equation.operands[n]).shape
    aligned = place[end - len(shape) : end] if shape else ()
    assert len(shape) <= end - first
    return tuple([None if length == 1 else axis for length, axis in zip(shape, aligned)])


def gather_place(equation: Equation, known: Mapping[Variable, Place]) -> dict[Variable, Place]:
    """Returns the places of index arrays as those of operands that broadcast to the result."""
    if not known or equation.primitive.name != "index":
        return dict(known)
    _, end = index_axes(equation)
    behind = len(equation.outputs[0].type.shape) - end
    return {v: (*place, *(None,) * behind) for v, place in known.items()}
