"""The points that a thread goes through, and where they lie in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from ...cpu.plan.native.layouts import c_strides

__all__ = ["PointSegment", "Points", "ordered_strides"]


class PointSegment(NamedTuple):
    """Axes of a grid whose points have one number, the last axis going fastest.

    Attributes:
        axes: the axes.
        number: the name of the number in the kernel.
    """

    axes: tuple[int, ...]
    number: str


class AxisRun(NamedTuple):
    """Neighbouring axes of a segment that lie in memory as one.

    Attributes:
        behind: the points of the axes behind them.
        size: their points.
        stride: the distance of two neighbours in memory, in elements.
        first: whether no axis of the segment is before them.
    """

    behind: int
    size: int
    stride: int
    first: bool


def ordered_strides(axes: Iterable[int], lengths: Sequence[int]) -> dict[int, int]:
    """Returns the strides of axes that lie in order, one element behind the other."""
    order = sorted(axes)
    return dict(zip(order, c_strides([lengths[axis] for axis in order]), strict=True))


class Points:
    """The points of a grid, as segments of its axes.

    Args:
        lengths: the lengths of the grid's axes.
        segments: the segments; no axis is in two of them.
    """

    def __init__(self, lengths: Sequence[int], segments: Sequence[PointSegment]) -> None:
        self._lengths = lengths
        self._segments = segments

    def coordinate(self, axis: int) -> str:
        """Returns the expression of the place along an axis."""
        for segment in self._segments:
            if axis in segment.axes:
                at = segment.axes.index(axis)
                behind = prod(self._lengths[a] for a in segment.axes[at + 1 :])
                run = AxisRun(behind, self._lengths[axis], 1, at == 0)
                return part_of_number(segment.number, run)
        raise KeyError(axis)

    def offset(self, strides: Mapping[int, int]) -> str:
        """Returns the expression of the place in memory of elements with some strides."""
        terms = []
        for segment in self._segments:
            for run in self._runs(segment, strides):
                part = part_of_number(segment.number, run)
                terms.append(part if run.stride == 1 else f"{part} * {run.stride}")
        return " + ".join(terms) or "0"

    def is_packed(self, strides: Mapping[int, int], width: int) -> bool:
        """Says whether elements of as many neighbouring points of the last segment are neighbours.

        The first of them lies at a multiple of their number, as the first of the points does.
        """
        *others, last = self._segments
        runs = self._runs(last, strides)
        if not runs or runs[-1].stride != 1 or runs[-1].behind != 1 or runs[-1].size % width:
            return False
        rest = [*runs[:-1], *[run for s in others for run in self._runs(s, strides)]]
        return all(run.stride % width == 0 for run in rest)

    def _runs(self, segment: PointSegment, strides: Mapping[int, int]) -> list[AxisRun]:
        """Returns the axes of a segment that memory has, as few runs."""
        runs: list[AxisRun] = []
        behind = 1
        for at in reversed(range(len(segment.axes))):
            axis = segment.axes[at]
            stride, length = strides.get(axis, 0), self._lengths[axis]
            if stride:
                last = runs[-1] if runs else None
                if last and last.behind * last.size == behind and stride == last.stride * last.size:
                    runs[-1] = AxisRun(last.behind, last.size * length, last.stride, at == 0)
                else:
                    runs.append(AxisRun(behind, length, stride, at == 0))
            behind *= length
        return runs[::-1]


def part_of_number(number: str, run: AxisRun) -> str:
    """Returns the expression of the number of a point within a run."""
    text = number if run.behind == 1 else f"{number} / {run.behind}"
    return text if run.first else f"{text} % {run.size}"
