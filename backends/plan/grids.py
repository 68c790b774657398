"""How the grid of a region is cut into blocks, and how values lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

__all__ = ["Grid"]


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

    def blocks(self, elements: int) -> list[tuple[int, int, int]]:
        """Returns numbers, beginnings and ends of blocks of about so many elements, alike."""
        most = max(elements // max(self.inner, 1), 1)
        count = -(-self.rows // most)
        edges = [self.rows * i // count for i in range(count + 1)]
        return [(i, edges[i], edges[i + 1]) for i in range(count)]
