"""Convolution on the CPU: windows gathered into matrices, multiplied by BLAS.

Channels lie last in the memory of results, whatever the layout of the operands. So windows are
copied in long runs, and all matrix products are large. Results are views of such memory
with the axes (batch, channels, *spatial); elementwise functions and pooling keep its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..blas_calls import dot
from .parallel import ThreadMemory, each

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, GeometryLike, Padding, Shape

__all__ = ["conv", "conv_input_grad", "conv_kernel_grad"]

# Copies of windows overlap and take many times the memory of the image. Blocks of about this many
# bytes stay in the cache until they are multiplied.
GATHERED_BLOCK_BYTES = 1 << 21
# The largest number of partial sums.
MOST_PARTIAL_SUMS = 8
# Threads share work of so many multiplications.
SMALLEST_WORK_TO_SHARE = 1 << 24
# Derivatives in a kernel add up at most so many places of the result one by one, or those of one
# row if there are more. Machine code has such sums in registers, unless all take more bytes.
# Products of fewer places take BLAS long.
MOST_PLACES_IN_TURN, FEWEST_PLACES_OF_PRODUCTS = 384, 96
LARGEST_SUMS = 1 << 18

# The largest ratio of multiplications with and without windows that save additions.
LARGEST_WORK_RATIO = 1.25
# With fewer channels, runs along the last spatial axis are longer than along channels.
FEWEST_CHANNELS_OF_A_RUN = 8


def conv(x: Buffer, w: Buffer, *, geometry: GeometryLike) -> Buffer:
    """Correlates x (N, C, *spatial) with w (O, C / groups, *kernel)."""
    dtype = np.result_type(x, w)
    windows = sliding(x, w.shape[2:], geometry)
    weights = kernel_group_matrices(w, geometry.groups)
    out = np.empty((*windows.shape[: w.ndim - 1], *weights.shape[::2]), dtype)

    def multiplied(block: tuple[slice, ...]) -> None:
        multiply(gathered_windows(windows, block, dtype), weights, group_matrices(out[block]))

    each(multiplied, gatherings(windows, dtype))
    return channels_second(out)


def conv_kernel_grad(x: Buffer, g: Buffer, *, kernel: Shape, geometry: GeometryLike) -> Any:
    """Transposes ``conv`` in w: x (N, C, *spatial), g (N, O, *out) to (O, C / groups, *kernel)."""
    dtype = np.result_type(x, g)
    windows = sliding(x, kernel, geometry)
    size = x.size + g.size
    g = split_channels(channels_last(g), geometry.groups)
    images, rows, *columns = windows.shape[: windows.ndim // 2]
    channels, outputs = windows.shape[-1], g.shape[-1]
    shape = geometry.groups, prod(kernel) * channels, outputs
    # The number of sums does not depend on that of threads, and neither does the result.
    work = prod(shape) * images * rows * prod(columns)
    count = number_of_sums(images, work, size, prod(shape))
    totals = np.zeros((count, *shape), dtype)
    turn = rows_of_a_turn(rows, prod(columns))
    few = turn * prod(columns) < FEWEST_PLACES_OF_PRODUCTS
    if few or prod(shape) * dtype.itemsize > LARGEST_SUMS:
        turn = rows

    def add_up(number: int) -> None:
        total = totals[number]
        part = np.empty_like(total)
        own = slice(images * number // count, images * (number + 1) // count)
        cotangents = g[own]
        for block in gatherings(windows[own], dtype, turn):
            gathered = gathered_windows(windows[own], block, dtype).swapaxes(1, 2)
            given = group_matrices(cotangents[block])
            step = turn * prod(columns)
            for start in range(0, given.shape[1], step):
                places = slice(start, start + step)
                multiply(gathered[..., places], given[:, places], part)
                np.add(total, part, out=total)

    each(add_up, range(count))
    total = totals.sum(axis=0) if count > 1 else totals[0]
    w = total.reshape(geometry.groups, *kernel, channels, outputs)
    w = w.transpose(0, w.ndim - 1, w.ndim - 2, *range(1, w.ndim - 2))
    return np.ascontiguousarray(w.reshape(geometry.groups * outputs, channels, *kernel))


def number_of_sums(images: int, work: int, size: int, weights: int) -> int:
    """Returns how many sums the derivative in a kernel is cut into, each of some images.

    Args:
        images: the number of images.
        work: the number of multiplications.
        size: the elements of the operands. The sums take no more memory than these.
        weights: the elements of the kernel.
    """
    if work < SMALLEST_WORK_TO_SHARE:
        return 1
    return max(1, min(MOST_PARTIAL_SUMS, images, size // max(1, weights)))


def rows_of_a_turn(rows: int, columns: int, places: int = 0) -> int:
    """Returns how many rows of the result are added up one by one, a divisor of their number.

    Args:
        rows, columns: the numbers of rows, and of places of a row.
        places: the most places that are added up, unless one row has more; 0 for NumPy's.
    """
    most = max(1, (places or MOST_PLACES_IN_TURN) // max(1, columns))
    return max((n for n in range(1, min(most, rows) + 1) if rows % n == 0), default=1)


def conv_input_grad(g: Buffer, w: Buffer, *, spatial: Shape, geometry: GeometryLike) -> Buffer:
    """Transposes ``conv`` in x: g (N, O, *out), w (O, C / groups, *kernel) to (N, C, *spatial)."""
    groups, padding = geometry.groups, geometry.padding
    g = split_channels(channels_last(g), groups)
    full = tuple(n + lo + hi for n, (lo, hi) in zip(spatial, padding))
    spread = spread_rows
    if w.shape[1] < FEWEST_CHANNELS_OF_A_RUN and g.shape[-1] > 1:
        spread = spread_planes
    elif is_gathered(g.shape, w.shape, full, geometry):
        spread = spread_gathered
    out = spread(g, kernel_group_matrices(w, groups), w.shape[2:], full, geometry)
    inner = (slice(lo, lo + n) for n, (lo, _) in zip(spatial, padding))
    return channels_second(out[(slice(None), *inner)])


def spread_rows(
    g: Buffer, weights: Buffer, kernel: Shape, full: Shape, geometry: GeometryLike
) -> Buffer:
    """Adds up what each place in the kernel makes of g (N, *out, groups, outputs), channels last.

    Args:
        g: values for all windows.
        weights: the kernel as a matrix (taps and channels, outputs) for each group.
        kernel, full: the spatial shapes of the kernel and of the padded result (N, *full, groups,
            channels).
        geometry: the convolution's.
    """
    images, *count, groups, outputs = g.shape
    channels = weights.shape[1] // prod(kernel)
    dtype = np.result_type(g, weights)
    taps = weights.reshape(groups, *kernel, channels, outputs).swapaxes(-1, -2)
    out = np.zeros((images, *full, groups, channels), dtype)
    row_bytes = prod(count[1:]) * groups * channels * dtype.itemsize

    def spread(many: slice, rows: slice) -> None:
        values = g[many, rows]
        part = scratch((*values.shape[:-1], channels), dtype)
        for tap in np.ndindex(*kernel):
            own = taps[(slice(None), *tap)]
            if outputs == 1:
                np.multiply(values, own[:, 0], out=part)
            else:
                multiply(group_matrices(values), own, group_matrices(part))
            there = out[(many, *reached_key(tap, rows.start, values.shape[1:-2], geometry))]
            np.add(there, part, out=there)

    image_by_image(spread, image_blocks(images, count[0], row_bytes))
    return out


def is_gathered(g: Shape, w: Shape, full: Shape, geometry: GeometryLike) -> bool:
    """Says whether windows along the last axis are worth a copy."""
    few = g[-1] < FEWEST_CHANNELS_OF_A_RUN or w[1] < FEWEST_CHANNELS_OF_A_RUN
    if len(full) < 2 or few or w[-1] < 2 or geometry.stride[-1] > 1:
        return False
    return full[-1] <= LARGEST_WORK_RATIO * g[-3]


def spread_gathered(
    g: Buffer, weights: Buffer, kernel: Shape, full: Shape, geometry: GeometryLike
) -> Buffer:
    """Returns the result of ``spread_rows``: BLAS adds up what meets along the last axis.

    A place of the result is a product of a window of g, with zeros around.
    """
    images, *count, groups, outputs = g.shape
    *others, taps = kernel
    dtype = np.result_type(g, weights)
    channels = weights.shape[1] // prod(kernel)
    matrix = weights.reshape(groups, prod(others), taps, channels, outputs)[:, :, ::-1]
    matrix = matrix.transpose(0, 2, 4, 1, 3).reshape(groups, taps * outputs, -1)
    reach = geometry.dilation[-1] * (taps - 1)
    out = np.zeros((images, *full, groups, channels), dtype)
    row_bytes = prod(count[1:-1]) * full[-1] * groups * taps * outputs * dtype.itemsize

    def spread(many: slice, rows: slice) -> None:
        values = g[many, rows]
        before = values.shape[:-3]
        places = prod(before) * full[-1]
        shapes = (
            (*before, count[-1] + 2 * reach, groups, outputs),
            (groups, *before, full[-1], taps, outputs),
            (groups, places, matrix.shape[-1]),
        )
        edges = [0, *accumulate(map(prod, shapes))]
        memory = scratch((edges[-1],), dtype)
        around, columns, products = (
            memory[i:j].reshape(shape) for i, j, shape in zip(edges, edges[1:], shapes)
        )
        around[..., :reach, :, :] = 0
        around[..., -reach:, :, :] = 0
        around[..., reach:-reach, :, :] = values
        *steps, step, group, element = around.strides
        strides = group, *steps, step, step * geometry.dilation[-1], element
        np.copyto(columns, as_strided(around, columns.shape, strides, writeable=False))
        multiply(columns.reshape(groups, places, taps * outputs), matrix, products)
        parted = products.reshape(groups, *before, full[-1], prod(others), channels)
        parted = np.moveaxis(parted, 0, -2)
        # From low rows of g to high ones, whatever the blocks are.
        for number, tap in reversed(list(enumerate(np.ndindex(*others)))):
            where = reached_key((*tap, 0), rows.start, (*before[1:], full[-1]), geometry)
            there = out[(many, *where)]
            np.add(there, parted[..., number, :, :], out=there)

    image_by_image(spread, image_blocks(images, count[0], row_bytes))
    return out


def spread_planes(
    g: Buffer, weights: Buffer, kernel: Shape, full: Shape, geometry: GeometryLike
) -> Buffer:
    """Returns the result of ``spread_rows`` for few channels, adding rows of a channel at once."""
    images, *count, groups, _ = g.shape
    channels = weights.shape[1] // prod(kernel)
    dtype = np.result_type(g, weights)
    out = np.zeros((groups, channels, images, *full), dtype)
    row_bytes = prod(count[1:]) * groups * weights.shape[1] * dtype.itemsize

    def spread(many: slice, rows: slice) -> None:
        values = group_matrices(g[many, rows]).swapaxes(1, 2)
        where = g[many, rows].shape[:-2]
        planes = scratch((*weights.shape[:2], prod(where)), dtype)
        multiply(weights, values, planes)
        planes = planes.reshape(groups, *kernel, channels, *where)
        for tap in np.ndindex(*kernel):
            place = reached_key(tap, rows.start, where[1:], geometry)
            there = out[(slice(None), slice(None), many, *place)]
            np.add(there, planes[(slice(None), *tap)], out=there)

    image_by_image(spread, image_blocks(images, count[0], row_bytes))
    return out.transpose(*range(2, out.ndim), 0, 1)


def reached_key(tap: Shape, row: int, count: Shape, geometry: GeometryLike) -> list[slice]:
    """Returns the key of the elements that a place in the kernel meets, from a row on."""
    starts = [i * d for i, d in zip(tap, geometry.dilation)]
    starts[0] += row * geometry.stride[0]
    return [slice(i, i + s * n, s) for i, s, n in zip(starts, geometry.stride, count)]


# -- windows


def sliding(x: Buffer, kernel: Shape, geometry: GeometryLike) -> Buffer:
    """Returns a view (N, *out, groups, *kernel, channels) of x (N, C, *spatial), padded."""
    stride, padding = geometry.stride, geometry.padding
    dilation, groups = geometry.dilation, geometry.groups
    x = split_channels(padded_channels_last(x, padding, groups), groups)
    spatial = zip(x.shape[1:], kernel, stride, dilation)
    count = ((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in spatial)
    steps = x.strides[1:-2]
    return as_strided(
        x,
        (x.shape[0], *count, groups, *kernel, x.shape[-1]),
        (
            x.strides[0],
            *(step * s for step, s in zip(steps, stride)),
            x.strides[-2],
            *(step * d for step, d in zip(steps, dilation)),
            x.strides[-1],
        ),
        writeable=False,
    )


def gatherings(windows: Buffer, dtype: DType, multiple: int = 1) -> Iterator[tuple[slice, ...]]:
    """Yields the keys of the blocks of windows that are gathered together.

    Blocks within an image have a multiple of so many rows, but for the last one.
    """
    rank = windows.ndim // 2 - 1
    count, window = windows.shape[: rank + 1], windows.shape[rank + 2 :]
    if prod(window[:-1]) == 1:
        yield (slice(None),)
        return
    row_bytes = prod(count[2:]) * windows.shape[rank + 1] * prod(window) * dtype.itemsize
    yield from image_blocks(count[0], count[1], row_bytes, multiple)


def gathered_windows(windows: Buffer, block: tuple[slice, ...], dtype: DType) -> Buffer:
    """Returns for each group the matrix (windows, taps and channels) of a block of windows."""
    rank = windows.ndim // 2 - 1
    groups, window = windows.shape[rank + 1], windows.shape[rank + 2 :]
    if prod(window[:-1]) == 1:
        return group_matrices(windows.reshape(*windows.shape[: rank + 2], window[-1]))
    group, places, taps = (rank + 1,), range(rank + 1), range(rank + 2, windows.ndim)
    few = window[-1] < FEWEST_CHANNELS_OF_A_RUN
    moved = windows[block].transpose((*group, *taps, *places) if few else (*group, *places, *taps))
    columns = scratch(moved.shape, dtype)
    np.copyto(columns, moved)
    if few:
        columns = columns.reshape(groups, prod(window), prod(moved.shape[-rank - 1 :]))
        return columns.swapaxes(1, 2)
    return columns.reshape(groups, prod(moved.shape[1 : rank + 2]), prod(window))


def image_by_image(
    work: Callable[[slice, slice], None], blocks: Iterable[tuple[slice, slice]]
) -> None:
    """Calls a function with every block; blocks with images in common are not done at once."""
    found: dict[int, list[tuple[slice, slice]]] = {}
    for many, rows in blocks:
        found.setdefault(many.start, []).append((many, rows))

    def work_on_images(parts: list[tuple[slice, slice]]) -> None:
        for part in parts:
            work(*part)

    each(work_on_images, list(found.values()))


def image_blocks(
    images: int, rows: int, row_bytes: int, multiple: int = 1
) -> Iterator[tuple[slice, slice]]:
    """Yields slices of images and of rows; a block has whole images, or rows of one image."""
    fit = max(1, GATHERED_BLOCK_BYTES // max(1, row_bytes))
    many = max(1, fit // rows)
    fit = max(1, fit // multiple) * multiple
    for image in range(0, images, many):
        for row in range(0, rows, fit):
            yield slice(image, image + many), slice(row, row + fit)


thread_scratch = ThreadMemory()


def scratch(shape: Shape, dtype: DType) -> Buffer:
    """Returns an array without values; the next call of the thread takes its memory."""
    size = prod(shape) * dtype.itemsize
    return thread_scratch.bytes(size)[:size].view(dtype).reshape(shape)


# -- layouts


def channels_last(x: Buffer) -> Buffer:
    """Returns x with its channels as the last axis, in memory too."""
    moved = x.transpose(0, *range(2, x.ndim), 1)
    return moved if moved.strides[-1] == moved.itemsize else np.ascontiguousarray(moved)


def padded_channels_last(x: Buffer, padding: Padding, groups: int) -> Buffer:
    """Returns x (N, C, *spatial) with zeros around, as (N, *spatial, C)."""
    few = x.shape[1] // groups < FEWEST_CHANNELS_OF_A_RUN
    last = (0, *range(2, x.ndim), 1)
    if not any(map(any, padding)):
        return x.transpose(last) if few else channels_last(x)
    spatial = [n + lo + hi for n, (lo, hi) in zip(x.shape[2:], padding)]
    if few:
        out = np.zeros((*x.shape[:2], *spatial), x.dtype).transpose(last)
    else:
        out = np.zeros((x.shape[0], *spatial, x.shape[1]), x.dtype)
    inner = (slice(lo, lo + n) for n, (lo, _) in zip(x.shape[2:], padding))
    out[(slice(None), *inner)] = x.transpose(last)
    return out


def channels_second(out: Buffer) -> Buffer:
    """Returns an array (N, *spatial, groups, channels) as (N, channels, *spatial)."""
    flat = out.reshape(*out.shape[:-2], out.shape[-2] * out.shape[-1])
    return flat.transpose(0, flat.ndim - 1, *range(1, flat.ndim - 1))


def split_channels(x: Buffer, groups: int) -> Buffer:
    """Splits the last axis into groups of channels."""
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def multiply(x: Buffer, y: Buffer, out: Buffer) -> None:
    """Fills a stack of matrices with the products of two; other threads run meanwhile."""
    for a, b, c in zip(x, y, out, strict=True):
        if c.flags.c_contiguous:
            dot(a, b, c)
        else:
            np.matmul(a, b, out=c)


def group_matrices(x: Buffer) -> Buffer:
    """Returns an array (N, *spatial, groups, channels) as a matrix for each group."""
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:]).swapaxes(0, 1)


def kernel_group_matrices(w: Buffer, groups: int) -> Buffer:
    """Returns a kernel as a matrix (taps and channels, outputs) for each group."""
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    moved = w.transpose(0, *range(3, w.ndim), 2, 1)
    return moved.reshape(groups, prod(w.shape[2:]), w.shape[1])
