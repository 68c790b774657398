"""Pooling on a GPU: one launch each, whatever the order of the axes in memory.

The way back is a gather too: every element asks the windows that have it, in the order in which
the CPU adds them up. So its result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import cupy
import numpy as np

from ..launch import Kernel, c_type

__all__ = [
    "TABLE",
    "avg_pool",
    "avg_pool_grad",
    "max_pool",
    "max_pool_argmax",
    "pool_scatter",
    "pool_take",
]

Shape = tuple[int, ...]

RANK = 3
THREADS = 256
# Enough to fill the largest GPUs; every thread then has several planes. A thread that has windows
# looks up more before its first plane than after it, so that there are fewer of these.
BLOCKS = {"down": 1024, "up": 2048}
# Square windows of two axes for which kernels are unrolled, and how many windows an element may
# have along an axis for which the way back is.
SQUARES = (2, 3)
OVERLAPS = (1, 2)
# Stands for the mean that does not count the padding.
BESIDE_PADDING = "avg_pool, padding apart"

# What one instruction loads and stores: channels, where those lie innermost.
PACKED, MOST_PACKED = 16, 8

FLOATS = ("float, 0, 1", "float, 2, 4", "float, 3, 1", "half_t, 2, 8", "bfloat16_t, 3, 1",
          "double, 0, 2")
WINNERS = ("float, signed char, 0, 1", "float, signed char, 2, 1", "float, signed char, 3, 4",
           "half_t, signed char, 3, 8", "double, short, 0, 2")
MEANS = ("float, float, 0, 1", "float, float, 2, 4", "half_t, half_t, 3, 8",
         "double, double, 0, 2", "int, double, 0, 4", "bool, double, 0, 8",
         "complex_t<float>, complex_t<float>, 0, 1")
TAKEN = ("2, signed char", "4, signed char", "8, short", "16, signed char")
SUMS = ("float, signed char, 0, 1", "float, signed char, 1, 4", "float, signed char, 2, 4",
        "half_t, signed char, 1, 8", "bfloat16_t, signed char, 2, 1", "double, short, 0, 2",
        "complex_t<double>, signed char, 0, 1")
SPREAD = ("float, float, 0, 1", "float, float, 1, 4", "float, float, 2, 1", "half_t, half_t, 1, 8",
          "double, double, 0, 2", "complex_t<float>, complex_t<float>, 0, 2")
MAX_POOL = Kernel("pooling", "max_pool", "ppt", FLOATS)
ARGMAX = Kernel("pooling", "max_pool_argmax", "ppt", WINNERS)
TAKE = Kernel("pooling", "pool_take", "pppt", TAKEN)
AVG_POOL = Kernel("pooling", "avg_pool", "ppt", MEANS)
SCATTER = Kernel("pooling", "pool_scatter", "pppt", SUMS)
SPREAD_OUT = Kernel("pooling", "avg_pool_grad", "ppt", SPREAD)
ndarray = cupy.ndarray


def max_pool(x: Any, *, windows: Any) -> Any:
    """Returns the maximum of every window of x (N, C, *spatial); NaN where there is one."""
    plan = planned("max_pool", windows, None, aligned(x), x.shape, x.dtype, x.strides)
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        MAX_POOL(plan.types, plan.grid, plan.block, out, x, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


def max_pool_argmax(x: Any, *, windows: Any) -> Any:
    """Returns the number of the first place in every window that has the maximum."""
    plan = planned("max_pool_argmax", windows, None, aligned(x), x.shape, x.dtype, x.strides)
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        ARGMAX(plan.types, plan.grid, plan.block, out, x, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


def pool_take(x: Any, winner: Any, *, windows: Any) -> Any:
    """Returns of every window of x the element at the place that has won; of the padding zero."""
    plan = planned(
        "pool_take", windows, None, False, x.shape, x.dtype, x.strides,
        winner.dtype, winner.strides,
    )  # fmt: skip
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        TAKE(plan.types, plan.grid, plan.block, out, x, winner, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


def pool_scatter(g: Any, winner: Any, *, spatial: Shape, windows: Any) -> Any:
    """Adds a value for every window to the element at the place that has won."""
    plan = planned(
        "pool_scatter", windows, spatial, aligned(g) and aligned(winner),
        g.shape, g.dtype, g.strides, winner.dtype, winner.strides,
    )  # fmt: skip
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        SCATTER(plan.types, plan.grid, plan.block, out, g, winner, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


def avg_pool(x: Any, *, windows: Any, count_include_pad: bool) -> Any:
    """Returns the mean of every window of x (N, C, *spatial)."""
    name = "avg_pool" if count_include_pad else BESIDE_PADDING
    plan = planned(name, windows, None, aligned(x), x.shape, x.dtype, x.strides)
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        AVG_POOL(plan.types, plan.grid, plan.block, out, x, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


def avg_pool_grad(g: Any, *, spatial: Shape, windows: Any, count_include_pad: bool) -> Any:
    """Transposes ``avg_pool``: every window spreads its value over its elements."""
    name = "avg_pool" if count_include_pad else BESIDE_PADDING
    plan = planned(name, windows, spatial, aligned(g), g.shape, g.dtype, g.strides)
    out = ndarray(plan.shape, plan.dtype)
    if plan.table is not None:
        SPREAD_OUT(plan.types, plan.grid, plan.block, out, g, plan.table)
    return out if plan.order is None else out.transpose(plan.order)


# -- plans


class Plan(NamedTuple):
    """The launches over windows of arrays of certain dtypes, shapes and strides.

    Attributes:
        shape: the result's shape, as it lies in memory.
        dtype: its dtype.
        order: how its axes are to be turned then; None where they are in order.
        types: the template's arguments.
        grid, block: the numbers of blocks and of their threads.
        table: what the kernel knows of all this; None where there is nothing to do.
    """

    shape: Shape
    dtype: Any
    order: Shape | None
    types: str
    grid: tuple[int, int]
    block: int
    table: Any


def aligned(x: Any) -> bool:
    """Says whether an array starts where a pack may."""
    return not x.data.ptr % PACKED


def packed(channels: int, steps: Sequence[Sequence[int]], dtype: Any) -> int:
    """Returns how many channels go at once, by the operands' strides in elements."""
    n = min(PACKED // dtype.itemsize, MOST_PACKED)
    whole = channels % n == 0 and all(
        s[1] == 1 and not any(step % n for step in (s[0], *s[2:])) for s in steps
    )
    return n if whole else 1


def dtype_and_types(name: str, windows: Any, up: bool, dtype: Any, second: Any, n: int) -> Any:
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
    if name == "max_pool_argmax":
        out = np.min_scalar_type(-prod(window))
    else:
        out = np.dtype(np.float64) if dtype.kind in "?biu" else dtype
    return out, f"{c_type(dtype)}, {c_type(out)}, {unrolled}, {n}"


@lru_cache(maxsize=4096)
def planned(
    name: str,
    windows: Any,
    below: Shape | None,
    packs: bool,
    operand: Shape,
    dtype: Any,
    strides: Shape,
    second: Any = None,
    second_strides: Shape | None = None,
) -> Plan:
    """Returns a plan.

    Args:
        name: the primitive; ``BESIDE_PADDING`` for means that do not count the padding.
        windows: ``window``, ``stride`` and ``padding`` for each spatial axis.
        below: the spatial shape of the result, if that is what the windows lie over; None where it
            has an element for each of them, and the operand is below.
        packs: whether several channels may be loaded at once, if they lie side by side.
        operand, dtype, strides: the shape, the dtype and the strides of the first operand.
        second, second_strides: the dtype and the strides of the second one.

    Raises:
        NotImplementedError: there are more than three spatial axes.
    """
    spatial = operand[2:] if below is None else below
    rank = len(spatial)
    if rank > RANK:
        raise NotImplementedError(
            f"pooling on a GPU knows up to {RANK} spatial axes, not {rank}; ft.to_device(x, 'cpu') "
            "brings an array to where there may be more"
        )
    steps = [[stride // dtype.itemsize for stride in strides]]
    if second_strides is not None:
        steps.append([stride // second.itemsize for stride in second_strides])
    images, channels = operand[:2]
    if below is None:
        counts = tuple([
            (n + sum(pads) - k) // s + 1
            for n, k, s, pads in zip(spatial, windows.window, windows.stride, windows.padding)
        ])
    else:
        counts = operand[2:]
    shape = images, channels, *(counts if below is None else spatial)
    # Threads go along the channels where those lie innermost, and else along the spatial axes of
    # planes that lie one after the other.
    first = steps[0]
    innermost = channels > 1 and first[1] == 1 and 1 not in first[2:]
    in_planes = not innermost and all(
        1 in (images, channels) or s[0] == channels * s[1] for s in steps
    )
    here = contiguous(shape, innermost)

    def in_table(s: Sequence[int]) -> list[int]:
        plane = (s[1] if channels > 1 else s[0]) if in_planes else s[0]
        return [s[1], plane, *(0,) * (RANK - rank), *s[2:]]

    ones, zeros = [1] * (RANK - rank), [0] * (RANK - rank)
    n = packed(channels, steps, dtype) if packs and innermost else 1
    lanes = prod(shape[2:]) * (1 if in_planes else channels // n)
    planes = images * (channels if in_planes else 1)
    across = max(-(-lanes // THREADS), 1)
    width = max(-(-lanes // across), 1)
    high = THREADS // width
    operands = [in_table(s) for s in steps]
    table = [
        *ones, *spatial, *ones, *windows.window, *ones, *windows.stride,
        *zeros, *[before for before, _ in windows.padding], *ones, *counts,
        *operands[0], *operands[-1], *in_table(here),
        1 if in_planes else channels, planes, width, name != BESIDE_PADDING,
    ]
    blocks = BLOCKS["down" if below is None else "up"]
    grid = across, max(min(-(-planes // high), -(-blocks // across), 65535), 1)
    words = np.array(table, np.int64)
    made, types = dtype_and_types(name, windows, below is not None, dtype, second, n)
    return Plan(
        (images, *shape[2:], channels) if innermost else shape,
        made,
        (0, rank + 1, *range(1, rank + 1)) if innermost else None,
        types,
        grid,
        -(-width * high // 32) * 32,
        words.view(f"V{words.nbytes}") if prod(shape) else None,
    )


def contiguous(shape: Shape, innermost: bool) -> Shape:
    """Returns the strides of an array without gaps whose channels lie innermost, or not."""
    order = [0, *range(2, len(shape)), 1] if innermost else list(range(len(shape)))
    out = [0] * len(shape)
    stride = 1
    for axis in reversed(order):
        out[axis] = stride
        stride *= shape[axis]
    return tuple(out)


TABLE: dict[str, Callable[..., Any]] = {
    "avg_pool": avg_pool,
    "avg_pool_grad": avg_pool_grad,
    "max_pool": max_pool,
    "max_pool_argmax": max_pool_argmax,
    "pool_scatter": pool_scatter,
    "pool_take": pool_take,
}
