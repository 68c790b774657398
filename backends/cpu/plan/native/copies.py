"""Kernels that copy arrays of any order in memory into one array, side by side."""

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

__all__ = ["CopiedPart", "copy_kernel"]


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
    strides = c_strides(shape)
    if dtype.kind == "c":
        # Kernels see the real and the imaginary part of an element as its last axis.
        dtype, shape, strides = part_dtype(dtype), (*shape, 2), (*(2 * n for n in strides), 1)
        parts = [
            CopiedPart((*x.shape, 2), (*(2 * n for n in x.strides), 1), 2 * x.offset)
            for x in parts
        ]
    out = Buffer("out", dtype, (prod(shape),), "out")
    buffers, body = [], []
    for number, part in enumerate(parts):
        given = Buffer(f"in_{number}", dtype, (extent(part.shape, part.strides),), "in")
        buffers.append(given)
        body += copied(given, part, out, strides)
    kernel = LoopKernel("copy", [*buffers, out], [], body)
    if config.check_programs:
        check_kernel(kernel)
    return kernel


def copied(
    given: Buffer, part: CopiedPart, out: Buffer, strides: Sequence[int]
) -> list[Statement]:
    """Returns the loops that copy a part."""
    axes = [
        (LoopAxis(f"axis_{i}", length), part.strides[i], strides[i])
        for i, length in enumerate(part.shape)
        if length > 1
    ]
    value = LoopValue(given.dtype)
    body: list[Statement] = [
        Load(value, given, Index([(axis, own) for axis, own, _ in axes])),
        Store(out, Index([(axis, wanted) for axis, _, wanted in axes], part.offset), value),
    ]
    lanes = LANE_BYTES // max(4, given.dtype.itemsize)
    for axis, _, _ in reversed(axes):
        body = [For(axis, body, (), min(lanes, 1 << (axis.extent - 1).bit_length()))]
        lanes = 1
    return body
