"""The places of a region's values in its grid, for blocks of NumPy's functions and for kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ....region_functions import LAST_AXIS_FUNCTIONS, REDUCTION_UFUNCS, ROW_FUNCTIONS
from ..codegen.operands import constant, is_variable
from .grid import Grid, Groups

if TYPE_CHECKING:
    from ....annotations import Axes, Shape
    from ..annotations import (
        EquationLike,
        GridPlace,
        Operand,
        RegionLike,
        VariableLike,
        VariableType,
    )

__all__ = ["BlockOutput", "RegionGrid", "divisor_of", "reordered_region"]


class BlockOutput(NamedTuple):
    """A result of a region.

    Attributes:
        type: its shape and dtype.
        axes: the permutation of its axes to the grid's order; None if they are in order.
        groups: the joined axes that it has.
        value: the value that a block writes into it; None for a reduction.
        reduction: the ufunc that puts the parts of all blocks together; empty without parts.
        rest: the shape of a part.
        divisor: the divisor of the sum.
    """

    type: VariableType
    axes: Axes | None
    groups: Groups = frozenset()
    value: Any = None
    reduction: str = ""
    rest: Shape = ()
    divisor: int = 1


class RegionGrid:
    """The grid of a region, its axes in an order of memory, and where values lie in it.

    Attributes:
        program: the program of the region.
        lengths: the lengths of the grid's axes.
        raw: for every variable the axes that it has.
        grid: the grid with its joined axes, once `join` is called.
        places: for every variable the joined axes that it has, from then on.

    Args:
        region: the region.
        order: another order of the grid's axes; None for that of the region.
    """

    def __init__(self, region: RegionLike, order: Sequence[int] | None) -> None:
        self.program = region.program
        self.lengths, self.raw = reordered_region(region, order)
        self._present = [frozenset(a for a in p if a is not None) for p in self.raw.values()]
        for equation in self.program.equations:
            self._present += axes_apart(equation, self.raw, len(self.lengths))
        self.grid: Grid
        self.places: dict[VariableLike, Groups]

    def keep_apart(self, axes: Iterable[frozenset[int]]) -> None:
        """Notes axes that something has without those beside them."""
        self._present += axes

    def join(self) -> Grid:
        """Joins neighbouring axes that all values have, or lack, together; returns the grid."""
        self.grid = Grid(self.lengths, self._present)
        self.places = {v: self.grid.groups(place) for v, place in self.raw.items()}
        return self.grid

    def brought(
        self, variable: VariableLike, given: Operand
    ) -> tuple[Groups, tuple[Axes | None, Shape] | None]:
        """Returns the joined axes that an input has, and what brings it to the grid.

        That is the permutation of its axes, or None, and its shape in the grid; None for a number.
        """
        # One element may be broadcast without a copy.
        same = not is_variable(given) and not any(getattr(constant(given), "strides", (1,)))
        groups = frozenset() if same else self.places[variable]
        # A number has no axes. An array of equal elements is used as a number.
        if groups:
            return groups, (self.axes_of(variable), self.grid.joined(groups))
        return groups, (None, ()) if variable.type.shape else None

    def axes_of(self, variable: VariableLike) -> Axes | None:
        """Returns the permutation of a value's axes to the grid's order; None if in order."""
        return transposition(self.raw[variable])

    def gone(self, equation: EquationLike) -> Groups:
        """Returns the joined axes that an equation reduces."""
        (source, *_), (out,) = equation.operands, equation.outputs
        return self.places[source] - self.places[out]

    def rows(self, equation: EquationLike) -> tuple[Groups, int]:
        """Returns the joined axes of the rows that a function needs whole, and their length."""
        first, name = equation.operands[0], equation.primitive.name
        last = [len(first.type.shape) - 1]
        taken = last if name in LAST_AXIS_FUNCTIONS else equation.params["axis"]
        groups = self.grid.groups([self.raw[first][a] for a in taken])
        return groups, prod(first.type.shape[a] for a in taken)


def divisor_of(equation: EquationLike) -> int:
    """Returns by what a reduction divides a sum."""
    shape = equation.operands[0].type.shape
    is_mean = equation.primitive.name == "mean"
    return prod(shape[a] for a in equation.params["axis"]) if is_mean else 1


def axes_apart(
    equation: EquationLike, places: Mapping[VariableLike, GridPlace], axes: int
) -> list[frozenset[int]]:
    """Returns the axes that must not be joined with others, since a function goes over some alone.

    Args:
        equation: an equation of a region.
        places: for every variable of the region the axes that it has.
        axes: the number of the grid's axes.
    """
    name = equation.primitive.name
    first = equation.operands[0]
    taken: set[int | None]
    if name in REDUCTION_UFUNCS or name in ROW_FUNCTIONS:
        taken = {places[first][a] for a in equation.params["axis"]}
    elif name in LAST_AXIS_FUNCTIONS:
        taken = {places[first][-1]}
    elif name == "matmul":
        taken = {1}
    else:
        return []
    return [frozenset(range(axes)) - taken]


def reordered_region(
    region: RegionLike, order: Sequence[int] | None
) -> tuple[Shape, Mapping[VariableLike, GridPlace]]:
    """Returns a region's grid and places with its axes in another order."""
    if order is None:
        return region.grid, region.places
    rank = {axis: number for number, axis in enumerate(order)}
    places = {
        v: tuple(None if axis is None else rank[axis] for axis in place)
        for v, place in region.places.items()
    }
    return tuple(region.grid[axis] for axis in order), places


def transposition(place: Sequence[int | None]) -> Axes | None:
    """Returns the permutation of a value's axes to the grid's order; None if they are in order."""
    axes = [axis for axis in place if axis is not None]
    if axes == sorted(axes):
        return None
    ranks = [-1 if axis is None else axis for axis in place]
    return tuple(sorted(range(len(place)), key=ranks.__getitem__))
