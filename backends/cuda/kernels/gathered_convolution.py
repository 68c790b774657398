"""Convolutions of float32 by own kernels, which read windows where they lie.

They are products of matrices: columns of windows are gathered into shared memory piece by piece,
where others write them to memory and read them again. With many rows cuBLAS gains more by its
products than that costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import cupy
from cupy import ndarray

from ...annotations import Shape
from ...config import config
from ..index_tables import table
from ..launch import BLOCK_THREADS, Kernel
from ..row_layout import has_units, limit
from ..strides import strides_of
from .patched_convolution import kernel_product_of_patches, product_of_patches
from .shallow_convolution import shallow_product

if TYPE_CHECKING:
    from ...annotations import GeometryLike

__all__ = ["gains_on_cudnn", "gathered_conv", "gathered_input_grad", "gathered_kernel_grad"]

FACTOR_OF_PRECISION = {"highest": "full_t", "tf32": "tf32_t"}
GATHERED_INSTANCES = tuple(
    f"{factor}, {rows}, {columns}"
    for factor in FACTOR_OF_PRECISION.values()
    for rows in (32, 64)
    for columns in (64, 128)
)
WINDOW_PRODUCT = Kernel("gathered_convolution", "window_product", "pppppllll", GATHERED_INSTANCES)
KERNEL_PRODUCT = Kernel("gathered_convolution", "kernel_product", "ppppllll", GATHERED_INSTANCES)
ADD_PARTS = Kernel("gathered_convolution", "add_parts", "ppll")
# The rows of a product at most: with more, cuBLAS gains more than columns in memory cost.
MOST_GATHERED_ROWS = 128
# Each tap has a bit.
MOST_TAPS = 32
# Groups are an axis of the grid.
MOST_GROUPS = 65_535
# Numbers of places have 32 bits.
MOST_REACH = 2**31 - 2**16
# What is summed between two barriers; the blocks that keep a processor busy.
DEPTH, BLOCKS_OF_PROCESSOR = 16, 4
# The rounds of a block at least, where blocks share what is summed.
FEWEST_ROUNDS = 8
SUMS_OF_BLOCK = 32
# What own kernels do in less time than cuDNN on an H200: sums over neighbouring windows, so many
# of them, for so many outputs. Gradients of images with fewer channels are cuDNN's.
MOST_ROWS_AHEAD, FEWEST_WINDOWS_AHEAD, FEWEST_CHANNELS_AHEAD = 64, 1 << 14, 8


def by_gathering(
    rows: int, kernel: Shape, geometry: GeometryLike, x: ndarray, y: ndarray, *out: ndarray
) -> bool:
    """Says whether own kernels compute a convolution.

    Args:
        rows: the rows of the product, of one group.
        kernel: the lengths of the kernel.
        geometry: the convolution.
        x: what windows meet.
        y: the other operand.
        out: the result, if it has axes of windows; else ``y`` has.
    """
    arrays = x, y, *out
    reach = [reach_of(one.shape, strides_of(one)) for one in arrays]
    # Windows begin and end within the padding.
    lengths = map(max, x.shape[2:], arrays[-1].shape[2:])
    padded = [n + sum(pads) for n, pads in zip(lengths, geometry.padding)]
    reach.append(reach_of((*x.shape[:2], *padded), strides_of(x)))
    return (
        len(kernel) in (1, 2)
        and all(one.dtype.char == "f" and one.size for one in arrays)
        and 0 < rows <= MOST_GATHERED_ROWS
        and geometry.groups <= MOST_GROUPS
        and prod(kernel) <= MOST_TAPS
        and max(reach) < MOST_REACH
        and has_units(x.data.device_id)
    )


def gains_on_cudnn(
    operation: str, x: Shape, y: Shape, wanted: Mapping[str, Shape], geometry: GeometryLike
) -> bool:
    """Says whether own kernels are quicker than cuDNN, where both can do the work.

    Args:
        operation: cuDNN's name.
        x, y: the operands' shapes.
        wanted: the spatial shape of the result, if the operands do not tell it.
        geometry: the convolution.
    """
    if geometry.groups > 1 or max(geometry.stride) > 1:
        return False
    if operation == "conv_dgrad":
        rows, windows = y[1], x[0] * prod(wanted["spatial"])
        if rows < FEWEST_CHANNELS_AHEAD:
            return False
    elif operation == "conv_wgrad":
        rows, windows = y[1], y[0] * prod(y[2:])
    else:
        rows, windows = y[0], x[0] * prod(x[2:])
    return rows <= MOST_ROWS_AHEAD and windows >= FEWEST_WINDOWS_AHEAD


def reach_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements behind the first one others may lie, at most."""
    return sum(n * abs(step) for n, step in zip(shape, strides))


def of_two_axes(numbers: Shape, alone: int) -> tuple[int, int]:
    """Returns a number for each of two axes, of which images with one axis have the second."""
    first, second = numbers if len(numbers) == 2 else (alone, *numbers)
    return first, second


def reaches(
    x: ndarray, kernel: Shape, geometry: GeometryLike, transposed: bool = False
) -> tuple[int, ...]:
    """Returns how windows meet images along both axes.

    Args:
        x: the images.
        kernel: the lengths of the kernel.
        geometry: the convolution.
        transposed: whether elements of the images look for the windows that they are in, which are
            neighbours then.
    """
    strides, dilations = (
        of_two_axes(tuple(some), 1) for some in (geometry.stride, geometry.dilation)
    )
    before = of_two_axes(tuple([low for low, _ in geometry.padding]), 0)
    lengths, taps = of_two_axes(x.shape[2:], 1), of_two_axes(kernel, 1)
    steps = of_two_axes(strides_of(x)[2:], 0)
    found: list[int] = []
    axes = zip(strides, dilations, before, lengths, steps, taps)
    for stride, dilation, low, *rest in axes:
        way = (1, low, -dilation) if transposed else (stride, -low, dilation)
        found += [*way, *rest]
    return tuple(found)


def instance(rows: int, columns: int) -> tuple[str, int, int]:
    """Returns the template's arguments, and the rows and columns of a block."""
    by = FACTOR_OF_PRECISION[config.matmul_precision]
    down = 32 if rows <= 32 else 64
    along = min((128, 64), key=lambda width: -(-columns // width) * width)
    return f"{by}, {down}, {along}", down, along


def product_with_windows(
    weights: ndarray,
    strides: tuple[int, int, int],
    x: ndarray,
    axes: tuple[int, ...],
    kernel: Shape,
    out: ndarray,
    groups: int,
    bias: ndarray | None = None,
    relu: bool = False,
) -> None:
    """Writes for each window the sums over channels and taps of weights times what it meets.

    Args:
        weights: the weights, contiguous.
        strides: their steps from row to row, from channel to channel and from group to group.
        x: the images that windows meet.
        axes: how windows do, as `reaches` says it.
        kernel: the lengths of the kernel.
        out: the results (images, groups x rows, *windows), contiguous.
        groups: the number of groups.
        bias: what is added to results, a number for each of all rows; contiguous.
        relu: whether negative results become 0.
    """
    taps, channels, rows = prod(kernel), x.shape[1] // groups, out.shape[1] // groups
    places = prod(out.shape[2:])
    by_image, by_channel = strides_of(x)[:2]
    numbers = (
        *axes,
        *(*strides, by_image, by_channel, channels * by_channel),
        *(places, out.shape[-1], out.shape[1] * places, rows * places),
    )
    if shallow_product(weights, x, numbers, out, channels * taps, groups, bias, relu):
        return
    factor = FACTOR_OF_PRECISION[config.matmul_precision]
    if product_of_patches(weights, strides, x, axes, numbers, out, groups, factor, bias, relu):
        return
    columns = out.shape[0] * places
    types, down, along = instance(rows, columns)
    grid = -(-columns // along), -(-rows // down), groups
    WINDOW_PRODUCT(
        types, grid, BLOCK_THREADS, weights, x, 0 if bias is None else bias, out,
        table(numbers, x.data.device_id), rows, channels * taps, columns, int(relu),
    )  # fmt: skip


def gathered_conv(
    x: ndarray,
    w: ndarray,
    places: Shape,
    geometry: GeometryLike,
    bias: ndarray | None = None,
    relu: bool = False,
) -> ndarray | None:
    """Returns a convolution; None where own kernels do not compute it.

    Args:
        x, w: the images and the kernels.
        places: the lengths of the result along spatial axes.
        geometry: the convolution.
        bias, relu: as in `product_with_windows`.
    """
    groups = geometry.groups
    kernel, rows = w.shape[2:], w.shape[0] // groups
    out = cupy.empty((x.shape[0], w.shape[0], *places), x.dtype)
    if not by_gathering(rows, kernel, geometry, x, w, out):
        return None
    taps = prod(kernel)
    steps = w.shape[1] * taps, taps, rows * w.shape[1] * taps
    w = cupy.ascontiguousarray(w)
    axes = reaches(x, kernel, geometry)
    bias = None if bias is None else cupy.ascontiguousarray(bias)
    product_with_windows(w, steps, x, axes, kernel, out, groups, bias, relu)
    return out


def gathered_input_grad(
    g: ndarray, w: ndarray, spatial: Shape, geometry: GeometryLike
) -> ndarray | None:
    """Returns the derivative of a convolution by its images; None where others compute it."""
    groups, kernel, rows = geometry.groups, w.shape[2:], w.shape[1]
    out = cupy.empty((g.shape[0], rows * groups, *spatial), g.dtype)
    if max(geometry.stride) > 1 or not by_gathering(rows, kernel, geometry, g, w, out):
        return None
    taps = prod(kernel)
    steps = taps, rows * taps, w.shape[0] // groups * rows * taps
    w = cupy.ascontiguousarray(w)
    axes = reaches(g, kernel, geometry, transposed=True)
    product_with_windows(w, steps, g, axes, kernel, out, groups)
    return out


def gathered_kernel_grad(
    x: ndarray, g: ndarray, kernel: Shape, geometry: GeometryLike
) -> ndarray | None:
    """Returns the derivative of a convolution by its kernels; None where others compute it."""
    groups = geometry.groups
    if not by_gathering(g.shape[1] // groups, kernel, geometry, x, g):
        return None
    g = cupy.ascontiguousarray(g)
    axes = reaches(x, kernel, geometry)
    factor = FACTOR_OF_PRECISION[config.matmul_precision]
    out = kernel_product_of_patches(x, g, axes, kernel, groups, factor)
    return gathered_kernel_product(x, g, axes, kernel, groups) if out is None else out


def gathered_kernel_product(
    x: ndarray, g: ndarray, axes: tuple[int, ...], kernel: Shape, groups: int
) -> ndarray:
    """Returns the derivative by kernels, of columns that are gathered piece by piece."""
    rows, channels = g.shape[1] // groups, x.shape[1] // groups
    places, taps = prod(g.shape[2:]), prod(kernel)
    columns, depth = channels * taps, g.shape[0] * places
    types, down, along = instance(rows, columns)
    across = -(-columns // along)
    blocks = across * -(-rows // down)
    busy = BLOCKS_OF_PROCESSOR * limit("processors", x.data.device_id)
    rounds = -(-depth // DEPTH)
    shares = max(1, min(-(-busy // (blocks * groups)), rounds // FEWEST_ROUNDS))
    share = -(-rounds // shares) * DEPTH
    shares = -(-depth // share)
    by_image, by_channel = strides_of(x)[:2]
    numbers = (
        *axes,
        *(g.shape[1] * places, places, g.shape[-1], rows * places),
        *(by_image, by_channel, channels * by_channel, across),
    )
    out = cupy.empty((g.shape[1], channels, *kernel), x.dtype)
    parts = out if shares == 1 else cupy.empty((shares, *out.shape), x.dtype)
    KERNEL_PRODUCT(
        types, (blocks, shares, groups), BLOCK_THREADS, g, x, parts,
        table(numbers, x.data.device_id), rows, columns, depth, share,
    )  # fmt: skip
    if shares > 1:
        ADD_PARTS("", -(-out.size // SUMS_OF_BLOCK), BLOCK_THREADS, parts, out, out.size, shares)
    return out
