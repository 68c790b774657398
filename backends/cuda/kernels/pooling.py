"""Pooling on a GPU: one launch each, for axes in any order in memory.

The gradient is a gather too: every element asks the windows that have it, in the order in which
the CPU adds them up, so that the result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from cupy import ndarray

from ...annotations import Buffer, DType, Shape
from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel, c_type
from ..strides import strides_without_gaps

if TYPE_CHECKING:
    from ...annotations import WindowsLike

__all__ = ["POOLING_FUNCTIONS", "max_pool_with_argmax"]

MOST_SPATIAL_AXES = 3
# So many blocks fill the largest GPUs; every thread then has several planes. A thread with windows
# looks up more before its first plane than after it, so that these blocks are fewer.
FILLING_BLOCKS = {"down": 1024, "up": 2048}
# Kernels are unrolled for square windows of two axes of these lengths, the gradient's kernels for
# these numbers of windows that an element has along an axis.
SQUARES = (2, 3)
OVERLAPS = (1, 2)
# The windows side by side that have a kernel, by which each writes all its elements.
SPREAD_WINDOW = (2, 2)
# Channels that one instruction loads and stores, where those lie innermost.
MOST_PACKED_CHANNELS = 8

MAX_POOL_TYPES = (
    "float, 0, 1", "float, 2, 4", "float, 3, 1", "half_t, 2, 8", "bfloat16_t, 3, 1", "double, 0, 2",
)  # fmt: skip
ARGMAX_TYPES = (
    "float, signed char, 0, 1", "float, signed char, 2, 1", "float, signed char, 3, 4",
    "half_t, signed char, 3, 8", "double, short, 0, 2",
)  # fmt: skip
AVG_POOL_TYPES = (
    "float, float, 0, 1", "float, float, 2, 4", "half_t, half_t, 3, 8", "double, double, 0, 2",
    "int, double, 0, 4", "bool, double, 0, 8", "complex_t<float>, complex_t<float>, 0, 1",
)  # fmt: skip
TAKE_TYPES = ("2, signed char", "4, signed char", "8, short", "16, signed char")
SCATTER_TYPES = (
    "float, signed char, 0, 1", "float, signed char, 1, 4", "float, signed char, 2, 4",
    "half_t, signed char, 1, 8", "bfloat16_t, signed char, 2, 1", "double, short, 0, 2",
    "complex_t<double>, signed char, 0, 1",
)  # fmt: skip
SPREAD_TYPES = ("float, signed char, 2", "half_t, signed char, 2", "complex_t<double>, short, 2")
AVG_POOL_GRAD_TYPES = (
    "float, float, 0, 1", "float, float, 1, 4", "float, float, 2, 1", "half_t, half_t, 1, 8",
    "double, double, 0, 2", "complex_t<float>, complex_t<float>, 0, 2",
)  # fmt: skip
POOLING_KERNELS = {
    name: Kernel("pooling", name, parameters, types)
    for name, parameters, types in (
        ("max_pool", "ppt", MAX_POOL_TYPES), ("max_pool_argmax", "ppt", ARGMAX_TYPES),
        ("pool_take", "pppt", TAKE_TYPES), ("pool_scatter", "pppt", SCATTER_TYPES),
        ("pool_spread", "pppt", SPREAD_TYPES),
        ("avg_pool", "ppt", AVG_POOL_TYPES), ("avg_pool_grad", "ppt", AVG_POOL_GRAD_TYPES),
    )
}  # fmt: skip
MAX_POOL_WITH_ARGMAX = Kernel("pooling", "max_pool_with_argmax", "pppt", ARGMAX_TYPES)


def max_pool(x: ndarray, *, windows: WindowsLike) -> ndarray:
    """Returns the maximum of every window of x (N, C, *spatial); NaN where there is one."""
    return pooled("max_pool", windows, None, starts_at_pack(x), x)


def max_pool_argmax(x: ndarray, *, windows: WindowsLike) -> ndarray:
    """Returns the number of the first place in every window that has the maximum."""
    return pooled("max_pool_argmax", windows, None, starts_at_pack(x), x)


def max_pool_with_argmax(x: ndarray, *, windows: WindowsLike) -> tuple[ndarray, ndarray]:
    """Returns what `max_pool` and `max_pool_argmax` do, and reads the array once."""
    launch = pooling_launch(
        "max_pool_argmax", windows, None, starts_at_pack(x), True, x.shape, x.dtype, x.strides,
        None, (),
    )  # fmt: skip
    out, winners = ndarray(launch.shape, x.dtype), ndarray(launch.shape, launch.dtype)
    if launch.table is not None:
        MAX_POOL_WITH_ARGMAX(
            launch.types, launch.grid, launch.block, out, winners, x, launch.table
        )
    if launch.order is None:
        return out, winners
    return out.transpose(launch.order), winners.transpose(launch.order)


def pool_take(x: ndarray, winner: ndarray, *, windows: WindowsLike) -> ndarray:
    """Returns of every window of x the element at the place that has won; of the padding zero."""
    return pooled("pool_take", windows, None, False, x, winner)


def pool_scatter(g: ndarray, winner: ndarray, *, spatial: Shape, windows: WindowsLike) -> ndarray:
    """Adds a value for every window to the element at the place that has won."""
    if are_side_by_side(windows, spatial, g.shape[2:]) and is_in_planes(g, winner):
        return pooled("pool_spread", windows, spatial, False, g, winner)
    packs = starts_at_pack(g) and starts_at_pack(winner)
    return pooled("pool_scatter", windows, spatial, packs, g, winner)


def avg_pool(x: ndarray, *, windows: WindowsLike, count_include_pad: bool) -> ndarray:
    """Returns the mean of every window of x (N, C, *spatial)."""
    return pooled("avg_pool", windows, None, starts_at_pack(x), x, padding=count_include_pad)


def avg_pool_grad(
    g: ndarray, *, spatial: Shape, windows: WindowsLike, count_include_pad: bool
) -> ndarray:
    """Transposes ``avg_pool``: every window spreads its value over its elements."""
    packs = starts_at_pack(g)
    return pooled("avg_pool_grad", windows, spatial, packs, g, padding=count_include_pad)


def are_side_by_side(windows: WindowsLike, spatial: Shape, counts: Shape) -> bool:
    """Says whether windows of 2 x 2 leave nothing out between or beside them."""
    return (
        windows.window == windows.stride == SPREAD_WINDOW
        and not any(map(any, windows.padding))
        and spatial == (2 * counts[0], 2 * counts[1])
    )


def is_in_planes(*arrays: ndarray) -> bool:
    """Says whether the channels of arrays do not lie innermost."""
    return all(x.shape[1] == 1 or x.strides[1] != x.itemsize for x in arrays)


# -- launches


class PoolingLaunch(NamedTuple):
    """The launches over windows of arrays of certain dtypes, shapes and strides.

    Attributes:
        shape: the result's shape, as it lies in memory.
        dtype: its dtype.
        order: how its axes are to be turned then; None where they are in order.
        types: the template's arguments.
        grid, block: the numbers of blocks and of their threads.
        table: the kernel's table of all this; None if there are no elements.
    """

    shape: Shape
    dtype: DType
    order: Shape | None
    types: str
    grid: tuple[int, int]
    block: int
    table: Buffer | None


def pooled(
    name: str, windows: WindowsLike, below: Shape | None, packs: bool, x: ndarray,
    *second: ndarray, padding: bool = True,
) -> ndarray:
    """Returns the result of a primitive for one operand or two, by `pooling_launch`."""
    others = (second[0].dtype, second[0].strides) if second else (None, ())
    launch = pooling_launch(
        name, windows, below, packs, padding, x.shape, x.dtype, x.strides, *others
    )
    out = ndarray(launch.shape, launch.dtype)
    if launch.table is not None:
        POOLING_KERNELS[name](
            launch.types, launch.grid, launch.block, out, x, *second, launch.table
        )
    return out if launch.order is None else out.transpose(launch.order)


def starts_at_pack(x: ndarray) -> bool:
    """Says whether an array starts where a pack may."""
    return not x.data.ptr % WIDEST_LOAD_BYTES


def channels_at_once(channels: int, steps: Sequence[Sequence[int]], dtype: DType) -> int:
    """Returns how many channels go at once, by the operands' strides in elements."""
    n = min(WIDEST_LOAD_BYTES // dtype.itemsize, MOST_PACKED_CHANNELS)
    whole = channels % n == 0 and all(
        s[1] == 1 and not any(step % n for step in (s[0], *s[2:])) for s in steps
    )
    return n if whole else 1


def dtype_and_types(
    name: str, windows: WindowsLike, up: bool, dtype: DType, second: DType, n: int
) -> tuple[DType, str]:
    """Returns the result's dtype and the template's arguments; dtypes are those of operands."""
    window = windows.window
    rank = len(window)
    square = window[0] if rank == 2 and window[0] == window[1] and window[0] in SQUARES else 0
    most = max(-(-k // s) for k, s in zip(window, windows.stride))
    unrolled = (most if rank <= 2 and most in OVERLAPS else 0) if up else square
    if name == "max_pool":
        return dtype, f"{c_type(dtype)}, {unrolled}, {n}"
    if name == "pool_take":
        return dtype, f"{dtype.itemsize}, {c_type(second)}"
    if name == "pool_scatter":
        return dtype, f"{c_type(dtype)}, {c_type(second)}, {unrolled}, {n}"
    if name == "pool_spread":
        return dtype, f"{c_type(dtype)}, {c_type(second)}, {window[0]}"
    if name == "max_pool_argmax":
        out = np.min_scalar_type(-prod(window))
    else:
        out = np.dtype(np.float64) if dtype.kind in "?biu" else dtype
    return out, f"{c_type(dtype)}, {c_type(out)}, {unrolled}, {n}"


@lru_cache(maxsize=4096)
def pooling_launch(
    name: str, windows: WindowsLike, below: Shape | None, packs: bool, padding: bool,
    operand: Shape, dtype: DType, strides: Shape, second: DType | None, second_strides: Shape,
) -> PoolingLaunch:
    """Returns the launch of a primitive.

    Args:
        name: the primitive.
        windows: the windows along each spatial axis.
        below: the spatial shape of the result, if the windows lie over it; None where it has an
            element for each of them, and they lie over the operand.
        packs: whether several channels may be loaded at once, if they lie side by side.
        padding: whether means count the padding.
        operand, dtype, strides: the shape, the dtype and the strides of the first operand.
        second, second_strides: the dtype and the strides of the second one.

    Raises:
        NotImplementedError: there are more than three spatial axes.
    """
    spatial = operand[2:] if below is None else below
    rank = len(spatial)
    if rank > MOST_SPATIAL_AXES:
        raise NotImplementedError(
            f"pooling on a GPU knows up to {MOST_SPATIAL_AXES} spatial axes, not {rank}; "
            "ft.to_device(x, 'cpu') brings an array to where there may be more"
        )
    steps = [[stride // dtype.itemsize for stride in strides]]
    if second is not None:
        steps.append([stride // second.itemsize for stride in second_strides])
    images, channels = operand[:2]
    sizes = zip(spatial, windows.window, windows.stride, windows.padding)
    counts = tuple([(n + sum(pads) - k) // s + 1 for n, k, s, pads in sizes])
    counts = counts if below is None else operand[2:]
    shape = images, channels, *(counts if below is None else spatial)
    # Threads go along the channels where those lie innermost, and else along the spatial axes of
    # planes that lie one after the other.
    first = steps[0]
    innermost = channels > 1 and first[1] == 1 and 1 not in first[2:]
    in_planes = not innermost and all(
        1 in (images, channels) or s[0] == channels * s[1] for s in steps
    )
    here = strides_without_gaps(shape, innermost)

    def in_table(s: Sequence[int]) -> list[int]:
        plane = (s[1] if channels > 1 else s[0]) if in_planes else s[0]
        return [s[1], plane, *(0,) * (MOST_SPATIAL_AXES - rank), *s[2:]]

    ones, zeros = [1] * (MOST_SPATIAL_AXES - rank), [0] * (MOST_SPATIAL_AXES - rank)
    n = channels_at_once(channels, steps, dtype) if packs and innermost else 1
    # Threads have elements of the result, or windows that write several.
    by_window = below is None or name == "pool_spread"
    lanes = prod(counts if by_window else spatial) * (1 if in_planes else channels // n)
    planes = images * (channels if in_planes else 1)
    across = max(-(-lanes // BLOCK_THREADS), 1)
    width = max(-(-lanes // across), 1)
    high = BLOCK_THREADS // width
    operands = [in_table(s) for s in steps]
    table = [
        *ones, *spatial, *ones, *windows.window, *ones, *windows.stride,
        *zeros, *[before for before, _ in windows.padding], *ones, *counts,
        *operands[0], *operands[-1], *in_table(here),
        1 if in_planes else channels, planes, width, padding,
    ]
    blocks = FILLING_BLOCKS["down" if by_window else "up"]
    grid = across, max(min(-(-planes // high), -(-blocks // across), 65535), 1)
    words = np.array(table, np.int64)
    made, types = dtype_and_types(
        name, windows, below is not None, dtype, dtype if second is None else second, n
    )
    return PoolingLaunch(
        (images, *shape[2:], channels) if innermost else shape,
        made,
        (0, rank + 1, *range(1, rank + 1)) if innermost else None,
        types,
        grid,
        -(-width * high // 32) * 32,
        words.view(f"V{words.nbytes}") if prod(shape) else None,
    )


POOLING_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "avg_pool": avg_pool,
    "avg_pool_grad": avg_pool_grad,
    "max_pool": max_pool,
    "max_pool_argmax": max_pool_argmax,
    "pool_scatter": pool_scatter,
    "pool_take": pool_take,
}
