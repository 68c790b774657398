"""Calls of NumPy's loops, noted while a kernel runs on arrays that compute nothing.

`stacks` has them made again, for each item of a stack, by machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .joined_calls import LoopCall, with_joined_calls

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape

__all__ = ["CallNotes", "NotNoted", "NotedArray", "item_bytes", "noted_calls"]

# A longer list takes as long to read as its calls save.
MOST_CALLS = 4096
# Memory of one item begins with a line of the cache.
SPARE_LINE = 64

# The shape of an item, and its strides.
ItemLayout = tuple["Shape", Sequence[int]]
# An axis that all operands of a call have: its length, and every operand's stride.
CallAxis = tuple[int, list[int]]


class NotNoted(Exception):
    """A kernel does something else than to call ufuncs of memory that it is given."""


class NotedArray(np.ndarray):
    """Stands for memory of an item, and notes the ufuncs that are called with it.

    Attributes:
        notes: gets them.
    """

    notes: CallNotes | None = None

    def __array_finalize__(self, origin: Any) -> None:
        self.notes = getattr(origin, "notes", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **given: Any) -> Any:
        """Notes a call; it computes nothing."""
        out = given.pop("out", ())
        if method != "__call__" or len(out) != 1 or given or self.notes is None:
            raise NotNoted(f"{ufunc.__name__}.{method} with other memory")
        self.notes.add(ufunc, [*inputs, *out])
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Notes nothing."""
        raise NotNoted(function.__name__)


class CallNotes:
    """The calls of a kernel for one item, as machine code takes them.

    Attributes:
        calls: those of loops.
        kept: what calls refer to that is none of an item's memories.

    Args:
        dtype: that of all operands.
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.calls: list[LoopCall] = []
        self.kept: list[Any] = []
        # Where the memories of an item begin, and how many bytes they have.
        self.memories: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return f"<{len(self.calls)} calls of loops of {self.dtype}>"

    def new_memory(self, size: int) -> Buffer:
        """Returns bytes that stand for the next of an item's memories."""
        memory = np.empty(size, np.uint8)
        self.memories.append((memory.ctypes.data, size))
        return memory

    def array(self, memory: Buffer, begin: int, shape: Shape, strides: Sequence[int]) -> NotedArray:
        """Returns an array in such memory."""
        made = np.ndarray.__new__(NotedArray, shape, self.dtype, memory, begin, (*strides,))
        made.notes = self
        return made

    def add(self, ufunc: np.ufunc, operands: Sequence[Any]) -> None:
        """Notes the calls of loops that a call of a ufunc is made of.

        Raises:
            NotNoted: machine code cannot make them.
        """
        from ..native.ufunc_loops import address_of_loop

        loop = address_of_loop(ufunc, self.dtype.char * len(operands))
        arrays = [self.as_array(x) for x in operands]
        if loop is None or any(0 in x.shape for x in arrays):
            raise NotNoted(ufunc.__name__)
        if ufunc is np.matmul:
            shape, strides, dims, own = matmul_axes(*arrays)
        elif ufunc is np.vecdot:
            shape, strides, dims, own = vecdot_axes(*arrays)
        elif ufunc.signature is None:
            shape = arrays[-1].shape
            strides, dims, own = [strides_in(x, shape) for x in arrays], [], []
        else:
            raise NotNoted(ufunc.__name__)
        axes = joined_axes(shape, strides)
        # The loop goes over the last axis by itself, the list over the one before.
        length, steps = axes.pop() if axes else (1, [self.dtype.itemsize] * len(arrays))
        times, moves = axes.pop() if axes else (1, [0] * len(arrays))
        places = [self.place(x) for x in arrays]
        for index in product(*[range(n) for n, _ in axes]):
            begins = [
                (memory, begin + sum(i * moved[k] for i, (_, moved) in zip(index, axes)))
                for k, (memory, begin) in enumerate(places)
            ]
            own_dims, own_strides = [length, *dims], [*steps, *own]
            self.calls.append(LoopCall(ufunc, loop, times, own_dims, begins, moves, own_strides))
        if len(self.calls) > MOST_CALLS:
            raise NotNoted("too many calls")

    def join(self) -> None:
        """Makes neighbours one pass over memory where that is possible."""
        from ..native.call_lists import MOST_CALL_OPERANDS

        spare = len(self.memories) - 1
        most = MOST_CALL_OPERANDS
        self.calls, code = with_joined_calls(self.calls, spare, self.dtype.itemsize, most)
        self.kept.append(code)

    def words(self) -> list[int]:
        """Returns the words of all calls, as machine code takes them."""
        from ..native.call_lists import MOST_CALL_DIMS, MOST_CALL_OPERANDS, MOST_CALL_STRIDES

        words: list[int] = []
        for call in self.calls:
            words += *call.loop, call.times, *call.dims, *[0] * (MOST_CALL_DIMS - len(call.dims))
            for (memory, begin), move in zip(call.begins, call.moves, strict=True):
                words += memory, begin, move
            words += [0] * (3 * (MOST_CALL_OPERANDS - len(call.begins)))
            words += *call.strides, *[0] * (MOST_CALL_STRIDES - len(call.strides))
        return words

    def as_array(self, x: Any) -> Buffer:
        """Returns an operand as an array of the dtype of all.

        Raises:
            NotNoted: it is none.
        """
        if type(x) in (int, float, self.dtype.type):
            x = np.array(x, self.dtype)
            self.kept.append(x)
        if type(x) not in (np.ndarray, NotedArray) or x.dtype != self.dtype:
            raise NotNoted(f"an operand that is a {type(x).__name__}")
        return x  # type: ignore[no-any-return]

    def place(self, x: Buffer) -> tuple[int, int]:
        """Returns the number of the memory in which an array lies, and where it begins there.

        The memory behind those of an item is all that there is.
        """
        address = x.__array_interface__["data"][0]
        for number, (start, size) in enumerate(self.memories):
            if start <= address < start + size:
                return number, address - start
        self.kept.append(x)
        return len(self.memories), address


def strides_in(x: Buffer, shape: Shape) -> list[int]:
    """Returns the strides of an array that is broadcast to a shape."""
    given = [0 if n == 1 else s for n, s in zip(x.shape, x.strides)]
    return [0] * (len(shape) - x.ndim) + given


def joined_axes(shape: Shape, strides: Sequence[Sequence[int]]) -> list[CallAxis]:
    """Returns the axes of operands without those of length 1, and neighbours as one if they can."""
    axes: list[CallAxis] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        own = [s[axis] for s in strides]
        if axes and axes[-1][1] == [length * s for s in own]:
            axes[-1] = axes[-1][0] * length, own
        else:
            axes.append((length, own))
    return axes


AxesOfProduct = tuple["Shape", list[list[int]], list[int], list[int]]


def matmul_axes(x: Buffer, y: Buffer, out: Buffer) -> AxesOfProduct:
    """Returns the stacks' shape and strides of a product, its dims, and its own strides.

    Raises:
        NotNoted: BLAS does not take the matrices as they lie.
    """
    if x.ndim == 1:
        x, out = x[np.newaxis], out[..., np.newaxis, :]
    elif y.ndim == 1:
        y, out = y[:, np.newaxis], out[..., np.newaxis]
    if not all(map(is_for_blas, (x, y, out))):
        raise NotNoted("a matrix that BLAS does not take")
    shape = out.shape[:-2]
    stacks = [strides_in(v[..., 0, 0], shape) for v in (x, y, out)]
    own = [*x.strides[-2:], *y.strides[-2:], *out.strides[-2:]]
    return shape, stacks, [*x.shape[-2:], y.shape[-1]], own


def is_for_blas(x: Buffer) -> bool:
    """Says whether BLAS takes matrices, or transposed ones, as they lie."""
    size = x.itemsize
    rows, columns = zip(x.shape[-2:], x.strides[-2:])
    return any(
        (across == 1 or step == size)
        and apart % size == 0
        and (length == 1 or apart >= across * size)
        for (length, apart), (across, step) in ((rows, columns), (columns, rows))
    )


def vecdot_axes(x: Buffer, y: Buffer, out: Buffer) -> AxesOfProduct:
    """Returns the same of products of vectors."""
    shape = out.shape
    stacks = [strides_in(v[..., 0], shape) for v in (x, y)]
    own = [x.strides[-1], y.strides[-1]]
    return shape, [*stacks, list(out.strides)], [x.shape[-1]], own


def item_bytes(layout: ItemLayout, itemsize: int) -> int:
    """Returns how many bytes of memory an item spans.

    Raises:
        NotNoted: it has none, or goes backward through memory.
    """
    shape, strides = layout
    if 0 in shape or min(strides, default=0) < 0:
        raise NotNoted("an array without elements, or backward")
    return sum((n - 1) * s for n, s in zip(shape, strides)) + itemsize


def noted_calls(
    kernel: Callable[..., None],
    layouts: Sequence[ItemLayout],
    dtype: DType,
    spares: Sequence[Shape],
    params: Mapping[str, Any],
) -> tuple[CallNotes, int]:
    """Returns the calls of a kernel for one item, and how many bytes its spare memory has.

    The memories are those of the arrays, and the spare memory behind them.

    Args:
        kernel, spares, params: see `stacks.over_stack`.
        layouts: how an item of each operand lies, and of each result.
        dtype: that of all.

    Raises:
        NotNoted: the kernel does something else than to call ufuncs.
    """
    notes = CallNotes(dtype)
    given = []
    for shape, strides in layouts:
        size = item_bytes((shape, strides), dtype.itemsize)
        given.append(notes.array(notes.new_memory(size), 0, (1, *shape), (size, *strides)))
    sizes = [-(-prod(shape) * dtype.itemsize // SPARE_LINE) * SPARE_LINE for shape in spares]
    memory = notes.new_memory(max(sum(sizes), SPARE_LINE))
    begin = 0
    for shape, size in zip(spares, sizes, strict=True):
        steps = [dtype.itemsize * prod(shape[i + 1 :]) for i in range(len(shape))]
        given.append(notes.array(memory, begin, (1, *shape), (size, *steps)))
        begin += size
    kernel(*given, **params)
    notes.join()
    return notes, len(memory)
