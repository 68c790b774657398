"""Convolutions of float32 by kernels that read windows out of patches of images.

A patch lies in shared memory once, though its elements are in many windows, so that most of what
these kernels do is to multiply. Images and results stay laid out (batch, channels, *spatial).
"""

from __future__ import annotations

from functools import lru_cache
from math import lcm, prod
from typing import NamedTuple

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Shape
from ..index_tables import table
from ..launch import BLOCK_THREADS, SMALL_BLOCK_THREADS, Kernel
from ..row_layout import limit
from ..strides import strides_of

__all__ = ["kernel_product_of_patches", "product_of_patches"]

# The parts of 8 windows that a warp may have.
PARTS_OF_WINDOWS = (4, 6, 7, 8)
# The parts of 8 columns of a kernel's gradient that a warp has, and the warps that have others.
PARTS_OF_KERNELS = ((9, 4), (2, 1), (4, 1))
PATCH_FACTORS = ("full_t", "tf32_t")
PATCH_INSTANCES = tuple(
    f"{factor}, {rows}, {parts}"
    for factor in PATCH_FACTORS
    for rows in (32, 64)
    for parts in PARTS_OF_WINDOWS
)
PATCH_KERNEL_INSTANCES = tuple(
    f"{factor}, {rows}, {parts}, {along}"
    for factor in PATCH_FACTORS
    for rows in (32, 64)
    for parts, along in PARTS_OF_KERNELS
)
ARRANGE_WEIGHTS = Kernel("patched_convolution", "arrange_weights", "ppp", PATCH_FACTORS)
PATCH_PRODUCT = Kernel("patched_convolution", "patch_product", "ppppppllll", PATCH_INSTANCES)
PATCH_KERNEL_PRODUCT = Kernel(
    "patched_convolution", "patch_kernel_product", "ppppllll", PATCH_KERNEL_INSTANCES
)
ADD_KERNEL_PARTS = Kernel("patched_convolution", "add_kernel_parts", "pppl")
# The sums that a block of these has, and its threads.
KERNEL_SUMS_OF_BLOCK, THREADS_OF_SUMS = 32, 512
# The channels of a step of a product; with fewer, most of a step would be zeros.
CHANNELS = 8
# What a block may take of the shared memory, where others are beside it, and alone.
MOST_SHARED, MOST_SHARED_ALONE = 100 << 10, 200 << 10
# The places of a patch for each of its windows at most. With 9, a kernel's gradient takes 0.7 of
# the time of gathering; with 6, products with windows take 0.9.
MOST_PLACES_OF_WINDOW = 9
# The blocks of a processor that share the windows, where there are few columns.
BLOCKS_OF_FEW_COLUMNS = 3
# The windows of a patch of a kernel's gradient.
WINDOWS_AT_ONCE = (192, 128, 96, 64, 48, 32, 16)
# What a part of a warp's windows costs beside its products, in parts.
PART_OF_OVERHEAD = 1.5


class AxisOfPatches(NamedTuple):
    """The way in which windows meet images along an axis, as the kernels have it."""

    scale: int
    shift: int
    step: int
    length: int
    stride: int
    taps: int

    @property
    def span(self) -> int:
        """The length from the first element that a window meets to the last."""
        return (self.taps - 1) * abs(self.step) + 1


class Patches(NamedTuple):
    """The places of patches.

    Attributes:
        down, right: the axes.
        places: the windows along both.
        windows: all windows.
    """

    down: AxisOfPatches
    right: AxisOfPatches
    places: tuple[int, int]
    windows: int

    @property
    def taps(self) -> int:
        """The elements of a channel that a window meets."""
        return self.down.taps * self.right.taps

    def room(self, at_once: int) -> int:
        """Returns the places of the largest patch of so many windows, from any multiple on."""
        # From there on it is the same again.
        period = min(self.windows, lcm(at_once, prod(self.places)))
        first = np.arange(0, period, at_once)
        last = np.minimum(first + at_once, self.windows) - 1
        height = (self.places[0] - 1) * self.down.scale + self.down.span
        width = (self.places[1] - 1) * self.right.scale + self.right.span

        def row(window: ndarray) -> ndarray:
            image, place = np.divmod(window, prod(self.places))
            return image * height + place // self.places[1] * self.down.scale

        return int((row(last) - row(first)).max() + self.down.span) * width

    def are_dense(self, room: int, at_once: int) -> bool:
        """Says whether so many windows make enough of a patch with so many places."""
        return room <= MOST_PLACES_OF_WINDOW * min(at_once, self.windows)


class PatchLaunch(NamedTuple):
    """The launch of a product.

    Attributes:
        types: the template's arguments.
        grid: the numbers of blocks.
        shared: the bytes of shared memory.
        numbers: what the kernel's table has behind what it has in any case.
        share: the windows of which a block sums up what belongs to them.
        sums: how these sums lie, as the kernel has it that adds them up; and their number.
    """

    types: str
    grid: tuple[int, int, int]
    shared: int
    numbers: tuple[int, ...]
    share: int = 0
    sums: tuple[tuple[int, ...], int] = (), 0


def patches_of(axes: tuple[int, ...], places: Shape, images: int) -> Patches:
    """Returns how patches lie, given what windows meet along both axes."""
    two = places if len(places) == 2 else (1, *places)
    down, right = AxisOfPatches(*axes[:6]), AxisOfPatches(*axes[6:])
    return Patches(down, right, (two[0], two[1]), images * prod(places))


def with_rest(count: int, rest: int, unit: int) -> int:
    """Returns the next number that leaves a rest when it is divided by a unit."""
    return count + (rest - count) % unit


@lru_cache(maxsize=4096)
def product_launch(
    axes: tuple[int, ...],
    places: Shape,
    images: int,
    rows: int,
    groups: int,
    factor: str,
    device: int,
) -> PatchLaunch | None:
    """Returns the launch of a product of weights with windows; None where others do better."""
    made = patches_of(axes, places, images)
    if made.taps == 1:
        # Windows share nothing.
        return None
    down = 32 if rows <= 32 else 64
    best: tuple[float, PatchLaunch] | None = None
    for parts in PARTS_OF_WINDOWS:
        windows = 32 * parts
        found = made.room(windows)
        room, pitch = with_rest(found, 0, 4), with_rest(found, 4, 16)
        words = room + windows + 2 * CHANNELS * (down * made.taps + pitch)
        fits = 4 * words <= min(MOST_SHARED, limit("shared", device))
        if not fits or not made.are_dense(found, windows):
            continue
        grid = -(-made.windows // windows), -(-rows // down), groups
        turns = -(-prod(grid) // limit("processors", device))
        cost = turns * (parts + PART_OF_OVERHEAD)
        if best is None or cost <= best[0]:
            types = f"{factor}, {down}, {parts}"
            best = cost, PatchLaunch(types, grid, 4 * words, (room, pitch))
    return best[1] if best else None


def product_of_patches(
    weights: ndarray,
    strides: tuple[int, int, int],
    x: ndarray,
    axes: tuple[int, ...],
    numbers: tuple[int, ...],
    out: ndarray,
    groups: int,
    factor: str,
    bias: ndarray | None,
    relu: bool,
) -> bool:
    """Writes for each window the sums over channels and taps of weights times what it meets.

    Args:
        weights, strides, x, axes, out, groups, bias, relu: as in `product_with_windows`.
        numbers: the kernels' table.
        factor: the type as which numbers are multiplied.

    Returns:
        whether it was done: there may be few channels, or no room for patches.
    """
    device = x.data.device_id
    channels, rows = x.shape[1] // groups, out.shape[1] // groups
    if channels < CHANNELS:
        return False
    launch = product_launch(axes, out.shape[2:], len(out), rows, groups, factor, device)
    if launch is None:
        return False
    taps, down = axes[5] * axes[11], 32 if rows <= 32 else 64
    size = launch.grid[1] * down * -(-channels // CHANNELS) * CHANNELS * taps
    arranged = cupy.empty(groups * size, x.dtype)
    by = table((*strides, rows, channels, taps, down), device)
    grid = -(-size // BLOCK_THREADS), groups
    ARRANGE_WEIGHTS(factor, grid, BLOCK_THREADS, weights, arranged, by)
    PATCH_PRODUCT(
        launch.types, launch.grid, SMALL_BLOCK_THREADS, weights, arranged, x,
        0 if bias is None else bias, out, table((*numbers, *launch.numbers), device), rows,
        channels, out.size // out.shape[1], int(relu), shared=launch.shared,
    )  # fmt: skip
    return True


@lru_cache(maxsize=4096)
def kernel_product_launch(
    axes: tuple[int, ...],
    places: Shape,
    images: int,
    rows: int,
    channels: int,
    groups: int,
    factor: str,
    device: int,
) -> PatchLaunch | None:
    """Returns the launch of a kernel's gradient; None where others do better."""
    made = patches_of(axes, places, images)
    if made.taps == 1:
        return None
    down = 32 if rows <= 32 else 64
    if channels < CHANNELS:
        columns = -(-channels * made.taps // CHANNELS)
        fit = [shape for shape in PARTS_OF_KERNELS if shape[1] == 1 and shape[0] >= columns]
        if not fit:
            return None
        (parts, along), blocks, held = fit[0], 1, channels
        most, busy = MOST_SHARED, BLOCKS_OF_FEW_COLUMNS
    else:
        columns = -(-channels // CHANNELS) * made.taps
        parts, along = PARTS_OF_KERNELS[0]
        first = range(0, columns, parts * along)
        last = [min(i + parts * along, columns) - 1 for i in first]
        # A block's columns may begin and end within those of a channel.
        pairs = zip(first, last, strict=True)
        held = max(z // made.taps - a // made.taps + 1 for a, z in pairs) * CHANNELS
        blocks, most, busy = len(last), MOST_SHARED_ALONE, 1
    most = min(most, limit("shared", device))
    for at_once in WINDOWS_AT_ONCE:
        room = made.room(at_once)
        pitch = with_rest(room, 4, 32)
        words = 2 * (down * (at_once + 4) + held * pitch + at_once)
        if 4 * words <= most and made.are_dense(room, at_once):
            break
    else:
        return None
    handed_on = (BLOCK_THREADS - 32 * along) * down // 4 * parts
    across = blocks * -(-rows // down)
    rounds = -(-made.windows // at_once)
    shares = max(1, min(busy * limit("processors", device) // (across * groups), rounds))
    share = -(-rounds // shares) * at_once
    grid = across, -(-made.windows // share), groups
    types = f"{factor}, {down}, {parts}, {along}"
    numbers = blocks, at_once, held, pitch
    order = channels, made.taps, down, parts, along, blocks, rows, across, groups
    sums = order, groups * across * down // 4 * parts * 32 * along
    return PatchLaunch(types, grid, 4 * max(words, handed_on), numbers, share, sums)


def kernel_product_of_patches(
    x: ndarray,
    g: ndarray,
    axes: tuple[int, ...],
    kernel: Shape,
    groups: int,
    factor: str,
) -> ndarray | None:
    """Returns a convolution's derivative by its kernels; None where others do better.

    Args:
        x, g: the images and the cotangents; these are contiguous.
        axes: how windows meet images, as `reaches` says it.
        kernel: the lengths of the kernel.
        groups: the number of groups.
        factor: the type as which numbers are multiplied.
    """
    device, channels, rows = x.data.device_id, x.shape[1] // groups, g.shape[1] // groups
    places = g.shape[2:]
    launch = kernel_product_launch(axes, places, len(g), rows, channels, groups, factor, device)
    if launch is None:
        return None
    by_image, by_channel = strides_of(x)[:2]
    size = prod(places)
    numbers = (
        *axes,
        *(g.shape[1] * size, size, places[-1], rows * size),
        *(by_image, by_channel, channels * by_channel, *launch.numbers),
    )
    order, count = launch.sums
    shares = launch.grid[1]
    parts = cupy.empty(shares * count, x.dtype)
    out = cupy.empty((g.shape[1], channels, *kernel), x.dtype)
    PATCH_KERNEL_PRODUCT(
        launch.types, launch.grid, BLOCK_THREADS, g, x, parts, table(numbers, device), rows,
        channels, len(g) * size, launch.share, shared=launch.shared,
    )  # fmt: skip
    ADD_KERNEL_PARTS(
        "", count // KERNEL_SUMS_OF_BLOCK, THREADS_OF_SUMS, parts, out, table(order, device), shares
    )
    return out
