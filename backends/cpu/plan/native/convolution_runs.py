"""The runs of convolutions by machine code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_threads import alone
from ....config import config
from ....kernels.check import check_kernel
from ....native.entry import NativeCall
from ....native.scratch import scratch_bytes
from ...convolution import MOST_PARTIAL_SUMS, conv_input_grad
from ..codegen.operands import form_of, is_native_array
from ..regions.grid import Blocks
from ..regions.region_run import block_memory
from ..threads.pool import threads
from ..threads.sharing import MeasuredSharing
from .convolutions import convolution_kernel
from .kernel_gradients import kernel_gradient
from .native_run import MOST_BLOCKS, SMALLEST_EFFORT_TO_SHARE
from .sliding import MOST_TERMS_IN_REGISTERS, Sliding, in_parts, panels_of, part_length

if TYPE_CHECKING:
    from ....annotations import Axes, Buffer
    from ....kernels.kernel import LoopKernel
    from ..annotations import EquationLike

__all__ = ["NativeConvolution", "NativeKernelGradient", "native_convolution"]

CONVOLVED_DTYPES = "fd"
# Of fewer places in a row too few sums are in registers at a time.
FEWEST_PLACES_OF_A_ROW = 4
# Larger panels of weights, in bytes, do not stay in the cache while a row is gone over.
LARGEST_PANEL = 1 << 18
# Larger sums for all terms and outputs, in bytes, do not stay there either.
LARGEST_SUMS = 1 << 18
# What longer rows need for the sums of a turn does not stay there.
LONGEST_ROW_OF_PLACES = 256
# Of fewer neighbours in a kernel too few sums are in registers at a time.
FEWEST_NEIGHBOURS = 3
# For more weights, in bytes for each place of the result, it takes long to bring them in order.
MOST_WEIGHTS = 1 << 12
# Larger padded images, in bytes, take long to be copied.
LARGEST_PADDED_IMAGE = 1 << 22
# The effort of a multiplication, in tenths of a nanosecond.
MULTIPLICATION_EFFORT = 0.15
# Every block of rows copies the whole image where it is padded.
MOST_BLOCKS_OF_ROWS = 4


class SlidingRun:
    """Runs a kernel that slides over images, on blocks that threads share.

    Attributes:
        name: the name of its function in the text.
        kernel: its kernel.
        most: how many threads can share it.
    """

    native = True

    def __init__(self, kernel: LoopKernel, sliding: Sliding, rank: int) -> None:
        self.name = kernel.name
        self.kernel = kernel
        if config.check_programs:
            check_kernel(kernel)
        self.sliding = sliding
        self.rank = rank
        self.spatial = tuple(range(2, rank))
        # The axes of images as the kernel goes over them.
        self.axes: Axes = (0, *self.spatial, 1)
        rows, most = self._rows()
        effort = MULTIPLICATION_EFFORT * sliding.terms * sliding.outputs
        effort *= sliding.images * prod(sliding.places)
        self.most = min(most, rows) if effort >= SMALLEST_EFFORT_TO_SHARE else 1
        self.blocks = Blocks(rows, self.most)
        self.memory = scratch_bytes(self.kernel)
        self.share = MeasuredSharing()
        self.enter: NativeCall

    def __repr__(self) -> str:
        return f"<{self.name} over {len(self.blocks)} blocks>"

    def _rows(self) -> tuple[int, int]:
        """Returns the number of rows of which blocks are, and the most blocks."""
        return self.sliding.images, MOST_BLOCKS

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

    def __init__(self, name: str, equation: EquationLike, sliding: Sliding) -> None:
        kernel = convolution_kernel(name, sliding)
        super().__init__(kernel, sliding, len(equation.outputs[0].type.shape))
        self.turned = equation.primitive.name == "conv_input_grad"
        self.params = dict(equation.params)
        # The axes of weights as the kernel goes over them.
        outputs, channels = (1, 0) if self.turned else (0, 1)
        self.weight_axes: Axes = (*self.spatial, channels, outputs)

    def _rows(self) -> tuple[int, int]:
        if self.sliding.images > 1:
            return super()._rows()
        return self.sliding.places[0], MOST_BLOCKS_OF_ROWS

    def __call__(self, x: Buffer, w: Buffer) -> Any:
        """Returns the result; its channels lie last in memory."""
        sliding = self.sliding
        # Zeros around the images are multiplied too, where eager mode multiplies nothing.
        if self.turned and sliding.is_padded and not np.isfinite(w).all():
            return conv_input_grad(x, w, **self.params)
        shape = sliding.images, *sliding.places[4 - self.rank :], sliding.outputs
        out = np.empty(shape, sliding.dtype)
        self._run(np.ascontiguousarray(x.transpose(self.axes)), self._panels(w), out)
        return out.transpose(0, self.rank - 1, *range(1, self.rank - 1))

    def _panels(self, w: Buffer) -> Buffer:
        """Returns the weights in panels, one behind the other."""
        if self.turned:
            w = w[(slice(None), slice(None), *(slice(None, None, -1),) * (self.rank - 2))]
        columns = w.transpose(self.weight_axes).reshape(self.sliding.terms, self.sliding.outputs)
        out = np.empty(w.size, w.dtype)
        end = 0
        for axis, begin, lanes in panels_of(self.sliding.outputs, self.sliding.lanes):
            count = axis.extent
            size = len(columns) * count * lanes
            part = columns[:, begin : begin + count * lanes].reshape(-1, count, lanes)
            out[end : end + size].reshape(count, -1, lanes)[...] = part.swapaxes(0, 1)
            end += size
        return out


class NativeKernelGradient(SlidingRun):
    """Computes the derivative of a convolution in its kernel: ``run(x, g)``."""

    def __init__(self, name: str, equation: EquationLike, sliding: Sliding) -> None:
        kernel = kernel_gradient(name, sliding)
        super().__init__(kernel, sliding, len(equation.outputs[0].type.shape))
        self.shape = equation.outputs[0].type.shape

    def _rows(self) -> tuple[int, int]:
        sliding = self.sliding
        places = prod(sliding.spatial) * sliding.channels + prod(sliding.places) * sliding.outputs
        # The sums take no more memory than the operands.
        fit = sliding.images * places // (sliding.terms * sliding.outputs)
        return sliding.images, min(MOST_PARTIAL_SUMS, max(fit, 1))

    def __call__(self, x: Buffer, g: Buffer) -> Any:
        """Returns the result."""
        sliding = self.sliding
        parts = np.empty((len(self.blocks), sliding.terms, sliding.outputs), sliding.dtype)
        x = np.ascontiguousarray(x.transpose(self.axes))
        self._run(x, np.ascontiguousarray(g.transpose(0, *self.spatial, 1)), parts)
        total = parts.sum(axis=0) if len(parts) > 1 else parts[0]
        outputs, channels, *kernel = self.shape
        axes = (self.rank - 1, self.rank - 2, *range(self.rank - 2))
        total = total.reshape(*kernel, channels, outputs)
        return np.ascontiguousarray(total.transpose(axes))


def native_convolution(name: str, equation: EquationLike) -> SlidingRun | None:
    """Returns the run of a convolution, whose machine code is not there yet.

    None where NumPy computes it, which gathers windows for BLAS.

    Args:
        name: the name of its function.
        equation: the equation, of ``conv``, ``conv_input_grad`` or ``conv_kernel_grad``.
    """
    sliding = sliding_of(equation)
    if sliding is None:
        return None
    if equation.primitive.name == "conv_kernel_grad":
        return NativeKernelGradient(name, equation, sliding)
    return NativeConvolution(name, equation, sliding)


def sliding_of(equation: EquationLike) -> Sliding | None:
    """Returns the sizes of a convolution; None where a kernel would not be quicker."""
    types = [form_of(x) for x in equation.operands]
    out, geometry = equation.outputs[0].type, equation.params["geometry"]
    if any(known is None for known in types):
        return None
    if {x.dtype for x in (*types, out)} != {out.dtype} or out.dtype.char not in CONVOLVED_DTYPES:
        return None
    if not is_native_array(out) or geometry.groups != 1 or not 3 <= len(out.shape) <= 4:
        return None
    (images, channels, *spatial), kernel = types[0].shape, types[1].shape[2:]
    padding, outputs = geometry.padding, out.shape[1]
    of_kernel = equation.primitive.name == "conv_kernel_grad"
    if of_kernel:
        kernel, outputs = out.shape[2:], out.shape[0]
    if equation.primitive.name == "conv_input_grad":
        if set(geometry.stride) != {1}:
            return None
        reach = [d * (k - 1) for d, k in zip(geometry.dilation, kernel)]
        sizes = zip(reach, padding, spatial, out.shape[2:])
        padding = tuple([(r - lo, n + lo - count) for r, (lo, _), count, n in sizes])
    whole = 4 - len(out.shape)
    sliding = Sliding(
        out.dtype,
        images,
        channels,
        outputs,
        (*(1,) * whole, *spatial),
        (*(1,) * whole, *kernel),
        (*(1,) * whole, *geometry.stride),
        (*(1,) * whole, *geometry.dilation),
        (*((0, 0),) * whole, *padding),
    )
    return sliding if is_quick(sliding, equation.primitive.name) else None


def is_quick(sliding: Sliding, name: str) -> bool:
    """Says whether a kernel takes less time than windows that are gathered for BLAS.

    Args:
        sliding: the convolution.
        name: the name of the primitive.
    """
    itemsize = sliding.dtype.itemsize
    if not sliding.images * sliding.terms * sliding.outputs * prod(sliding.places):
        return False
    if sliding.places[1] < FEWEST_PLACES_OF_A_ROW or sliding.outputs < sliding.lanes:
        return False
    if min(min(pair) for pair in sliding.padding) < 0:
        return False
    if sliding.is_padded:
        padded = sliding.channels * prod(sliding.padded) * itemsize
        if padded > LARGEST_PADDED_IMAGE:
            return False
    if name == "conv_kernel_grad":
        few = sliding.term_loops[-1][0] < FEWEST_NEIGHBOURS
        # Without windows there is nothing that NumPy would have to gather.
        if few or prod(sliding.kernel) == 1 or sliding.places[1] > LONGEST_ROW_OF_PLACES:
            return False
        if part_length(sliding.places[1]) > MOST_TERMS_IN_REGISTERS:
            return False
        return sliding.terms * sliding.outputs * itemsize <= LARGEST_SUMS
    if any(count > MOST_TERMS_IN_REGISTERS for count, _ in in_parts(sliding.term_loops)):
        return False
    weights = sliding.terms * sliding.outputs * itemsize
    if name == "conv" and weights > sliding.images * prod(sliding.places) * MOST_WEIGHTS:
        return False
    return sliding.terms * sliding.lanes * itemsize <= LARGEST_PANEL
