"""Convolution on a GPU: by cuDNN or own kernels, whichever is quicker, or by columns.

Images stay laid out (batch, channels, *spatial). Columns of windows go to cuBLAS. Windows overlap,
so that their columns take many times the memory of the images: there is never more than a block of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import chain
from math import prod
from typing import TYPE_CHECKING

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, Shape
from .. import cudnn
from ..cublas.contraction import promoted_pair
from ..cublas.gemm import multiply
from ..index_tables import table
from ..launch import BLOCK_THREADS, Kernel, c_type
from ..strides import strides_of
from .gathered_convolution import (
    gains_on_cudnn,
    gathered_conv,
    gathered_input_grad,
    gathered_kernel_grad,
)

if TYPE_CHECKING:
    from ...annotations import GeometryLike

__all__ = ["CONVOLUTION_FUNCTIONS", "biased_conv"]

# The memory that columns take at most, unless one window of every channel takes more.
MOST_COLUMN_BYTES = 256 << 20
# About so many threads keep a GPU busy; where places are fewer, channels are divided too.
BUSY_THREADS = 1 << 18
# The numbers of spatial axes for which CI compiles instances; kernels take any number.
COMPILED_RANKS = (1, 2, 3)

# Elements are moved as integers, or pairs of them, of their size.
WORD_TYPES = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
    16: "pack<unsigned long long, 2>",
}
# The elements of columns and of images, where columns are added up.
COL2IM_TYPES = ("float, half_t", "float, bfloat16_t", "float, float", "double, double")

# The types of numbers of places: where no array has so many elements, and elsewhere.
INT_32, INT_64, FEWEST_64_BIT_COLUMNS = "int", "index_t", 2**31
IM2COL_INSTANCES = (
    *(f"{WORD_TYPES[size]}, {rank}, {INT_32}" for size in (2, 4, 8, 16) for rank in COMPILED_RANKS),
    f"{WORD_TYPES[4]}, 2, {INT_64}",
)
COL2IM_INSTANCES = (
    *(f"{types}, {rank}, 1, {INT_32}" for types in COL2IM_TYPES for rank in COMPILED_RANKS),
    *(f"float, float, 2, 2, {INT_32}", f"double, double, 2, 2, {INT_32}"),
    f"float, float, 2, 1, {INT_64}",
)
IM2COL = Kernel("convolution", "im2col", "ppplllllllll", IM2COL_INSTANCES)
COL2IM = Kernel("convolution", "col2im", "ppplllllll", COL2IM_INSTANCES)


def by_kernels(
    operation: str, own: Callable[..., ndarray | None]
) -> Callable[[Callable[..., ndarray]], Callable[..., ndarray]]:
    """Has cuDNN or own kernels do the work of a function of columns where they can.

    Args:
        operation: cuDNN's name.
        own: takes what the function takes; returns None where own kernels do not compute it.

    Returns:
        A decorator; the operands' dtypes promote.
    """

    def decorate(by_columns: Callable[..., ndarray]) -> Callable[..., ndarray]:
        @wraps(by_columns)
        def compute(x: ndarray, y: ndarray, *, geometry: GeometryLike, **wanted: Shape) -> ndarray:
            x, y = promoted_pair(x, y)
            if x.dtype.kind in "biu":
                # cuBLAS does not multiply integers; in double precision they are exact.
                out = compute(x.astype(float), y.astype(float), geometry=geometry, **wanted)
                return out.astype(x.dtype)
            first = gains_on_cudnn(operation, x.shape, y.shape, wanted, geometry)
            out = own(x, y, geometry=geometry, **wanted) if first else None
            if out is None:
                spatial = next(iter(wanted.values()), ())
                out = cudnn.convolved(operation, x, y, spatial, geometry)
            if out is None and not first:
                out = own(x, y, geometry=geometry, **wanted)
            return by_columns(x, y, geometry=geometry, **wanted) if out is None else out

        return compute

    return decorate


def conv_by_gathering(x: ndarray, w: ndarray, *, geometry: GeometryLike) -> ndarray | None:
    """Returns what ``conv`` does by own kernels; None where they do not compute it."""
    if is_plain(w.shape[2:], geometry):
        return None
    places = cudnn.places_of(x.shape[2:], w.shape[2:], geometry)
    return gathered_conv(x, w, places, geometry)


def input_grad_by_gathering(
    g: ndarray, w: ndarray, *, spatial: Shape, geometry: GeometryLike
) -> ndarray | None:
    """Returns what ``conv_input_grad`` does in the same way."""
    plain = is_plain(w.shape[2:], geometry)
    return None if plain else gathered_input_grad(g, w, spatial, geometry)


def kernel_grad_by_gathering(
    x: ndarray, g: ndarray, *, kernel: Shape, geometry: GeometryLike
) -> ndarray | None:
    """Returns what ``conv_kernel_grad`` does in the same way."""
    return None if is_plain(kernel, geometry) else gathered_kernel_grad(x, g, kernel, geometry)


@by_kernels("conv_fprop", conv_by_gathering)
def conv(x: ndarray, w: ndarray, *, geometry: GeometryLike) -> ndarray:
    """Correlates x (N, C, *spatial) with w (O, C / groups, *kernel)."""
    kernel, groups = w.shape[2:], geometry.groups
    places = cudnn.places_of(x.shape[2:], kernel, geometry)
    out = cupy.empty((x.shape[0], w.shape[0], *places), x.dtype)
    weights = weight_matrices(w, groups)
    outs = by_channel_group(out, groups)
    for images, windows, columns in window_columns(x, kernel, places, geometry, images_first=True):
        multiply_groups(weights, columns, outs[images, :, :, windows])
    return out


def biased_conv(
    x: ndarray, w: ndarray, bias: ndarray, *, geometry: GeometryLike, relu: bool
) -> ndarray:
    """Returns a convolution of float32 with a number added for each output.

    Args:
        x, w: the images and the kernels.
        bias: the numbers.
        geometry: the convolution.
        relu: whether negative results become 0.
    """
    kernel = w.shape[2:]
    places = cudnn.places_of(x.shape[2:], kernel, geometry)
    found = gathered_conv(x, w, places, geometry, bias, relu)
    if found is not None:
        return found
    out = conv(x, w, geometry=geometry)
    out += bias.reshape(-1, *[1] * len(kernel))
    return cupy.maximum(out, 0, out=out) if relu else out


@by_kernels("conv_dgrad", input_grad_by_gathering)
def conv_input_grad(g: ndarray, w: ndarray, *, spatial: Shape, geometry: GeometryLike) -> ndarray:
    """Transposes ``conv`` in x: g (N, O, *out), w (O, C / groups, *kernel) to (N, C, *spatial)."""
    dtype, kernel, groups = g.dtype, w.shape[2:], geometry.groups
    channels = w.shape[1] * groups
    out = cupy.empty((g.shape[0], channels, *spatial), dtype)
    weights = weight_matrices(w, groups).swapaxes(1, 2)
    cotangents = by_channel_group(g, groups)
    if is_plain(kernel, geometry):
        multiply_groups(weights, cotangents, by_channel_group(out, groups))
        return out
    if not (out.size and w.shape[0]):
        out.fill(0)
        return out
    # Sums of 16-bit floats are formed in 32 bits.
    working = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    taps, total = prod(kernel), prod(g.shape[2:])
    for images, windows in column_blocks(g.shape[0], total, channels * taps * working.itemsize):
        part = cotangents[images, :, :, windows]
        shape = (len(part), groups, w.shape[1] * taps, part.shape[3])
        columns = cupy.empty(shape, working)
        multiply_groups(weights, part, columns)
        add_columns(columns, out[images], kernel, g.shape[2:], geometry, windows)
    return out


@by_kernels("conv_wgrad", kernel_grad_by_gathering)
def conv_kernel_grad(x: ndarray, g: ndarray, *, kernel: Shape, geometry: GeometryLike) -> ndarray:
    """Transposes ``conv`` in w: x (N, C, *spatial), g (N, O, *out) to (O, C / groups, *kernel)."""
    dtype, groups = x.dtype, geometry.groups
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    cotangents = by_channel_group(g, groups)
    working = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    total = cupy.empty((groups, outputs, channels * prod(kernel)), working)
    begun = False
    for images, windows, columns in window_columns(x, kernel, g.shape[2:], geometry):
        part = cotangents[images, :, :, windows].transpose(1, 2, 0, 3)
        part = part.reshape(groups, outputs, part.shape[2] * part.shape[3])
        multiply(part, columns.swapaxes(1, 2), total, accumulate=begun)
        begun = True
    if not begun:
        total.fill(0)
    return total.reshape(g.shape[1], channels, *kernel).astype(dtype, copy=False)


# -- columns


def window_columns(
    x: ndarray, kernel: Shape, places: Shape, geometry: GeometryLike, *, images_first: bool = False
) -> Iterator[tuple[slice, slice, ndarray]]:
    """Yields slices of images and of windows, and their columns.

    The columns are (images, groups, channels and taps, windows) with the images first, otherwise
    (groups, channels and taps, images and windows).
    """
    images, channels = x.shape[:2]
    groups, taps, total = geometry.groups, prod(kernel), prod(places)
    rows = channels // groups * taps
    if not (images and total):
        return
    if is_plain(kernel, geometry) and (images_first or images == 1):
        columns = x.reshape(images, groups, rows, total)
        yield slice(0, images), slice(0, total), columns if images_first else columns[0]
        return
    axes = axes_table(x, kernel, places, geometry)
    for some, windows in column_blocks(images, total, channels * taps * x.itemsize):
        many, count = some.stop - some.start, windows.stop - windows.start
        columns = cupy.empty(channels * taps * many * count, x.dtype)
        by_image, by_column = count, many * count
        if images_first:
            by_image, by_column = channels * taps * count, count
        if columns.size:
            grid = convolution_grid(many * count, channels)
            kind = place_type(x, columns, kernel, geometry)
            IM2COL(
                f"{WORD_TYPES[x.itemsize]}, {len(kernel)}, {kind}", grid, BLOCK_THREADS, x[some],
                columns, axes, many, channels, taps, windows.start, count, *strides_of(x)[:2],
                by_image, by_column,
            )  # fmt: skip
        shape = (many, groups, rows, count) if images_first else (groups, rows, many * count)
        yield some, windows, columns.reshape(shape)


def add_columns(
    columns: ndarray,
    out: ndarray,
    kernel: Shape,
    places: Shape,
    geometry: GeometryLike,
    windows: slice,
) -> None:
    """Adds up columns of windows in contiguous images, which the first windows overwrite."""
    images, channels = out.shape[:2]
    axes = axes_table(out, kernel, places, geometry)
    lanes = 2 if out.dtype.kind == "c" else 1
    types = [c_type(lane(t)) for t in (columns.dtype, out.dtype)]
    size = prod(out.shape[2:])
    COL2IM(
        f"{types[0]}, {types[1]}, {len(kernel)}, {lanes}, "
        f"{place_type(out, columns, kernel, geometry)}",
        convolution_grid(images * size, channels), BLOCK_THREADS, columns, out, axes, images,
        channels, prod(kernel), windows.start, windows.stop - windows.start, size,
        int(windows.start > 0),
    )  # fmt: skip


def place_type(x: ndarray, columns: ndarray, kernel: Shape, geometry: GeometryLike) -> str:
    """Returns the type in which kernels count the places of images and columns, and threads."""
    # Windows begin before images and end behind them.
    beyond = sum(a * b for a, b in zip(kernel, geometry.dilation)) + sum(map(sum, geometry.padding))
    spatial = [n + beyond for n in x.shape[2:]]
    lengths = zip([*x.shape[:2], *spatial], strides_of(x))
    reach = sum(n * abs(step) for n, step in lengths)
    most = max(reach, x.shape[0] * prod(spatial), columns.size) + BLOCK_THREADS
    return INT_32 if most < FEWEST_64_BIT_COLUMNS else INT_64


def lane(dtype: DType) -> DType:
    """Returns the dtype of the numbers that an element consists of."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def column_blocks(images: int, windows: int, window_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Yields slices of images and windows; a block has whole images, or windows of one image."""
    fit = max(1, MOST_COLUMN_BYTES // max(1, window_bytes))
    many = max(1, fit // max(1, windows))
    for image in range(0, images, many):
        for window in range(0, windows, fit):
            yield (
                slice(image, min(image + many, images)),
                slice(window, min(window + fit, windows)),
            )


def convolution_grid(elements: int, channels: int) -> tuple[int, int]:
    """Returns how many blocks of threads, and how many of them share the channels."""
    share = max(1, min(channels, BUSY_THREADS // max(1, elements), 65535))
    return -(-elements // BLOCK_THREADS), share


def axes_table(x: ndarray, kernel: Shape, places: Shape, geometry: GeometryLike) -> ndarray:
    """Returns the table by which kernels know the spatial axes of images."""
    before = (lo for lo, _ in geometry.padding)
    steps = strides_of(x)[2:]
    axes = zip(places, kernel, geometry.stride, geometry.dilation, before, x.shape[2:], steps)
    return table(tuple(chain(*axes)), x.data.device_id)


# -- layouts


def is_plain(kernel: Shape, geometry: GeometryLike) -> bool:
    """Says whether every window is one element, and every element one window."""
    return prod(kernel) == 1 and max(geometry.stride) == 1 and not any(map(any, geometry.padding))


def by_channel_group(x: ndarray, groups: int) -> ndarray:
    """Returns images (N, C, *spatial) as (N, groups, C / groups, elements)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, prod(x.shape[2:]))


def weight_matrices(w: ndarray, groups: int) -> ndarray:
    """Returns kernels as a matrix (outputs, channels and taps) for each group."""
    return w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))


def multiply_groups(weights: ndarray, columns: ndarray, out: ndarray) -> None:
    """Multiplies each group's matrix with its columns, of all images.

    Args:
        weights: (groups, rows, inner).
        columns: (images, groups, inner, windows).
        out: (images, groups, rows, windows).
    """
    images, groups = columns.shape[:2]
    if groups <= images:
        for i in range(groups):
            every = cupy.broadcast_to(weights[i], (images, *weights.shape[1:]))
            multiply(every, columns[:, i], out[:, i])
    else:
        for i in range(images):
            multiply(weights, columns[i], out[i])


CONVOLUTION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "conv": conv,
    "conv_input_grad": conv_input_grad,
    "conv_kernel_grad": conv_kernel_grad,
}
