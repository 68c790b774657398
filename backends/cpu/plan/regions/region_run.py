"""The run of a region: it brings arrays to the grid, shares blocks, and puts parts together.

A sum over the first axis is the sum of the blocks' sums, each of which NumPy adds up pairwise. Its
rounding error grows with the logarithm of a block's size and with the number of blocks at most. The
blocks do not depend on the number of threads, and neither does the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_threads import alone
from ...parallel import ThreadMemory
from ..threads.pool import threads
from ..threads.sharing import MeasuredSharing
from ..watched import as_reporting, report_results
from .broadcast_rows import row_by_row
from .cost import SMALLEST_SHARED_EFFORT

if TYPE_CHECKING:
    from ....annotations import Axes, Buffer, Shape
    from ..labels import LabelRead
    from .block_source import BlockCode
    from .region_grid import BlockOutput

__all__ = ["RegionRun", "WatchedRun"]

# The memory of a thread for values between the equations of a block.
block_memory = ThreadMemory()


class RegionRun:
    """Computes the outputs of a region: ``run(*operands)``.

    Attributes:
        name: the name of its function in the text.
        function: the compiled loop over blocks.
        native: whether it runs machine code.
        made: makes an array of a shape and a dtype.
        labels: the inputs that are labels, and who reads them.
    """

    native = False
    labels: Sequence[LabelRead] = ()
    made: Callable[..., Any] = staticmethod(np.empty)

    def __init__(self, name: str, code: BlockCode) -> None:
        self.can_take = code.can_take
        self.name = name
        self.inputs = code.shapes
        self.outputs = code.outputs
        self.blocks = code.blocks
        self.memory = code.memory
        self.shapes = [code.grid.joined(o.groups) for o in code.outputs]
        self.effort = code.effort
        self.most = len(code.blocks) if code.effort >= SMALLEST_SHARED_EFFORT else 1
        # The length of rows; 0 if it does not matter.
        self.row = code.grid.shape[-1] if self.most > 1 and len(code.grid.shape) > 1 else 0
        self.share = MeasuredSharing()
        self.function: Callable[..., None]

    def __repr__(self) -> str:
        return f"<{self.name} over {len(self.blocks)} blocks>"

    def __call__(self, *operands: Any, into: tuple[Any, ...] = ()) -> list[Any]:
        """Returns the outputs; ``into`` has memory for each, or None."""
        outs, work = self.begun(operands, into)
        with alone():
            self.share(work, min(threads.number, self.most))
        return self.finished(outs)

    def begun(
        self, operands: Sequence[Any], into: Sequence[Any]
    ) -> tuple[list[Any], Callable[[], None]]:
        """Returns the memory of the outputs, and what each thread calls to fill it."""
        arrays = [x if how is None else in_grid(x, *how) for x, how in zip(operands, self.inputs)]
        outs, parts = self._rooms(into)
        # Taken from by all threads: what comes next is theirs alone.
        return outs, partial(self._work, iter(self.blocks), [*arrays, *parts])

    def finished(self, outs: list[Any]) -> list[Any]:
        """Returns the outputs, once all blocks are computed."""
        return [
            put_together(output, out) if output.reduction else out
            for output, out in zip(self.outputs, outs)
        ]

    def _rooms(self, into: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Returns the memory for all outputs, and the same as blocks fill it."""
        outs: list[Any] = []
        parts: list[Any] = []
        for i, (output, shape) in enumerate(zip(self.outputs, self.shapes)):
            if output.reduction:
                out = part = np.empty((len(self.blocks), *output.rest), output.type.dtype)
            else:
                out, part = self._room(output, shape, into[i] if into else None)
            outs.append(out)
            parts.append(part)
        return outs, parts

    def _room(self, output: BlockOutput, shape: Shape, into: Any) -> tuple[Any, Any]:
        """Returns the memory for an output, and the same as it lies in the grid."""
        axes = output.axes
        if into is not None:
            lying = into if axes is None else into.transpose(axes)
            if lying.flags.c_contiguous:
                return into, lying.reshape(shape)
        if axes is None:
            out = self.made(output.type.shape, output.type.dtype)
            return out, out.reshape(shape)
        lying = self.made(tuple([output.type.shape[a] for a in axes]), output.type.dtype)
        return lying.transpose(np.argsort(axes)), lying.reshape(shape)

    def _work(self, blocks: Iterable[tuple[int, int, int]], arrays: list[Any]) -> None:
        with row_by_row(self.row):
            self.function(blocks, block_memory.bytes(self.memory), *arrays)


class WatchedRun(RegionRun):
    """Does the same, and reports where NaN or infinity is made."""

    def begun(
        self, operands: Sequence[Any], into: Sequence[Any]
    ) -> tuple[list[Any], Callable[[], None]]:
        outs, work = super().begun(operands, into)
        return outs, as_reporting(work)

    def finished(self, outs: list[Any]) -> list[Any]:
        found = super().finished(outs)
        report_results([x for x, o in zip(found, self.outputs) if o.reduction == "add"])
        return found


def in_grid(x: Buffer, axes: Axes | None, shape: Shape) -> Any:
    """Returns an array in its shape in a grid, without a copy if its memory allows."""
    if not shape:
        return x.reshape(-1)[0]
    return x.reshape(shape) if axes is None else x.transpose(axes).reshape(shape)


def put_together(output: BlockOutput, parts: Any) -> Any:
    """Returns a reduction of all blocks from that of each."""
    # Sums of narrow integers stay as narrow as they are.
    total = getattr(np, output.reduction).reduce(parts, 0, parts.dtype)
    if output.divisor != 1:
        total = total / output.divisor
    shape, axes = output.type.shape, output.axes
    if not shape:
        return total
    if axes is None:
        return total.reshape(shape)
    return total.reshape([shape[a] for a in axes]).transpose(np.argsort(axes))
