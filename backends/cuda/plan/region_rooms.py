"""The memory of a region's kernels: where nodes lie, and what is kept between kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ...kernels.efforts import needed_nodes
from ...kernels.graph import Expr, input_place
from .kernel_text import Argument, Room
from .points import ordered_strides

if TYPE_CHECKING:
    from ...annotations import DType, Shape

__all__ = ["RegionRooms", "ScratchArray"]

# Places of arrays with fewer elements have 32 bits.
FEWEST_FAR_PLACES = 2**31


class ScratchArray(NamedTuple):
    """Memory between kernels."""

    shape: Shape
    dtype: DType


class RegionRooms:
    """The memory of a region's kernels.

    Attributes:
        rooms: where the nodes lie that are in memory.
        scratch: the memory between kernels.
        place_type: the type of places in memory.

    Args:
        lengths: the lengths of the grid's axes.
        inputs: the nodes of the inputs.
        strides: for inputs that lie in another order, by their numbers, the strides of their axes.
        numbers: the inputs that are numbers, passed by value.
        width: how many elements are loaded at once, at most.
        lanes: how many threads go over a row or add up a column; 1 for a processor without warps.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        inputs: Sequence[Expr],
        strides: Mapping[int, Mapping[int, int]],
        numbers: Iterable[int],
        width: int,
        lanes: int,
    ) -> None:
        self.lengths = tuple(lengths)
        self.width = width
        self.lanes = lanes
        self.scratch: list[ScratchArray] = []
        size = max(prod(lengths), *[self._reach(x, strides) for x in inputs], 1)
        self.place_type = "unsigned int" if size < FEWEST_FAR_PLACES else "long long"
        by_value = frozenset(numbers)
        self.rooms: dict[Expr, Room] = {}
        for x in inputs:
            number, _ = input_place(x)
            lying = strides.get(number, ordered_strides(x.axes, self.lengths))
            known = None if number in by_value else lying
            self.rooms[x] = Room(Argument("in", number), x.dtype, known)

    def _reach(self, x: Expr, strides: Mapping[int, Mapping[int, int]]) -> int:
        known = strides.get(input_place(x)[0], {})
        return 1 + sum((self.lengths[a] - 1) * abs(step) for a, step in known.items())

    def needed(self, nodes: Iterable[Expr]) -> set[Expr]:
        """Returns all nodes that some need, themselves too; what lies in memory needs none."""
        return set(needed_nodes(nodes, self.rooms))

    def scratch_room(self, shape: Shape, dtype: DType, strides: Mapping[int, int]) -> Room:
        """Returns new memory between kernels."""
        self.scratch.append(ScratchArray(shape, dtype))
        return Room(Argument("scratch", len(self.scratch) - 1), dtype, strides)
