"""Convolutions as kernels that read windows where they lie, without a copy of them.

Some neighbouring places of the result are computed at a time, for as many outputs as there are
lanes. Their sums stay in registers. A place's elements are read one by one, each for all lanes.
The derivative in the images is a convolution too, of what stands for the result, with zeros around,
and the kernel turned round.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from .layouts import c_strides
from .sliding import Images, Panel, Sliding, groups_of_places, in_parts, panels_of

__all__ = ["convolution_kernel"]

# Weights of more bytes do not stay in the cache: images are gone over for some outputs at a time.
LARGEST_CACHED_WEIGHTS = 1 << 20


def convolution_kernel(name: str, sliding: Sliding) -> LoopKernel:
    """Returns the kernel of a convolution.

    It takes images, weights and the memory of the result, whose channels lie last. Weights are
    panels, one behind the other: see `panels_of`. In each the outputs are the last axis.
    """
    return DirectConvolution(sliding).kernel(name)


class DirectConvolution:
    """Writes the loops of a convolution."""

    def __init__(self, sliding: Sliding) -> None:
        self.sliding = sliding
        rows, columns = sliding.places
        # Blocks are of images, or of rows of a single image.
        by_images = sliding.images > 1
        self.image = LoopAxis("image", sliding.images, block=by_images)
        self.row = LoopAxis("row", rows, block=not by_images)
        self.x = Images(sliding, self.image)
        self.w = Buffer("w", sliding.dtype, (sliding.terms * sliding.outputs,), "in")
        result = sliding.images * rows * columns * sliding.outputs
        self.out = Buffer("out", sliding.dtype, (result,), "out")

    def kernel(self, name: str) -> LoopKernel:
        """Returns the kernel."""
        sliding = self.sliding
        size = sliding.terms * sliding.outputs * sliding.dtype.itemsize
        panels = list(panels_of(sliding.outputs, sliding.lanes))
        body: list[Statement]
        if self.row.block or size <= LARGEST_CACHED_WEIGHTS:
            body = [For(self.row, [For(p.axis, self._row(p)) for p in panels])]
        else:
            body = [For(p.axis, [For(self.row, self._row(p))]) for p in panels]
        body = [For(self.image, [*self.x.brought(), *body])]
        return LoopKernel(name, [self.x.given, self.w, self.out], self.x.scratch, body)

    def _row(self, panel: Panel) -> list[Statement]:
        """Returns the loops over the places of a row."""
        groups = groups_of_places(self.sliding.places[1], self.sliding.sums)
        return [self._group(panel, *group) for group in groups]

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
        (down, along), steps = sliding.stride, sliding.steps
        terms = [*self.x.terms, (self.row, down * steps[0]), (group, places * along * steps[1])]
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
        sliding = self.sliding
        chained = sliding.chained_loops
        loops = sliding.term_loops if chained else in_parts(sliding.term_loops)
        nested: list[tuple[int, int, int]] = []
        distance = lanes
        for count, step in reversed(loops):
            nested.insert(0, (count, step, distance))
            distance *= count
        return self._nested(nested, xs, w, chained)

    def _nested(
        self,
        loops: Sequence[tuple[int, int, int]],
        xs: Sequence[Index],
        w: Index,
        chained: int,
        begin: Sequence[Operand] | None = None,
    ) -> tuple[list[Statement], list[Operand]]:
        """Returns loops over terms, and the sums.

        Args:
            loops: their numbers, and how far elements and weights lie apart.
            xs, w: those of `_sums`.
            chained: how many loops, from the innermost on, add all their terms up one by one.
            begin: what the sums begin with; None for 0, or for sums of parts.
        """
        (count, step, distance), *inner = loops
        dtype, axis = self.sliding.dtype, LoopAxis("term", count)
        xs = [Index([*x.terms, (axis, step)], x.begin) for x in xs]
        w = Index([*w.terms, (axis, distance)], w.begin)
        sums = [LoopValue(dtype) for _ in xs]
        goes_on = len(loops) <= chained
        first = dtype.type(0) if goes_on else None
        begins = [first for _ in xs] if begin is None else begin
        if inner:
            body, parts = self._nested(inner, xs, w, chained, sums if goes_on else None)
            operation = "hand_on" if goes_on else "add"
            folds = [
                Fold(total, operation, part, begin=first)
                for total, part, first in zip(sums, parts, begins, strict=True)
            ]
            return [For(axis, body, folds)], [*sums]
        weight, elements = LoopValue(dtype), [LoopValue(dtype) for _ in xs]
        loads = [Load(x, self.x.source, place) for x, place in zip(elements, xs, strict=True)]
        folds = [
            Fold(n, "add", x, weight, first)
            for n, x, first in zip(sums, elements, begins, strict=True)
        ]
        return [For(axis, [Load(weight, self.w, w), *loads], folds)], [*sums]
