"""Kernels that copy arrays of any order in memory into one array, side by side, or update one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Statement,
    Store,
)
from ....kernels.schedule import LANE_BYTES
from .complex_nodes import part_dtype
from .layouts import below, c_strides, extent

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["CopiedPart", "copy_kernel", "update_kernel"]


class CopiedPart(NamedTuple):
    """An array that is copied.

    Attributes:
        shape: its lengths.
        strides: its strides, in elements.
        offset: the number of the element of the result where it begins.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def copy_kernel(
    dtype: DType,
    shape: Sequence[int],
    parts: Sequence[CopiedPart],
    strides: Sequence[int] | None = None,
    *,
    in_blocks: bool = False,
    added: bool = False,
) -> LoopKernel:
    """Returns the kernel that fills an array with others.

    Args:
        dtype: the dtype of all.
        shape: the lengths of the result; a part has as many axes.
        parts: the others, which fill the result and do not overlap.
        strides: those of the result, in elements; without them it is in C order.
        in_blocks: whether a run fills a block of rows: some places of the first axis, which all
            parts have as a whole.
        added: whether elements are added to zeros, so that none of them is -0.
    """
    dtype, shape, strides, parts = by_parts_of_elements(dtype, shape, parts, strides)
    out = result_buffer(dtype, shape, strides)
    rows = LoopAxis("row", shape[0], block=True) if in_blocks else None
    zero = dtype.type(0) if added else None
    buffers, body = [], []
    for number, part in enumerate(parts):
        buffers.append(Buffer(f"in_{number}", dtype, (extent(part.shape, part.strides),), "in"))
        body += writing_loops(
            buffers[-1:], [part.strides], part, out, strides, rows=rows, first=zero
        )
    return proved("copy", buffers, out, body)


def update_kernel(
    operation: str,
    dtype: DType,
    shape: Sequence[int],
    parts: Sequence[CopiedPart],
    strides: Sequence[int] | None = None,
) -> LoopKernel:
    """Returns the kernel that joins an array with one, its first input, by an operation."""
    dtype, shape, strides, (part,) = by_parts_of_elements(dtype, shape, parts, strides)
    out = result_buffer(dtype, shape, strides)
    before = Buffer("in_0", dtype, out.shape, "in")
    given = Buffer("in_1", dtype, (extent(part.shape, part.strides),), "in")
    lying = [strides, part.strides]
    body = writing_loops([before, given], lying, part, out, strides, operation)
    return proved("update", [before, given], out, body)


def result_buffer(dtype: DType, shape: Sequence[int], strides: Sequence[int]) -> Buffer:
    """Returns the memory of a result, some elements of which may be no part of it."""
    size = extent(shape, strides)
    return Buffer("out", dtype, (size,), "out" if size == prod(shape) else "some")


def by_parts_of_elements(
    dtype: DType,
    shape: Sequence[int],
    parts: Sequence[CopiedPart],
    strides: Sequence[int] | None,
) -> tuple[DType, Sequence[int], Sequence[int], Sequence[CopiedPart]]:
    """Returns what describes a copy, with the strides of the result.

    Kernels see the real and the imaginary part of an element as its last axis.
    """
    strides = c_strides(shape) if strides is None else strides
    if dtype.kind != "c":
        return dtype, shape, strides, parts
    parts = [
        CopiedPart((*x.shape, 2), (*(2 * n for n in x.strides), 1), 2 * x.offset) for x in parts
    ]
    return part_dtype(dtype), (*shape, 2), (*(2 * n for n in strides), 1), parts


def writing_loops(
    given: Sequence[Buffer],
    lying: Sequence[Sequence[int]],
    part: CopiedPart,
    out: Buffer,
    strides: Sequence[int],
    operation: str = "add",
    rows: LoopAxis | None = None,
    first: Any = None,
) -> list[Statement]:
    """Returns the loops that write arrays, of the strides ``lying``, joined as a part.

    There are none where the part is empty. ``rows`` is the variable of the first axis' loop, and
    ``first`` a number to which the arrays are joined.
    """
    if not prod(part.shape):
        return []
    axes = [(LoopAxis(f"axis_{i}", n), i) for i, n in enumerate(part.shape) if n > 1]
    if rows is not None:
        axes[0] = rows, 0

    def place(own: Sequence[int], begin: int = 0) -> Index:
        return Index([(axis, own[i]) for axis, i in axes], begin)

    values = [LoopValue(out.dtype) for _ in given]
    body: list[Statement] = [
        Load(value, buffer, place(own, below(part.shape, own)))
        for value, buffer, own in zip(values, given, lying, strict=True)
    ]
    found, *others = values if first is None else (first, *values)
    for value in others:
        total = LoopValue(out.dtype)
        body.append(Let(total, operation, [found, value]))
        found = total
    body.append(Store(out, place(strides, part.offset), found))
    # Vectors are written to neighbours alone.
    neighbours = axes and strides[axes[-1][1]] == 1
    lanes = LANE_BYTES // max(4, out.dtype.itemsize) if neighbours else 1
    for axis, _ in reversed(axes):
        body = [For(axis, body, (), min(lanes, 1 << (axis.extent - 1).bit_length()))]
        lanes = 1
    return body


def proved(
    name: str, buffers: Sequence[Buffer], out: Buffer, body: Sequence[Statement]
) -> LoopKernel:
    """Returns a kernel, proved where that is asked for."""
    kernel = LoopKernel(name, [*buffers, out], [], body)
    if config.check_programs:
        check_kernel(kernel)
    return kernel
