"""Kernels of convolutions: which convolutions have one, and into which blocks it is cut."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ....config import config
from ....kernels.check import check_kernel
from ....kernels.schedule import LANE_BYTES
from ....native.machine import vector_bytes
from ...convolution import LARGEST_SUMS, SMALLEST_WORK_TO_SHARE, number_of_sums
from ..codegen.operands import form_of, is_native_array
from ..regions.grid import Blocks
from .convolutions import convolution_kernel
from .kernel_gradients import kernel_gradient
from .native_run import MOST_BLOCKS
from .sliding import LARGEST_PANEL, MOST_TERMS_IN_REGISTERS, Sliding, in_parts
from .sliding_runs import NativeConvolution, NativeKernelGradient, SlidingRun

if TYPE_CHECKING:
    from ..annotations import EquationLike

__all__ = ["native_convolution"]

CONVOLVED_DTYPES = "fd"
# Of fewer places in a row too few sums are in registers at a time.
FEWEST_PLACES_OF_A_ROW = 4
# What longer rows need for the sums of a turn does not stay there.
LONGEST_ROW_OF_PLACES = 256
# Of fewer neighbours in a kernel too few sums are in registers at a time.
FEWEST_NEIGHBOURS = 3
# For more weights, in bytes for each place of the result, it takes long to bring them in order.
MOST_WEIGHTS = 1 << 12
# Larger padded images, in bytes, take long to be copied.
LARGEST_PADDED_IMAGE = 1 << 22
# Every block of rows copies the whole image where it is padded.
MOST_BLOCKS_OF_ROWS = 4


def native_convolution(
    name: str, equation: EquationLike, as_numpy: bool = False
) -> SlidingRun | None:
    """Returns the run of a convolution, whose machine code is not there yet.

    None where NumPy computes it, which gathers windows for BLAS.

    Args:
        name: the name of its function.
        equation: the equation, of ``conv``, ``conv_input_grad`` or ``conv_kernel_grad``.
        as_numpy: whether it adds up in the order of NumPy's kernel where it can.
    """
    sliding = sliding_of(equation)
    if sliding is None:
        return None
    of_kernel = equation.primitive.name == "conv_kernel_grad"
    if of_kernel:
        kernel = kernel_gradient(name, sliding, as_numpy)
    else:
        kernel = convolution_kernel(name, sliding)
    if config.check_programs:
        check_kernel(kernel)
    work = sliding.terms * sliding.outputs * sliding.images * prod(sliding.places)
    rows, most = rows_of_convolution(sliding)
    count = min(most, rows) if work >= SMALLEST_WORK_TO_SHARE else 1
    if of_kernel:
        size = sliding.images * prod(sliding.spatial) * sliding.channels
        size += sliding.images * prod(sliding.places) * sliding.outputs
        rows = sliding.images
        count = number_of_sums(rows, work, size, sliding.terms * sliding.outputs)
    run: type[SlidingRun] = NativeKernelGradient if of_kernel else NativeConvolution
    return run(kernel, equation, sliding, Blocks(rows, count))


def rows_of_convolution(sliding: Sliding) -> tuple[int, int]:
    """Returns the number of rows of which blocks are, and the most blocks."""
    if sliding.images > 1:
        return sliding.images, MOST_BLOCKS
    return sliding.places[0], MOST_BLOCKS_OF_ROWS


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
        vector_bytes() >= LANE_BYTES,
        equation.primitive.name == "conv_input_grad",
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
    if sliding.places[1] < FEWEST_PLACES_OF_A_ROW or sliding.outputs < sliding.fewest_lanes:
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
        return sliding.terms * sliding.outputs * itemsize <= LARGEST_SUMS
    if any(count > MOST_TERMS_IN_REGISTERS for count, _ in in_parts(sliding.term_loops)):
        return False
    weights = sliding.terms * sliding.outputs * itemsize
    if name == "conv" and weights > sliding.images * prod(sliding.places) * MOST_WEIGHTS:
        return False
    return sliding.terms * sliding.fewest_lanes * itemsize <= LARGEST_PANEL
