"""The derivatives of convolutions in their kernels, as kernels without a copy of windows.

Sums over some rows of the result stay in registers: those of neighbouring elements of the kernel,
for as many outputs as there are lanes. They are added to the sums of a block of images.
"""

from __future__ import annotations

from ....kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
    Index,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Statement,
    Store,
    UpdateOf,
)
from ...convolution import rows_of_a_turn
from .layouts import c_strides
from .sliding import Images, Panel, Sliding, groups_of_places, panels_of

__all__ = ["kernel_gradient"]

# The most places of the result that are added up in registers: what they need stays in the cache.
# With those of NumPy's kernel it takes an eighth longer.
MOST_CACHED_PLACES = 64


def kernel_gradient(name: str, sliding: Sliding, as_numpy: bool = False) -> LoopKernel:
    """Returns the kernel of a convolution's derivative in its kernel.

    It takes images, what stands for the result, with the channels last, and a part for each block:
    a matrix (terms, outputs).

    Args:
        name: the kernel's name.
        sliding: the convolution.
        as_numpy: whether as many places are added up one by one as by NumPy's kernel.
    """
    return KernelGradient(sliding, as_numpy).kernel(name)


class KernelGradient:
    """Writes the loops of such a derivative."""

    def __init__(self, sliding: Sliding, as_numpy: bool) -> None:
        self.sliding = sliding
        self.rows, self.columns = sliding.places
        self.turn = rows_of_a_turn(*sliding.places, 0 if as_numpy else MOST_CACHED_PLACES)
        self.image = LoopAxis("image", sliding.images, block=True)
        self.turns = LoopAxis("turn", self.rows // self.turn)
        self.x = Images(sliding, self.image)
        size = sliding.images * self.rows * self.columns * sliding.outputs
        self.g = Buffer("g", sliding.dtype, (size,), "in")
        shape = BLOCK_NUMBER.extent, sliding.terms * sliding.outputs
        self.part = Buffer("part", sliding.dtype, shape, "part")

    def kernel(self, name: str) -> LoopKernel:
        """Returns the kernel."""
        sliding = self.sliding
        every = LoopAxis("every", self.part.shape[1])
        place = Index([(BLOCK_NUMBER, every.extent), (every, 1)])
        zeros = Store(self.part, place, sliding.dtype.type(0))
        fill = For(every, [zeros], (), sliding.lanes)
        body = [
            For(panel.axis, self._terms(panel))
            for panel in panels_of(sliding.outputs, sliding.lanes)
        ]
        images = For(self.image, [*self.x.brought(), For(self.turns, body)])
        return LoopKernel(name, [self.x.given, self.g, self.part], self.x.scratch, [fill, images])

    def _terms(self, panel: Panel) -> list[Statement]:
        """Returns the loops over all elements of the kernel, some neighbours at a time."""
        *loops, (count, step) = self.sliding.term_loops
        axes = [(LoopAxis("term", n), distance) for n, distance in loops]
        distances = c_strides([*[n for n, _ in loops], count])
        body: list[Statement] = []
        for first, groups, length in groups_of_places(count):
            group = LoopAxis("group", groups)
            reading = [*axes, (group, length * step)]
            writing = [(a, n) for (a, _), n in zip(axes, distances)] + [(group, length)]
            inner = self._sums(panel, reading, writing, first, length, step)
            body.append(For(group, [inner]))
        for axis, _ in reversed(axes):
            body = [For(axis, body)]
        return body

    def _sums(
        self,
        panel: Panel,
        reading: list[tuple[LoopAxis, int]],
        writing: list[tuple[LoopAxis, int]],
        first: int,
        count: int,
        step: int,
    ) -> Statement:
        """Returns the sums of some neighbours over the rows of a turn.

        Args:
            panel: the outputs.
            reading: axes of terms, with the strides of images.
            writing: the same, with the numbers of terms that a step goes over.
            first: the first of the neighbours.
            count: how many there are.
            step: how far they lie apart in images.
        """
        sliding, steps = self.sliding, self.sliding.steps
        (down, along), outputs = sliding.stride, sliding.outputs
        row, column = LoopAxis("row", self.turn), LoopAxis("output", panel.lanes)
        place = LoopAxis("column", self.columns)
        down_there = [(self.turns, self.turn), (row, 1)]
        image, line, one, _ = c_strides((sliding.images, *sliding.places, outputs))
        lying = [*((a, n * line) for a, n in down_there), (place, one)]
        g = Index(
            [(self.image, image), *lying, (panel.axis, panel.lanes), (column, 1)], panel.begin
        )
        moved = [*((a, n * down * steps[0]) for a, n in down_there), (place, along * steps[1])]
        value, elements = LoopValue(sliding.dtype), [LoopValue(sliding.dtype) for _ in range(count)]
        body: list[Statement] = [Load(value, self.g, g)]
        for i, x in enumerate(elements):
            index = Index([*self.x.terms, *moved, *reading], (first + i) * step)
            body.append(Load(x, self.x.source, index))
        sums = [LoopValue(sliding.dtype) for _ in elements]
        totals = [LoopValue(sliding.dtype) for _ in elements]
        folds = [
            Fold(n, "add", x, value, begin=total)
            for n, x, total in zip(sums, elements, totals, strict=True)
        ]
        handed = [Fold(n, "hand_on", x) for n, x in zip(totals, sums, strict=True)]
        body = [For(row, [For(place, body, folds)], handed)]
        size = self.part.shape[1]
        for i, total in enumerate(totals):
            terms = [(a, n * outputs) for a, n in writing]
            where = [(BLOCK_NUMBER, size), *terms, (panel.axis, panel.lanes), (column, 1)]
            index = Index(where, (first + i) * outputs + panel.begin)
            body.append(UpdateOf(self.part, index, "add", total))
        lanes = 1 << (panel.lanes - 1).bit_length()
        return For(column, body, (), lanes)
