"""Images over which kernels slide: sizes, zeros around, and the terms of each sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from ....kernels.kernel import Buffer, For, Index, Load, LoopAxis, LoopValue, Statement, Store
from ....kernels.schedule import LANE_BYTES

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = [
    "LARGEST_PANEL",
    "MOST_TERMS_IN_REGISTERS",
    "Images",
    "Panel",
    "Sliding",
    "groups_of_places",
    "in_parts",
    "panels_of",
]

# The sums that are in registers at a time, beside one another. Where one register has all lanes,
# there are more of them: of lanes in two registers, or in one.
MOST_SUMS, MOST_DOUBLE_SUMS, MOST_SINGLE_SUMS = 6, 10, 12
# Of shorter sums most of the time is that of storing results.
FEWEST_WIDE_TERMS = 16
# Larger panels of weights, in bytes, do not stay in the cache while a row is gone over.
LARGEST_PANEL = 1 << 18
# BLAS adds up products of so many terms one by one. Longer sums are sums of parts, so that rounding
# errors grow less.
LONGEST_CHAIN = 384
MOST_TERMS_IN_REGISTERS, FEWEST_TERMS = 128, 15


class Sliding(NamedTuple):
    """A convolution with two spatial axes. The channels of images and weights lie last in memory.

    Attributes:
        dtype: the dtype of all.
        images, channels, outputs: their numbers.
        spatial, kernel: the lengths of the images and of the kernel.
        stride, dilation: how far places, and the kernel's elements, lie apart.
        padding: the zeros before and after each axis.
        wide: whether one of the processor's registers has all of the usual lanes.
        turned: whether it is the derivative of one in the images.
    """

    dtype: DType
    images: int
    channels: int
    outputs: int
    spatial: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    wide: bool = False
    turned: bool = False

    @property
    def padded(self) -> tuple[int, int]:
        """The lengths of the images with their padding."""
        (height, width), (rows, columns) = self.spatial, self.padding
        return height + sum(rows), width + sum(columns)

    @property
    def places(self) -> tuple[int, int]:
        """The numbers of places that the result has along the axes."""
        sizes = zip(self.padded, self.kernel, self.stride, self.dilation)
        height, width = ((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)
        return height, width

    @property
    def terms(self) -> int:
        """The length of each sum."""
        return self.channels * prod(self.kernel)

    @property
    def lanes(self) -> int:
        """The number of outputs that are computed at a time."""
        fewest = self.fewest_lanes
        fits = 2 * fewest * self.terms * self.dtype.itemsize <= LARGEST_PANEL
        wide = self.is_wide and fits and self.outputs >= 2 * fewest
        return 2 * fewest if wide else fewest

    @property
    def is_wide(self) -> bool:
        """Says whether all registers are used."""
        return self.wide and self.terms >= FEWEST_WIDE_TERMS

    @property
    def fewest_lanes(self) -> int:
        """The number of lanes where registers are narrow."""
        return LANE_BYTES // self.dtype.itemsize

    @property
    def sums(self) -> int:
        """The most neighbouring places that are computed at a time."""
        if not self.is_wide:
            return MOST_SUMS
        return MOST_DOUBLE_SUMS if self.lanes > self.fewest_lanes else MOST_SINGLE_SUMS

    @property
    def panels(self) -> list[tuple[int, int, int]]:
        """The numbers of panels of a kind, the first output of these, and how many one has."""
        panels = panels_of(self.outputs, self.lanes)
        return [(panel.axis.extent, panel.begin, panel.lanes) for panel in panels]

    @property
    def is_padded(self) -> bool:
        """Says whether there are zeros around."""
        return any(map(any, self.padding))

    @property
    def steps(self) -> tuple[int, int]:
        """The strides of rows and columns of an image with its padding."""
        return self.padded[1] * self.channels, self.channels

    @property
    def term_loops(self) -> list[tuple[int, int]]:
        """The loops over the terms of a sum: their lengths, and how far elements lie apart."""
        steps, (height, width), (down, along) = self.steps, self.kernel, self.dilation
        loops = [(height, down * steps[0]), (width, along * steps[1]), (self.channels, 1)]
        if along == 1:
            loops[1:] = [(width * self.channels, 1)]
        return [loop for loop in loops if loop[0] > 1] or [(1, 0)]

    @property
    def chained_loops(self) -> int:
        """The number of the loops over terms, from the innermost on, that add them up one by one.

        NumPy's kernels have BLAS add up the same: all terms, or of a derivative those of each row
        of the kernel.
        """
        loops = self.term_loops
        if self.turned and self.kernel[0] > 1:
            del loops[0]
        return len(loops) if prod(count for count, _ in loops) <= LONGEST_CHAIN else 0


class Panel(NamedTuple):
    """Outputs that are computed together, lane by lane.

    Attributes:
        axis: counts such panels.
        begin: the first output.
        lanes: how many there are.
    """

    axis: LoopAxis
    begin: int
    lanes: int


def panels_of(outputs: int, lanes: int) -> Iterator[Panel]:
    """Yields panels of some lanes, and one of what is left, for all outputs."""
    whole = outputs // lanes
    if whole:
        yield Panel(LoopAxis("panel", whole), 0, lanes)
    if outputs % lanes:
        yield Panel(LoopAxis("panel", 1), whole * lanes, outputs % lanes)


class Images:
    """The memory of images, with zeros around.

    Attributes:
        given: the memory that a kernel is given.
        source: that which windows are read from.
        scratch: memory of the kernel's own.
        terms: the axis of images in the source, with its stride, if that has all images.
    """

    def __init__(self, sliding: Sliding, image: LoopAxis) -> None:
        self.sliding = sliding
        self.image = image
        self.size = sliding.channels * prod(sliding.spatial)
        self.given = Buffer("x", sliding.dtype, (sliding.images * self.size,), "in")
        self.source = self.given
        self.terms = [(image, self.size)]
        self.scratch: list[Buffer] = []
        if sliding.is_padded:
            length = sliding.channels * prod(sliding.padded)
            self.source = Buffer("padded", sliding.dtype, (length,), "scratch")
            self.scratch.append(self.source)
            self.terms = []

    def brought(self) -> list[Statement]:
        """Returns the copy of an image with zeros around, if it has any."""
        if not self.scratch:
            return []
        sliding, zero = self.sliding, self.sliding.dtype.type(0)
        every = LoopAxis("every", self.source.shape[0])
        fill = For(every, [Store(self.source, Index([(every, 1)]), zero)], (), sliding.lanes)
        (height, width), ((above, _), (before, _)) = sliding.spatial, sliding.padding
        row, run = LoopAxis("rows", height), LoopAxis("run", width * sliding.channels)
        x = LoopValue(sliding.dtype)
        taken = Index([(self.image, self.size), (row, run.extent), (run, 1)])
        begin = above * sliding.steps[0] + before * sliding.steps[1]
        put = Index([(row, sliding.steps[0]), (run, 1)], begin)
        copy = For(run, [Load(x, self.given, taken), Store(self.source, put, x)], (), sliding.lanes)
        return [fill, For(row, [copy])]


def groups_of_places(length: int, most: int = MOST_SUMS) -> Iterator[tuple[int, int, int]]:
    """Yields for groups of neighbours the first place, the number of groups, and their length.

    There are two lengths at most, which differ by one.

    Args:
        length: the number of all places.
        most: that of the places of a group.
    """
    groups = ceil(length / most)
    shorter, longer = divmod(length, groups)
    if longer:
        yield 0, longer, shorter + 1
    yield longer * (shorter + 1), groups - longer, shorter


def in_parts(loops: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns loops over terms, long ones as loops over equal parts."""
    found: list[tuple[int, int]] = []
    for count, step in loops:
        length = part_length(count)
        if length < count:
            found.append((count // length, length * step))
        found.append((length, step))
    return found


def part_length(count: int) -> int:
    """Returns the length of equal parts of a sum that are short enough, or are all of it."""
    if count <= MOST_TERMS_IN_REGISTERS:
        return count
    return next(
        (n for n in range(MOST_TERMS_IN_REGISTERS, FEWEST_TERMS, -1) if count % n == 0), count
    )
