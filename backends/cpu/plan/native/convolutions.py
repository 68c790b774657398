"""Convolutions as kernels that read windows where they lie, without a copy of them.

Some neighbouring places of the result are computed at a time, for as many outputs as there are
lanes. Their sums stay in registers. A place's elements are read one by one, each for all lanes, so
that only the weights have to lie in order. The derivative in the images is a convolution too, of
what stands for the result, with zeros around, and the kernel turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from ....kernels.kernel import (
    Buffer,
    Fold,
    For,
    Index,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    Statement,
    Store,
)
from ....kernels.schedule import LANE_BYTES
from .layouts import c_strides

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["MOST_TERMS", "Sliding", "convolution_kernel", "panels_of", "term_loops"]

# The places of a result that are computed at a time.
MOST_PLACES = 6
# Longer sums are sums of parts, so that rounding errors grow less.
MOST_TERMS, FEWEST_TERMS = 64, 15
# Images of more bytes are gone over row by row for all outputs, others for some outputs at a time.
LARGEST_CACHED_IMAGE = 1 << 18


class Sliding(NamedTuple):
    """A convolution with two spatial axes.

    Attributes:
        dtype: the dtype of all.
        images, channels, outputs: their numbers.
        spatial, kernel: the lengths of the images and of the kernel.
        stride, dilation: how far places, and the kernel's elements, lie apart.
        padding: the zeros before and after each axis.
        channels_last: whether images and weights have their channels as the last axis.
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
    channels_last: bool

    @property
    def padded(self) -> tuple[int, int]:
        """The lengths of the images with their padding."""
        (height, width), (rows, columns) = self.spatial, self.padding
        return height + sum(rows), width + sum(columns)

    @property
    def places(self) -> tuple[int, int]:
        """How many places the result has along each axis."""
        sizes = zip(self.padded, self.kernel, self.stride, self.dilation)
        height, width = ((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)
        return height, width

    @property
    def terms(self) -> int:
        """The length of each sum."""
        return self.channels * prod(self.kernel)

    @property
    def lanes(self) -> int:
        """How many outputs are computed at a time."""
        return LANE_BYTES // self.dtype.itemsize

    def strides(self, spatial: Sequence[int]) -> tuple[int, int, int]:
        """Returns the strides of rows, columns and channels of an image with some lengths."""
        height, width = spatial
        if self.channels_last:
            return width * self.channels, self.channels, 1
        return width, 1, height * width


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


def panels_of(outputs: int, lanes: int) -> list[tuple[int, int, int]]:
    """Returns the first output, the number of panels and their lanes, for all outputs."""
    found = [(0, outputs // lanes, lanes)] if outputs >= lanes else []
    begin = outputs // lanes * lanes
    return [*found, (begin, 1, outputs - begin)] if begin < outputs else found


def convolution_kernel(name: str, sliding: Sliding) -> LoopKernel:
    """Returns the kernel of a convolution.

    It takes images, weights and the memory of the result, whose channels lie last. Weights are
    panels, one behind the other: see `panels_of`. In each the outputs are the last axis.
    """
    return Convolution(sliding).kernel(name)


class Convolution:
    """Writes the loops of a convolution."""

    def __init__(self, sliding: Sliding) -> None:
        self.sliding = sliding
        dtype, size = sliding.dtype, sliding.channels * prod(sliding.spatial)
        rows, columns = sliding.places
        self.x = Buffer("x", dtype, (sliding.images * size,), "in")
        self.w = Buffer("w", dtype, (sliding.terms * sliding.outputs,), "in")
        result = sliding.images * rows * columns * sliding.outputs
        self.out = Buffer("out", dtype, (result,), "out")
        self.scratch: list[Buffer] = []
        # Blocks are of images, or of rows of few images.
        by_images = sliding.images > 1
        self.image = LoopAxis("image", sliding.images, block=by_images)
        self.row = LoopAxis("row", rows, block=not by_images)
        self.source, self.image_terms = self.x, [(self.image, size)]
        if any(map(any, sliding.padding)):
            length = sliding.channels * prod(sliding.padded)
            self.source = Buffer("padded", dtype, (length,), "scratch")
            self.scratch.append(self.source)
            self.image_terms = []
        self.steps = sliding.strides(sliding.padded)

    def kernel(self, name: str) -> LoopKernel:
        """Returns the kernel."""
        sliding = self.sliding
        size = sliding.channels * prod(sliding.spatial) * sliding.dtype.itemsize
        panels = [
            Panel(LoopAxis("panel", count), begin, lanes)
            for begin, count, lanes in panels_of(sliding.outputs, sliding.lanes)
        ]
        body: list[Statement]
        if not self.row.block and size <= LARGEST_CACHED_IMAGE:
            body = [For(p.axis, [For(self.row, self._row(p))]) for p in panels]
        else:
            body = [For(self.row, [For(p.axis, self._row(p)) for p in panels])]
        body = [For(self.image, [*self._padding(), *body])]
        return LoopKernel(name, [self.x, self.w, self.out], self.scratch, body)

    def _padding(self) -> list[Statement]:
        """Returns the copy of an image with zeros around."""
        if not self.scratch:
            return []
        sliding, zero = self.sliding, self.sliding.dtype.type(0)
        every = LoopAxis("every", self.source.shape[0])
        fill = For(every, [Store(self.source, Index([(every, 1)]), zero)], (), sliding.lanes)
        (height, width), ((above, _), (before, _)) = sliding.spatial, sliding.padding
        old, new = sliding.strides(sliding.spatial), self.steps
        # A row is one run, of all channels or of each.
        last = sliding.channels_last
        run = LoopAxis("run", width * sliding.channels if last else width)
        row, plane = LoopAxis("rows", height), LoopAxis("planes", 1 if last else sliding.channels)
        size = sliding.channels * height * width
        x = LoopValue(sliding.dtype)
        taken = Index([(self.image, size), (plane, old[2]), (row, old[0]), (run, 1)])
        begin = above * new[0] + before * new[1]
        put = Index([(plane, new[2]), (row, new[0]), (run, 1)], begin)
        copy = For(run, [Load(x, self.x, taken), Store(self.source, put, x)], (), sliding.lanes)
        return [fill, For(plane, [For(row, [copy])])]

    def _row(self, panel: Panel) -> list[Statement]:
        """Returns the loops over the places of a row, in groups of two lengths at most."""
        width = self.sliding.places[1]
        groups = ceil(width / MOST_PLACES)
        length, longer = divmod(width, groups)
        body: list[Statement] = []
        if longer:
            body.append(self._group(panel, 0, longer, length + 1))
        if groups > longer:
            first = longer * (length + 1)
            body.append(self._group(panel, first, groups - longer, length))
        return body

    def _group(self, panel: Panel, first: int, count: int, places: int) -> Statement:
        """Returns the loop over groups of places.

        Args:
            panel: the outputs.
            first: the first place of the first group.
            count: the number of groups.
            places: the places of each.
        """
        sliding = self.sliding
        group, column = LoopAxis("group", count), LoopAxis("output", panel.lanes)
        (down, along), steps = sliding.stride, self.steps
        terms = [*self.image_terms, (self.row, down * steps[0]), (group, places * along * steps[1])]
        xs = [Index(terms, (first + i) * along * steps[1]) for i in range(places)]
        weights = [(panel.axis, sliding.terms * panel.lanes), (column, 1)]
        body, sums = self._sums(xs, Index(weights, panel.begin * sliding.terms), panel.lanes)
        image, line, place, _ = c_strides((sliding.images, *sliding.places, sliding.outputs))
        for i, total in enumerate(sums):
            out = [(self.image, image), (self.row, line), (group, places * place)]
            lying = [*out, (panel.axis, panel.lanes), (column, 1)]
            begin = (first + i) * place + panel.begin
            body.append(Store(self.out, Index(lying, begin), total))
        lanes = 1 << (panel.lanes - 1).bit_length()
        return For(group, [For(column, body, (), lanes)])

    def _sums(
        self, xs: Sequence[Index], w: Index, lanes: int
    ) -> tuple[list[Statement], list[Operand]]:
        """Returns the loops over all terms of the sums of some places, and what these are.

        Args:
            xs: where the first element of each lies.
            w: where the first weight lies.
            lanes: how far the weights of neighbouring terms lie apart.
        """
        nested: list[tuple[int, int, int]] = []
        distance = lanes
        for count, step in reversed(term_loops(self.sliding, self.steps)):
            nested.insert(0, (count, step, distance))
            distance *= count
        return self._nested(nested, xs, w)

    def _nested(
        self, loops: Sequence[tuple[int, int, int]], xs: Sequence[Index], w: Index
    ) -> tuple[list[Statement], list[Operand]]:
        """Returns loops over terms: their numbers, and how far elements and weights lie apart."""
        (count, step, distance), *inner = loops
        dtype, axis = self.sliding.dtype, LoopAxis("term", count)
        xs = [Index([*x.terms, (axis, step)], x.begin) for x in xs]
        w = Index([*w.terms, (axis, distance)], w.begin)
        sums = [LoopValue(dtype) for _ in xs]
        if inner:
            body, parts = self._nested(inner, xs, w)
            folds = [Fold(total, "add", part) for total, part in zip(sums, parts, strict=True)]
            return [For(axis, body, folds)], [*sums]
        weight, elements = LoopValue(dtype), [LoopValue(dtype) for _ in xs]
        loads = [Load(x, self.source, place) for x, place in zip(elements, xs, strict=True)]
        folds = [Fold(n, "add", x, weight) for n, x in zip(sums, elements, strict=True)]
        return [For(axis, [Load(weight, self.w, w), *loads], folds)], [*sums]


def term_loops(sliding: Sliding, steps: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Returns the loops over the terms of a sum: their lengths, and how far elements lie apart.

    Args:
        sliding: the convolution.
        steps: the strides of rows, columns and channels of an image with its padding.
    """
    (height, width), (down, along) = sliding.kernel, sliding.dilation
    rows, columns = (height, down * steps[0]), (width, along * steps[1])
    channels = sliding.channels, steps[2]
    if not sliding.channels_last:
        loops = [channels, rows, columns]
    elif along == 1:
        loops = [rows, (width * sliding.channels, 1)]
    else:
        loops = [rows, columns, channels]
    found: list[tuple[int, int]] = []
    for count, step in loops:
        length = part_length(count)
        if length < count:
            found.append((count // length, length * step))
        found.append((length, step))
    return [loop for loop in found if loop[0] > 1] or [(1, 0)]


def part_length(count: int) -> int:
    """Returns the length of equal parts of a sum that are short enough, or are all of it."""
    if count <= MOST_TERMS:
        return count
    return next((n for n in range(MOST_TERMS, FEWEST_TERMS, -1) if count % n == 0), count)
