"""The runs of convolutions by machine code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_threads import alone
from ....native.aligned_memory import aligned_empty
from ....native.scratch import scratch_bytes
from ...convolution import conv_input_grad
from ..regions.region_run import block_memory
from ..threads.pool import threads
from ..threads.sharing import MeasuredSharing
from .kernel_runs import without

if TYPE_CHECKING:
    from ....annotations import Axes, Buffer
    from ....kernels.kernel import LoopKernel
    from ....native.entry import NativeCall
    from ..annotations import EquationLike
    from ..regions.grid import Blocks
    from .sliding import Sliding

__all__ = ["NativeConvolution", "NativeKernelGradient", "SlidingRun"]


class SlidingRun:
    """Runs a kernel that slides over images, on blocks that threads share.

    Attributes:
        name: the name of its function in the text.
        kernel: its kernel, while its plan is written.
        most: how many threads can share it.
    """

    native = True

    def __init__(
        self, kernel: LoopKernel, equation: EquationLike, sliding: Sliding, blocks: Blocks
    ) -> None:
        self.name = kernel.name
        self.kernel = kernel
        self.dtype, self.outputs, self.terms = sliding.dtype, sliding.outputs, sliding.terms
        self.rank = len(equation.outputs[0].type.shape)
        self.spatial = tuple(range(2, self.rank))
        # The axes of images as the kernel goes over them.
        self.axes: Axes = (0, *self.spatial, 1)
        self.blocks, self.most = blocks, len(blocks)
        self.memory = scratch_bytes(self.kernel)
        self.share = MeasuredSharing()
        # The name of its kernel, and how many arrays that takes.
        self.entry: tuple[str, int]
        self.enter: NativeCall

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled, without the kernel."""
        return without(vars(self), "kernel", "share", "enter")

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, share=MeasuredSharing())

    def __repr__(self) -> str:
        return f"<{self.name} over {len(self.blocks)} blocks>"

    def _run(self, *arrays: Buffer) -> None:
        """Computes all blocks."""
        work = partial(self._work, iter(self.blocks), arrays)
        if self.most == 1:
            work()
            return
        with alone():
            self.share(work, min(threads.number, self.most))

    def _work(self, blocks: Iterable[tuple[int, int, int]], arrays: Sequence[Any]) -> None:
        memory = block_memory.bytes(self.memory) if self.memory else None
        for number, low, high in blocks:
            self.enter(number, low, high, memory, *arrays)


class NativeConvolution(SlidingRun):
    """Computes a convolution, or its derivative in the images: ``run(x, w)``."""

    def __init__(
        self, kernel: LoopKernel, equation: EquationLike, sliding: Sliding, blocks: Blocks
    ) -> None:
        super().__init__(kernel, equation, sliding, blocks)
        self.turned = equation.primitive.name == "conv_input_grad"
        self.params = dict(equation.params)
        self.is_padded = sliding.is_padded
        # The result's images and places, as they lie in memory.
        self.places = sliding.images, *sliding.places[4 - self.rank :]
        # The axes of weights as the kernel goes over them.
        outputs, channels = (1, 0) if self.turned else (0, 1)
        self.weight_axes: Axes = (*self.spatial, channels, outputs)
        self.panels = sliding.panels

    def __call__(self, x: Buffer, w: Buffer, *told: Buffer) -> Any:
        """Returns the result; its channels lie last in memory.

        Args:
            x, w: what is convolved, and the weights.
            told: the word of a kernel that tells of exceptions.
        """
        # Zeros around the images are multiplied too, where eager mode multiplies nothing.
        if self.turned and self.is_padded and not np.isfinite(w).all():
            return conv_input_grad(x, w, **self.params)
        out = aligned_empty((*self.places, self.outputs), self.dtype)
        self._run(np.ascontiguousarray(x.transpose(self.axes)), self._panels(w), out, *told)
        return out.transpose(0, self.rank - 1, *range(1, self.rank - 1))

    def _panels(self, w: Buffer) -> Buffer:
        """Returns the weights in panels, one behind the other."""
        if self.turned:
            w = w[(slice(None), slice(None), *(slice(None, None, -1),) * (self.rank - 2))]
        columns = w.transpose(self.weight_axes).reshape(self.terms, self.outputs)
        out = np.empty(w.size, w.dtype)
        end = 0
        for count, begin, lanes in self.panels:
            size = len(columns) * count * lanes
            part = columns[:, begin : begin + count * lanes].reshape(-1, count, lanes)
            out[end : end + size].reshape(count, -1, lanes)[...] = part.swapaxes(0, 1)
            end += size
        return out


class NativeKernelGradient(SlidingRun):
    """Computes the derivative of a convolution in its kernel: ``run(x, g)``."""

    def __init__(
        self, kernel: LoopKernel, equation: EquationLike, sliding: Sliding, blocks: Blocks
    ) -> None:
        super().__init__(kernel, equation, sliding, blocks)
        self.shape = equation.outputs[0].type.shape

    def __call__(self, x: Buffer, g: Buffer, *told: Buffer) -> Any:
        """Returns the result; ``told`` is the word of a kernel that tells of exceptions."""
        parts = np.empty((len(self.blocks), self.terms, self.outputs), self.dtype)
        x = np.ascontiguousarray(x.transpose(self.axes))
        self._run(x, np.ascontiguousarray(g.transpose(0, *self.spatial, 1)), parts, *told)
        total = parts.sum(axis=0) if len(parts) > 1 else parts[0]
        outputs, channels, *kernel = self.shape
        axes = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        total = total.reshape(*kernel, channels, outputs)
        return np.ascontiguousarray(total.transpose(axes))
