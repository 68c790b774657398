"""Kernels: loops over the axes of a grid, with loads, stores, arithmetic and folds, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from ..annotations import DType, Shape

__all__ = [
    *(
        "LoopAxis",
        "Buffer",
        "Fold",
        "For",
        "Index",
        "LoopKernel",
        "Let",
        "Load",
        "NUMBER",
        "Operand",
        "Place",
        "PlaceWithin",
    ),
    *("STEPS_BETWEEN_FLUSHES", "Statement", "Store", "Update", "Value", "fold_identity", "walk"),
]

# A fold that adds has a running sum for each lane. After so many steps those sums go to totals of
# their own, so that rounding errors grow with the root of the length at most.
STEPS_BETWEEN_FLUSHES = 64


class LoopAxis:
    """A loop's variable: it counts from 0 to its extent, or over the rows of a block.

    Attributes:
        name: its name, for people.
        extent: the number of its places.
        block: whether a run takes some of the places, from ``low`` to ``high``.
    """

    __slots__ = ("block", "extent", "name")

    def __init__(self, name: str, extent: int, block: bool = False) -> None:
        self.name = name
        self.extent = extent
        self.block = block

    def __repr__(self) -> str:
        return self.name


# The number of the block that runs: parts of folds over all blocks lie side by side.
BLOCK_NUMBER = LoopAxis("number", 1 << 62)


class Index:
    """The place of an element in a buffer: the sum of axes times strides, and a beginning.

    Strides count elements, in the buffer's memory in C order.

    Attributes:
        terms: axes and their strides.
        begin: the beginning.
        picks: values of `PlaceWithin` and their strides, which are added too: places that are
            known only when the kernel runs.
    """

    __slots__ = ("begin", "picks", "terms")

    def __init__(
        self,
        terms: Sequence[tuple[LoopAxis, int]] = (),
        begin: int = 0,
        picks: Sequence[tuple[LoopValue, int]] = (),
    ) -> None:
        self.terms = tuple([(axis, stride) for axis, stride in terms if stride])
        self.begin = begin
        self.picks = tuple([(value, stride) for value, stride in picks if stride])

    def stride(self, axis: LoopAxis) -> int:
        """Returns how many elements a step along an axis goes over."""
        return sum(stride for other, stride in self.terms if other is axis)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Index)
            and self.begin == other.begin
            and sorted(self._keys()) == sorted(other._keys())
        )

    def __hash__(self) -> int:
        return hash((self.begin, frozenset(self._keys())))

    def _keys(self) -> list[tuple[int, int]]:
        return [(id(x), stride) for x, stride in (*self.terms, *self.picks)]

    def __repr__(self) -> str:
        parts = [f"{axis}" if stride == 1 else f"{stride} {axis}" for axis, stride in self.terms]
        parts += [f"{stride} value" for _, stride in self.picks]
        if self.begin or not parts:
            parts.append(str(self.begin))
        return " + ".join(parts)


class Buffer:
    """Memory that a kernel reads or writes, in C order.

    Attributes:
        name: its name, for people.
        dtype: the dtype of its elements.
        shape: its lengths. That of parts begins with the number of blocks, which only a run knows.
        role: ``in``; ``out``; ``some`` for outputs whose other elements stay; ``part`` for folds
            over all blocks, whose first axis is the number of the block; ``scratch`` for memory of
            the kernel's own.
        tile: of scratch memory whose first axis is that of the rows, how many of them are kept: the
            rows of one tile. 0 for memory that has all.
    """

    __slots__ = ("dtype", "name", "role", "shape", "tile")

    def __init__(self, name: str, dtype: DType, shape: Shape, role: str, tile: int = 0) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.role = role
        self.tile = tile

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class LoopValue:
    """A number at one point of the loops around it.

    Attributes:
        dtype: its dtype.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype


# What arithmetic takes: values, and NumPy's scalars as constants.
Operand: TypeAlias = "LoopValue | np.generic"


class Let:
    """``value = operation(*operands)``, by the operations of ``operations.py``."""

    __slots__ = ("operands", "operation", "value")

    def __init__(self, value: LoopValue, operation: str, operands: Sequence[Operand]) -> None:
        self.value = value
        self.operation = operation
        self.operands = tuple(operands)


class Load:
    """``value = buffer[index]``."""

    __slots__ = ("buffer", "index", "value")

    def __init__(self, value: LoopValue, buffer: Buffer, index: Index) -> None:
        self.value = value
        self.buffer = buffer
        self.index = index


class PlaceOf:
    """``value = axis``: the number of the place along an axis, a whole number of 32 bits."""

    __slots__ = ("axis", "value")

    def __init__(self, value: LoopValue, axis: LoopAxis) -> None:
        self.value = value
        self.axis = axis


class PlaceWithin:
    """``value``: the place along an axis of some length that a whole number names, of 64 bits.

    Negative numbers count from the end. Numbers out of bounds name the nearest place.
    """

    __slots__ = ("length", "operand", "value")

    def __init__(self, value: LoopValue, operand: Operand, length: int) -> None:
        self.value = value
        self.operand = operand
        self.length = length


class Store:
    """``buffer[index] = operand``."""

    __slots__ = ("buffer", "index", "operand")

    def __init__(self, buffer: Buffer, index: Index, operand: Operand) -> None:
        self.buffer = buffer
        self.index = index
        self.operand = operand


class UpdateOf:
    """``buffer[index] = operation(buffer[index], operand)``."""

    __slots__ = ("buffer", "index", "operand", "operation")

    def __init__(self, buffer: Buffer, index: Index, operation: str, operand: Operand) -> None:
        self.buffer = buffer
        self.index = index
        self.operation = operation
        self.operand = operand


class Fold:
    """The fold of a loop: ``value`` is that of ``operand`` at all places of the loop.

    Lane number ``i`` of a loop with ``n`` lanes takes the places ``i``, ``i + n``, ``i + 2 n`` and
    so on, in order. Of more than 64 of them it adds sums of 64 at a time. The second half of the
    lanes is then folded into the first half, until one is left. In a loop within a loop with lanes
    each of these lanes has a fold of its own, of all numbers in order.

    A value that a loop hands on is known within it, too, as that of the place before. Sums of loops
    within it that begin with that value go on where the sum so far ends.

    Attributes:
        value: what is known behind the loop.
        operation: ``add``, ``multiply``, ``maximum`` or ``minimum``; or ``hand_on``, for the
            operand of the last place.
        operand: what is folded, known within the loop.
        factor: of a sum, by what the operand is multiplied, with one rounding for both; or None.
        begin: what a sum, or what is handed on, begins with in a loop of single places; such a sum
            is one of all numbers in order. None for 0.
    """

    __slots__ = ("begin", "factor", "operand", "operation", "value")

    def __init__(
        self,
        value: LoopValue,
        operation: str,
        operand: Operand,
        factor: Operand | None = None,
        begin: Operand | None = None,
    ) -> None:
        self.value = value
        self.operation = operation
        self.operand = operand
        self.factor = factor
        self.begin = begin

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The values that it needs of each place: the operand, and the factor if there is one."""
        return (self.operand,) if self.factor is None else (self.operand, self.factor)


class For:
    """A loop over an axis.

    Loops within a loop with lanes compute for all of these lanes, and store nothing. A loop over
    tiles has loops over the same axis in it, which go over the places of one tile.

    Attributes:
        axis: its variable.
        lanes: how many neighbouring places are computed at a time; 1 for a loop of single places.
        body: what is done at each place, or in each tile.
        folds: what is folded over all places, or all tiles.
        tile: how many neighbouring places a tile has; 0 for a loop over places.
        together: how many places of a tile are computed together, statement by statement. The last
            ones may be computed more than once.
    """

    __slots__ = ("axis", "body", "folds", "lanes", "tile", "together")

    def __init__(
        self,
        axis: LoopAxis,
        body: Sequence[Statement],
        folds: Sequence[Fold] = (),
        lanes: int = 1,
        tile: int = 0,
        together: int = 1,
    ) -> None:
        self.axis = axis
        self.lanes = lanes
        self.body = tuple(body)
        self.folds = tuple(folds)
        self.tile = tile
        self.together = together

    @property
    def flushes(self) -> bool:
        """Says whether sums of lanes go to totals now and then."""
        return self.axis.extent > STEPS_BETWEEN_FLUSHES * max(self.lanes, self.tile)


Statement: TypeAlias = "For | Let | Load | PlaceOf | PlaceWithin | Store | UpdateOf"


class LoopKernel:
    """A kernel: ``kernel(number, low, high)`` computes the rows of a block.

    Attributes:
        name: its name.
        buffers: the memory that it is given, in order: inputs, then results.
        scratch: memory of its own, for what is needed again within a block.
        body: its statements.
    """

    __slots__ = ("body", "buffers", "name", "scratch")

    def __init__(
        self,
        name: str,
        buffers: Sequence[Buffer],
        scratch: Sequence[Buffer],
        body: Sequence[Statement],
    ) -> None:
        self.name = name
        self.buffers = tuple(buffers)
        self.scratch = tuple(scratch)
        self.body = tuple(body)


def all_statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yields all statements, those of loops behind the loop itself."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from all_statements(statement.body)


def fold_identity(operation: str, dtype: DType) -> Any:
    """Returns the number that a fold begins with; of sums 0, as in NumPy: none of them is -0.0."""
    # The kind of bfloat16 is that of raw memory.
    is_float = dtype.kind in "fV"
    if operation in ("add", "hand_on"):
        return dtype.type(0)
    if operation == "multiply":
        return dtype.type(1)
    if is_float:
        return dtype.type(-np.inf if operation == "maximum" else np.inf)
    if dtype.kind == "b":
        return dtype.type(operation == "minimum")
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if operation == "maximum" else limits.max)
