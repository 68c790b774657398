"""Pooling on a GPU: one launch each, whatever the order of the axes in memory.

The way back is a gather too: every element asks the windows that have it, in the order in which
the CPU adds them up. So its result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import cupy
import numpy as np

from .launch import Kernel, c_type
from .places import strides_of

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
# Enough to fill the largest GPUs; every thread then has several planes.
BLOCKS = 2048
# Square windows of two axes for which kernels are unrolled, and how many windows an element may
# have along an axis for which the way back is.
SQUARES = (2, 3)
OVERLAPS = (1, 2)

FLOATS = ("float, 0", "float, 2", "float, 3", "half_t, 2", "bfloat16_t, 3", "double, 0")
WINNERS = ("float, signed char, 0", "float, signed char, 2", "half_t, signed char, 3",
           "double, short, 0")
MEANS = ("float, float, 0", "float, float, 2", "half_t, half_t, 3", "double, double, 0",
         "int, double, 0", "complex_t<float>, complex_t<float>, 0")
TAKEN = ("2, signed char", "4, signed char", "8, short", "16, signed char")
SUMS = ("float, signed char, 0", "float, signed char, 1", "float, signed char, 2",
        "half_t, signed char, 1", "bfloat16_t, signed char, 2", "double, short, 0",
        "complex_t<double>, signed char, 0")
SPREAD = ("float, float, 0", "float, float, 1", "float, float, 2", "half_t, half_t, 1",
          "double, double, 0", "complex_t<float>, complex_t<float>, 0")
MAX_POOL = Kernel("pooling", "max_pool", "ppt", FLOATS)
ARGMAX = Kernel("pooling", "max_pool_argmax", "ppt", WINNERS)
TAKE = Kernel("pooling", "pool_take", "pppt", TAKEN)
AVG_POOL = Kernel("pooling", "avg_pool", "ppt", MEANS)
SCATTER = Kernel("pooling", "pool_scatter", "pppt", SUMS)
SPREAD_OUT = Kernel("pooling", "avg_pool_grad", "ppt", SPREAD)


def max_pool(x: Any, *, windows: Any) -> Any:
    """Returns the maximum of every window of x (N, C, *spatial); NaN where there is one."""
    plan = planned(windows, x.shape[2:], True, x.shape, strides_of(x))
    out = plan.empty(x.dtype)
    if out.size:
        MAX_POOL(f"{c_type(x.dtype)}, {plan.square}", *plan.launch, out, x, plan.table)
    return out


def max_pool_argmax(x: Any, *, windows: Any) -> Any:
    """Returns the number of the first place in every window that has the maximum."""
    plan = planned(windows, x.shape[2:], True, x.shape, strides_of(x))
    out = plan.empty(np.min_scalar_type(-prod(windows.window)))
    if out.size:
        types = f"{c_type(x.dtype)}, {c_type(out.dtype)}, {plan.square}"
        ARGMAX(types, *plan.launch, out, x, plan.table)
    return out


def pool_take(x: Any, winner: Any, *, windows: Any) -> Any:
    """Returns of every window of x the element at the place that has won; of the padding zero."""
    plan = planned(windows, x.shape[2:], True, x.shape, strides_of(x), strides_of(winner))
    out = plan.empty(x.dtype)
    if out.size:
        size = x.dtype.itemsize
        TAKE(f"{size}, {c_type(winner.dtype)}", *plan.launch, out, x, winner, plan.table)
    return out


def pool_scatter(g: Any, winner: Any, *, spatial: Shape, windows: Any) -> Any:
    """Adds a value for every window to the element at the place that has won."""
    plan = planned(windows, spatial, False, g.shape, strides_of(g), strides_of(winner))
    out = plan.empty(g.dtype)
    if out.size:
        types = f"{c_type(g.dtype)}, {c_type(winner.dtype)}, {plan.overlap}"
        SCATTER(types, *plan.launch, out, g, winner, plan.table)
    return out


def avg_pool(x: Any, *, windows: Any, count_include_pad: bool) -> Any:
    """Returns the mean of every window of x (N, C, *spatial)."""
    plan = planned(
        windows, x.shape[2:], True, x.shape, strides_of(x), padding_counts=count_include_pad
    )
    out = plan.empty(divided(x.dtype))
    if out.size:
        types = f"{c_type(x.dtype)}, {c_type(out.dtype)}, {plan.square}"
        AVG_POOL(types, *plan.launch, out, x, plan.table)
    return out


def avg_pool_grad(g: Any, *, spatial: Shape, windows: Any, count_include_pad: bool) -> Any:
    """Transposes ``avg_pool``: every window spreads its value over its elements."""
    plan = planned(
        windows, spatial, False, g.shape, strides_of(g), padding_counts=count_include_pad
    )
    out = plan.empty(divided(g.dtype))
    if out.size:
        types = f"{c_type(g.dtype)}, {c_type(out.dtype)}, {plan.overlap}"
        SPREAD_OUT(types, *plan.launch, out, g, plan.table)
    return out


def divided(dtype: Any) -> Any:
    """Returns the dtype of a quotient."""
    return np.dtype(np.float64) if dtype.kind in "?biu" else dtype


# -- plans


class Plan(NamedTuple):
    """How windows over arrays of certain shapes and strides are launched.

    Attributes:
        shape: the result's shape.
        innermost: whether its channels lie innermost in memory.
        square, overlap: the template's arguments.
        launch: the grid and the block.
        table: what the kernel knows of all this.
    """

    shape: Shape
    innermost: bool
    square: int
    overlap: int
    launch: tuple[tuple[int, int], int]
    table: Any

    def empty(self, dtype: Any) -> Any:
        """Returns an array for the result."""
        if not self.innermost:
            return cupy.empty(self.shape, dtype)
        images, channels, *spatial = self.shape
        return cupy.moveaxis(cupy.empty((images, *spatial, channels), dtype), -1, 1)


@lru_cache(maxsize=4096)
def planned(
    windows: Any,
    spatial: Shape,
    down: bool,
    operand: Shape,
    *strides: Shape,
    padding_counts: bool = True,
) -> Plan:
    """Returns a plan.

    Args:
        windows: ``window``, ``stride`` and ``padding`` for each spatial axis.
        spatial: the shape of the array below the windows.
        down: whether the result has an element for each window; otherwise the operands have.
        operand: the shape of the first operand.
        strides: of all operands, in elements.
        padding_counts: whether means count elements of the padding.

    Raises:
        NotImplementedError: there are more than three spatial axes.
    """
    rank = len(spatial)
    if rank > RANK:
        raise NotImplementedError(
            f"pooling on a GPU knows up to {RANK} spatial axes, not {rank}; ft.to_device(x, 'cpu') "
            "brings an array to where there may be more"
        )
    images, channels = operand[:2]
    if down:
        counts = tuple([
            (n + sum(pads) - k) // s + 1
            for n, k, s, pads in zip(spatial, windows.window, windows.stride, windows.padding)
        ])
    else:
        counts = operand[2:]
    shape = images, channels, *(counts if down else spatial)
    # Threads go along the channels where those lie innermost, and else along the spatial axes of
    # planes that lie one after the other.
    first = strides[0]
    innermost = channels > 1 and first[1] == 1 and 1 not in first[2:]
    in_planes = not innermost and all(
        1 in (images, channels) or s[0] == channels * s[1] for s in strides
    )
    here = contiguous(shape, innermost)

    def in_table(s: Shape) -> list[int]:
        plane = (s[1] if channels > 1 else s[0]) if in_planes else s[0]
        return [s[1], plane, *(0,) * (RANK - rank), *s[2:]]

    below, above = [1] * (RANK - rank), [0] * (RANK - rank)
    lanes = prod(shape[2:]) * (1 if in_planes else channels)
    planes = images * (channels if in_planes else 1)
    across = max(-(-lanes // THREADS), 1)
    width = max(-(-lanes // across), 1)
    high = THREADS // width
    operands = [in_table(s) for s in strides]
    table = [
        *below, *spatial, *below, *windows.window, *below, *windows.stride,
        *above, *[before for before, _ in windows.padding], *below, *counts,
        *operands[0], *operands[-1], *in_table(here),
        1 if in_planes else channels, planes, width, padding_counts,
    ]
    grid = across, max(min(-(-planes // high), -(-BLOCKS // across), 65535), 1)
    block = -(-width * high // 32) * 32
    window = windows.window
    square = window[0] if rank == 2 and window[0] == window[1] and window[0] in SQUARES else 0
    most = max(-(-k // s) for k, s in zip(window, windows.stride))
    overlap = most if rank <= 2 and most in OVERLAPS else 0
    words = np.array(table, np.int64)
    launch = grid, block
    return Plan(shape, innermost, square, overlap, launch, words.view(f"V{words.nbytes}"))


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
