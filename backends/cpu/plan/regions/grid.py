"""The grid of a region: its joined axes and its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ....annotations import Shape

__all__ = ["Blocks", "Grid", "Groups"]

# Numbers of joined axes of a grid.
Groups: TypeAlias = frozenset[int]


class Grid:
    """The axes of a region's grid. Neighbours that all values have, or lack, together are joined.

    Attributes:
        shape: the lengths of the joined axes; blocks are cut along the first one.
        rows: the length of the first one.
        inner: the number of elements at each of its places.
    """

    def __init__(self, lengths: Sequence[int], present: Sequence[frozenset[int]]) -> None:
        self.lengths = tuple(lengths)
        self.group: list[int] = []
        for axis in range(len(lengths)):
            apart = axis == 0 or any((axis in axes) != (axis - 1 in axes) for axes in present)
            self.group.append((self.group[-1] if self.group else -1) + apart)
        count = self.group[-1] + 1
        self.shape = tuple(
            prod(n for n, g in zip(self.lengths, self.group) if g == number)
            for number in range(count)
        )
        self.rows = self.shape[0]
        self.inner = prod(self.shape[1:])

    def groups(self, axes: Sequence[int | None]) -> Groups:
        """Returns the joined axes of a value that has these of the grid."""
        return frozenset(self.group[a] for a in axes if a is not None)

    def joined(self, groups: Groups) -> Shape:
        """Returns the shape of a value with these joined axes, with length 1 for the others."""
        return tuple(n if g in groups else 1 for g, n in enumerate(self.shape))

    def block_shape(self, groups: Groups) -> str:
        """Returns the text of the shape of a value with these joined axes in a block."""
        first = "high - low" if 0 in groups else "1"
        return f"({first}{''.join(f', {n}' for n in self.joined(groups)[1:])},)"

    def blocks(self, elements: int) -> Blocks:
        """Returns blocks of about that many elements, all of about one length."""
        most = max(elements // max(self.inner, 1), 1)
        return Blocks(self.rows, -(-self.rows // most))


class Blocks:
    """Numbers, beginnings and ends of blocks of rows, made one by one.

    A list of all would be long where one element is broadcast to a huge array.

    Attributes:
        longest: the most rows that a block has.
    """

    def __init__(self, rows: int, count: int) -> None:
        self._rows = rows
        self._count = count
        self.longest = -(-rows // count) if count else 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        # Threads may share a ``map`` of a range, not a generator.
        return map(self._block, range(self._count))

    def _block(self, i: int) -> tuple[int, int, int]:
        return i, self._rows * i // self._count, self._rows * (i + 1) // self._count
