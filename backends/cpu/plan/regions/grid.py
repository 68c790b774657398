"""The grid of a region: its blocks, and the places of values in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

__all__ = ["Blocks", "Grid"]


class Grid:
    """The axes of a region's grid, neighbours joined that no value tells apart.

    Blocks are cut along the first of them.

    Args:
        lengths: the lengths of the grid's axes.
        present: for every value, or whatever else tells axes apart, which axes it has.

    Attributes:
        shape: the lengths of joined axes.
        rows: the length of the first one.
        inner: how many elements belong to each of its places.
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

    def groups(self, axes: Sequence[int | None]) -> frozenset[int]:
        """Returns the joined axes of a value that has these of the grid."""
        return frozenset(self.group[a] for a in axes if a is not None)

    def joined(self, groups: frozenset[int]) -> tuple[int, ...]:
        """Returns the shape of a value with these joined axes, with length 1 for the others."""
        return tuple(n if g in groups else 1 for g, n in enumerate(self.shape))

    def blocks(self, elements: int) -> Blocks:
        """Returns blocks of about so many elements, alike."""
        most = max(elements // max(self.inner, 1), 1)
        return Blocks(self.rows, -(-self.rows // most))


class Blocks:
    """Numbers, beginnings and ends of blocks; each is made when its turn comes.

    Of an array that no memory holds there would be too many to list.

    Args:
        rows: how many rows there are.
        count: in how many blocks.

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
        # Threads may share it, as they may not share a generator.
        return map(self._block, range(self._count))

    def _block(self, i: int) -> tuple[int, int, int]:
        return i, self._rows * i // self._count, self._rows * (i + 1) // self._count
