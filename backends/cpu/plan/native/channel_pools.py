"""Pooling outside of plans, as kernels of arrays whose channels lie last in memory.

A window's elements are read where they lie, for as many channels at a time as there are lanes. What
is computed has eager mode's bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....config import config
from ....kernels.check import check_kernel
from ....kernels.kernel import (
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    Statement,
    Store,
)
from ....kernels.schedule import LANE_BYTES
from ....native.entry import kernel_call
from ....native.machine import machine_code, rest
from ....native.printer import printed_module
from ...pooling import ordered_like
from ..regions.grid import Blocks
from ..threads.pool import threads
from ..threads.sharing import MeasuredSharing
from .layouts import c_strides
from .native_run import MOST_BLOCKS

if TYPE_CHECKING:
    from ....annotations import DType, Shape, WindowsLike

__all__ = ["PoolRun", "WindowLoops", "pool_run"]

# One thread computes pools of fewer elements.
FEWEST_SHARED = 1 << 18


class WindowLoops:
    """The loops of a kernel over images, windows and channels.

    Args:
        name: the name of the primitive.
        shape: that of the array below the windows, of one spatial axis or more.
        windows: the windows, without padding, and none of them over the elements of another where
            ``pool_scatter`` is computed.
        dtype: the dtype of what is pooled, or of what is spread.
        winner: that of places in windows.
    """

    def __init__(
        self, name: str, shape: Shape, windows: WindowsLike, dtype: DType, winner: DType
    ) -> None:
        self.name, self.windows, self.dtype, self.winner = name, windows, dtype, winner
        images, channels, *spatial = shape
        sizes = zip(spatial, windows.window, windows.stride)
        self.counts = [(n - k) // s + 1 for n, k, s in sizes]
        self.axes = [
            LoopAxis("image", images, block=True),
            *[LoopAxis("window", count) for count in self.counts],
            LoopAxis("channel", channels),
        ]
        below, above = (images, *spatial, channels), (images, *self.counts, channels)
        self.below, self.above = c_strides(below), c_strides(above)
        self.sizes = prod(below), prod(above)
        self.covers = [*spatial] == [k * n for k, n in zip(windows.window, self.counts)]

    def kernel(self) -> LoopKernel:
        """Returns the kernel: it takes the arrays, channels last, and the memory of the result."""
        below, above = ((size,) for size in self.sizes)
        if self.name == "pool_scatter":
            role = "out" if self.covers else "some"
            buffers = [
                Buffer("g", self.dtype, above, "in"),
                Buffer("winner", self.winner, above, "in"),
                Buffer("out", self.dtype, below, role),
            ]
            body = self._spread(*buffers)
        else:
            dtype = self.dtype if self.name == "max_pool" else self.winner
            buffers = [Buffer("x", self.dtype, below, "in"), Buffer("out", dtype, above, "out")]
            body = self._pooled(*buffers)
        *outer, channel = self.axes
        lanes = LANE_BYTES // self.dtype.itemsize
        body = [For(channel, body, (), lanes)]
        for axis in reversed(outer):
            body = [For(axis, body)]
        return LoopKernel(self.name, buffers, (), body)

    def _index(self) -> Index:
        """Returns where the value of a window lies."""
        return Index(list(zip(self.axes, self.above, strict=True)))

    def _elements(self) -> list[Index]:
        """Returns where the elements of a window lie, in C order."""
        steps = [1, *self.windows.stride, 1]
        terms = [
            (axis, stride * step)
            for axis, stride, step in zip(self.axes, self.below, steps, strict=True)
        ]
        inner = self.below[1:-1]
        return [
            Index(terms, sum(i * stride for i, stride in zip(place, inner, strict=True)))
            for place in product(*map(range, self.windows.window))
        ]

    def _pooled(self, x: Buffer, out: Buffer) -> list[Statement]:
        """Returns what finds the maximum of a window, or its place."""
        body: list[Statement] = []
        values: list[LoopValue] = []
        for index in self._elements():
            values.append(LoopValue(self.dtype))
            body.append(Load(values[-1], x, index))
        find = self._largest if self.name == "max_pool" else self._first_largest
        body.append(Store(out, self._index(), find(body, values)))
        return body

    def _largest(self, body: list[Statement], values: Sequence[LoopValue]) -> Operand:
        """Adds what finds the maximum: along one axis after the other, as eager mode does."""
        rest = list(values)
        for length in self.windows.window:
            behind = len(rest) // length
            folded = rest[:behind]
            for k in range(1, length):
                step = rest[k * behind : (k + 1) * behind]
                folded = [let_of(body, "maximum", a, b) for a, b in zip(folded, step, strict=True)]
            rest = folded
        return rest[0]

    def _first_largest(self, body: list[Statement], values: Sequence[LoopValue]) -> Operand:
        """Adds what finds the place of the first element that has the maximum, or is NaN."""
        best, *others = values
        won: Operand = self.winner.type(0)
        for number, x in enumerate(others, 1):
            # A comparison with NaN is false, and nothing is after one.
            alike = let_of(body, "equal", best, best)
            better = let_of(body, "select", alike, self.winner.type(number), won)
            worse = let_of(body, "less_equal", x, best)
            won = let_of(body, "select", worse, won, better)
            best = let_of(body, "maximum", best, x)
        return won

    def _spread(self, g: Buffer, winner: Buffer, out: Buffer) -> list[Statement]:
        """Returns what gives a window's value to the element at the place that has won."""
        value, won = LoopValue(self.dtype), LoopValue(self.winner)
        body: list[Statement] = [Load(value, g, self._index()), Load(won, winner, self._index())]
        for number, index in enumerate(self._elements()):
            here = let_of(body, "equal", won, self.winner.type(number))
            part = let_of(body, "select", here, value, self.dtype.type(0))
            body.append(Store(out, index, part))
        return body


def let_of(body: list[Statement], operation: str, *operands: Operand) -> LoopValue:
    """Adds an operation, and returns its value."""
    if operation in ("equal", "less_equal"):
        value = LoopValue(np.dtype(bool))
    else:
        value = LoopValue(operands[-1].dtype)
    body.append(Let(value, operation, operands))
    return value


class PoolRun:
    """Computes a primitive of pooling of some shapes: ``run(operands)``.

    Args:
        name: the name of the primitive.
        shapes: those of the operands, and of the result.
        dtype: the dtype of what is pooled, or spread.
        windows: the windows.
    """

    def __init__(
        self, name: str, shapes: Sequence[Shape], dtype: DType, windows: WindowsLike
    ) -> None:
        self.name = name
        self.spreads = name == "pool_scatter"
        winner = np.min_scalar_type(-prod(windows.window))
        loops = WindowLoops(
            name, shapes[-1] if self.spreads else shapes[0], windows, dtype, winner
        )
        kernel = loops.kernel()
        if config.check_programs:
            check_kernel(kernel)
        code = machine_code(printed_module([kernel]), [kernel.name])
        self.enter = kernel_call(code, kernel.name, len(kernel.buffers))
        images, channels, *spatial = shapes[-1]
        self.dtype = kernel.buffers[-1].dtype
        self.lying = images, *spatial, channels
        self.to_last = (0, *range(2, len(self.lying)), 1)
        self.to_second = (0, len(self.lying) - 1, *range(1, len(self.lying) - 1))
        self.make = np.empty if loops.covers or not self.spreads else np.zeros
        many = loops.sizes[0] >= FEWEST_SHARED
        self.blocks = Blocks(images, min(images, MOST_BLOCKS) if many else 1)
        self.share = MeasuredSharing()

    def __repr__(self) -> str:
        return f"<{self.name} over {len(self.blocks)} blocks>"

    def __call__(self, given: Sequence[Any]) -> Any:
        """Returns the result; its channels lie last in memory, as those of the operands do."""
        operands = list(given)
        if self.spreads:
            operands[0] = ordered_like(*operands)
        out = self.make(self.lying, self.dtype)
        arrays = [*[x.transpose(self.to_last) for x in operands], out]
        work = partial(self._work, iter(self.blocks), arrays)
        self.share(work, min(threads.number, len(self.blocks)))
        return out.transpose(self.to_second)

    def _work(self, blocks: Iterable[tuple[int, int, int]], arrays: Sequence[Any]) -> None:
        for number, low, high in blocks:
            self.enter(number, low, high, None, *arrays)


def pool_run(
    name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
) -> PoolRun:
    """Returns the compiled run of a primitive of pooling.

    Args:
        name: the name of the primitive.
        types: the shapes and dtypes of the operands, and of the result.
        params: the primitive's parameters.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    run = PoolRun(name, [shape for shape, _ in types], types[0][1], params["windows"])
    rest()
    return run
