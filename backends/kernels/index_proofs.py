"""Proofs about the elements that indexes take: each once, all of some, none of others.

An index is a sum of axes times strides. Two places take the same element where their differences
times the strides add up to zero. That is impossible where each stride is larger than all that
smaller strides may add up to, as in the digits of a number. What is not proved so counts as false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .errors import KernelError
from .kernel import Index, LoopAxis
from .printed import shown_index

if TYPE_CHECKING:
    from ..annotations import Shape

__all__ = ["Elements", "check_broadcast"]

# The memory of an array whose strides alone are of interest: no element is ever read.
ONE_BYTE = np.zeros((), np.int8)


class Elements:
    """The elements that an index takes while some axes go over all their places.

    Other axes stand still. Their terms come on top.

    Attributes:
        begin: the smallest of the elements, without the terms of axes that stand still.
        steps: positive strides and how many places are along them, more than one.
        still: the strides of axes that stand still.
        places: the number of places of the axes that go.
    """

    __slots__ = ("begin", "places", "steps", "still")

    def __init__(self, index: Index, going: Iterable[LoopAxis]) -> None:
        # The loop over tiles and the loops in it have one axis.
        going = list(dict.fromkeys(going))
        self.begin = index.begin
        self.places = prod(axis.extent for axis in going)
        self.steps: list[tuple[int, int]] = []
        self.still: dict[LoopAxis, int] = {}
        for axis in dict.fromkeys(axis for axis, _ in index.terms):
            stride = index.stride(axis)
            if axis not in going:
                if stride:
                    self.still[axis] = stride
            elif stride and axis.extent > 1:
                self.begin += min(stride, 0) * (axis.extent - 1)
                self.steps.append((abs(stride), axis.extent))
        self.steps.sort()

    @property
    def last(self) -> int:
        """The largest of the elements, without the terms of axes that stand still."""
        return last_of(self.begin, self.steps)

    def are_different(self) -> bool:
        """Says whether each place takes an element of its own."""
        if prod(count for _, count in self.steps) != self.places:
            return self.places == 0
        return independent([(stride, count - 1) for stride, count in self.steps])

    def runs(self) -> list[tuple[int, int]]:
        """Returns the same elements by as few strides as possible: of a row in C order by one."""
        found: list[tuple[int, int]] = []
        for stride, count in self.steps:
            if found:
                smaller, many = found[-1]
                if stride % smaller == 0 and stride <= smaller * many:
                    found[-1] = smaller, many + stride // smaller * (count - 1)
                    continue
            found.append((stride, count))
        return found

    def cover(self, others: Elements) -> bool:
        """Says whether all the others are among them, wherever the axes that stand still are."""
        if others.places == 0:
            return True
        if self.places == 0 or self.still != others.still:
            return False
        if self.are_a_run():
            return self.begin <= others.begin and others.last <= self.last
        return self.begin == others.begin and self.runs() == others.runs()

    def are_a_run(self) -> bool:
        """Says whether they are neighbours in memory, without gaps."""
        strides = [stride for stride, _ in self.runs()]
        return self.places > 0 and strides in ([], [1])

    def apart(self, others: Elements) -> bool:
        """Says whether none of the others is among them, where axes stand still at one place."""
        if self.places == 0 or others.places == 0:
            return True
        if self.still != others.still:
            return False
        return are_apart(self.begin, self.steps, others.begin, others.steps)

    def apart_elsewhere(self, others: Elements, still: Iterable[LoopAxis]) -> bool:
        """Says whether none of the others is among them where any axis stands elsewhere."""
        if self.places == 0 or others.places == 0:
            return True
        digits = [
            (abs(self.still.get(axis, 0)), axis.extent - 1) for axis in still if axis.extent > 1
        ]
        if not digits:
            return True  # they stand at one place alone
        if self.still != others.still:
            return False
        ours, theirs = dict(self.runs()), dict(others.runs())
        digits += [
            (stride, max(ours.get(stride, 1), theirs.get(stride, 1)) - 1)
            for stride in ours.keys() | theirs.keys()
        ]
        if self.begin != others.begin:
            digits.append((abs(self.begin - others.begin), 1))
        return independent(digits)


def are_apart(
    begin: int, steps: Sequence[tuple[int, int]], other: int, others: Sequence[tuple[int, int]]
) -> bool:
    """Says whether two sets of elements are proved to have none in common.

    Where both have the same largest stride, and all else reaches less far than one such stride,
    common elements have the same number of these strides, and only the rest is compared.

    Args:
        begin, other: the smallest element of each set.
        steps, others: strides, which ascend, and how many places are along each.
    """
    while True:
        if last_of(begin, steps) < other or last_of(other, others) < begin:
            return True
        if not (steps and others and steps[-1][0] == others[-1][0]):
            break
        ours, theirs = steps[:-1], others[:-1]
        reach = max(last_of(begin, ours), last_of(other, theirs)) - min(begin, other)
        if reach >= steps[-1][0]:
            break
        steps, others = ours, theirs
    common = gcd(*[stride for stride, _ in (*steps, *others)])
    return (begin - other) % common != 0 if common else begin != other


def last_of(begin: int, steps: Iterable[tuple[int, int]]) -> int:
    """Returns the largest of some elements."""
    return begin + sum(stride * (count - 1) for stride, count in steps)


def independent(digits: Sequence[tuple[int, int]]) -> bool:
    """Says whether strides add up to zero only if each is taken zero times.

    Args:
        digits: strides, and how often each may be taken at most, forwards or backwards.
    """
    reached = 0
    for stride, most in sorted(digits):
        if stride <= reached:
            return False
        reached += stride * most
    return True


def check_broadcast(
    index: Index, shape: Shape, axes: Sequence[LoopAxis], place: Sequence[int | None]
) -> None:
    """Checks that an index takes the elements of an array that NumPy's broadcasting takes.

    Args:
        index: the place of an element in the array's memory, in C order.
        shape: the lengths of the array.
        axes: the axes of the grid; their extents are its lengths.
        place: for every axis of the array the number of the axis of the grid that it is; None for
            axes of length 1.

    Raises:
        KernelError: it takes others, or the array does not broadcast to the grid so.

    >>> from functensor.backends.kernels.kernel import LoopAxis
    >>> i, j = LoopAxis("i", 3), LoopAxis("j", 4)
    >>> check_broadcast(Index([(j, 1)]), (1, 4), [i, j], (None, 1))
    >>> check_broadcast(Index([(i, 4), (j, 1)]), (1, 4), [i, j], (None, 1))
    Traceback (most recent call last):
    ...
    functensor.backends.kernels.errors.KernelError: [i*4 + j] takes elements by the strides (4, 1) \
of the grid (3, 4); those of an array (1, 4) at (None, 1) are (0, 1)
    """
    lengths = tuple([axis.extent for axis in axes])
    wanted = _broadcast_strides(shape, lengths, place)
    found = tuple([index.stride(axis) if axis.extent > 1 else 0 for axis in axes])
    strangers = [axis for axis, stride in index.terms if stride and axis not in axes]
    if found != wanted or index.begin or strangers:
        raise KernelError(
            f"[{shown_index(index)}] takes elements by the strides {found} of the grid {lengths}; "
            f"those of an array {tuple(shape)} at {tuple(place)} are {wanted}"
        )


def _broadcast_strides(shape: Shape, lengths: Shape, place: Sequence[int | None]) -> Shape:
    """Returns the strides of an array that NumPy broadcasts to the grid, in elements."""
    named = [axis for axis in place if axis is not None]
    taken = [1 if axis is None else lengths[axis] for axis in place]
    if taken != list(shape) or len(set(named)) != len(named):
        raise KernelError(f"an array {tuple(shape)} cannot lie at {tuple(place)} of {lengths}")
    memory = tuple([prod(shape[number + 1 :]) for number in range(len(shape))])
    ranks = [-1 if axis is None else axis for axis in place]
    order = sorted(range(len(shape)), key=ranks.__getitem__)
    array = as_strided(ONE_BYTE, tuple(shape), memory, writeable=False).transpose(order)
    kept = array.reshape(()) if not named else array[(0,) * (len(shape) - len(named))]
    there = tuple([slice(None) if axis in named else None for axis in range(len(lengths))])
    spread = np.broadcast_to(kept[there], lengths)
    return tuple([0 if n == 1 else stride for n, stride in zip(lengths, spread.strides)])
