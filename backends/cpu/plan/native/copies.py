"""Kernels that copy arrays of any order in memory into one array, side by side, or add one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

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
from .layouts import c_strides, extent

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["CopiedPart", "copy_kernel", "sum_kernel"]


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


def copy_kernel(dtype: DType, shape: Sequence[int], parts: Sequence[CopiedPart]) -> LoopKernel:
    """Returns the kernel that fills an array in C order with others.

    Args:
        dtype: the dtype of all.
        shape: the lengths of the result; a part has as many axes.
        parts: the others, which fill the result and do not overlap.
    """
    dtype, shape, strides, parts = by_parts_of_elements(dtype, shape, parts)
    out = Buffer("out", dtype, (prod(shape),), "out")
    buffers, body = [], []
    for number, part in enumerate(parts):
        buffers.append(Buffer(f"in_{number}", dtype, (extent(part.shape, part.strides),), "in"))
        body += copied(buffers[-1:], [part.strides], part, out, strides)
    return checked("copy", buffers, out, body)


def sum_kernel(dtype: DType, shape: Sequence[int], parts: Sequence[CopiedPart]) -> LoopKernel:
    """Returns the kernel that adds an array to one in C order, which is its first input."""
    dtype, shape, strides, (part,) = by_parts_of_elements(dtype, shape, parts)
    out = Buffer("out", dtype, (prod(shape),), "out")
    before = Buffer("in_0", dtype, (prod(shape),), "in")
    given = Buffer("in_1", dtype, (extent(part.shape, part.strides),), "in")
    body = copied([before, given], [strides, part.strides], part, out, strides)
    return checked("sum", [before, given], out, body)


def by_parts_of_elements(
    dtype: DType, shape: Sequence[int], parts: Sequence[CopiedPart]
) -> tuple[DType, Sequence[int], tuple[int, ...], Sequence[CopiedPart]]:
    """Returns what describes a copy, with the strides of the result.

    Kernels see the real and the imaginary part of an element as its last axis.
    """
    strides = c_strides(shape)
    if dtype.kind != "c":
        return dtype, shape, strides, parts
    parts = [
        CopiedPart((*x.shape, 2), (*(2 * n for n in x.strides), 1), 2 * x.offset) for x in parts
    ]
    return part_dtype(dtype), (*shape, 2), (*(2 * n for n in strides), 1), parts


def copied(
    given: Sequence[Buffer],
    lying: Sequence[Sequence[int]],
    part: CopiedPart,
    out: Buffer,
    strides: Sequence[int],
) -> list[Statement]:
    """Returns the loops that write the sum of arrays, of the strides ``lying``, as a part.

    A part without elements needs none.
    """
    if 0 in part.shape:
        return []
    axes = [(LoopAxis(f"axis_{i}", n), i) for i, n in enumerate(part.shape) if n > 1]

    def place(own: Sequence[int], begin: int = 0) -> Index:
        return Index([(axis, own[i]) for axis, i in axes], begin)

    values = [LoopValue(out.dtype) for _ in given]
    body: list[Statement] = [
        Load(value, buffer, place(own))
        for value, buffer, own in zip(values, given, lying, strict=True)
    ]
    found = values[0]
    for value in values[1:]:
        total = LoopValue(out.dtype)
        body.append(Let(total, "add", [found, value]))
        found = total
    body.append(Store(out, place(strides, part.offset), found))
    lanes = LANE_BYTES // max(4, out.dtype.itemsize)
    for axis, _ in reversed(axes):
        body = [For(axis, body, (), min(lanes, 1 << (axis.extent - 1).bit_length()))]
        lanes = 1
    return body


def checked(
    name: str, buffers: Sequence[Buffer], out: Buffer, body: Sequence[Statement]
) -> LoopKernel:
    """Returns a kernel, proved where that is asked for."""
    kernel = LoopKernel(name, [*buffers, out], [], body)
    if config.check_programs:
        check_kernel(kernel)
    return kernel
