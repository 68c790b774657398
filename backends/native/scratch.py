"""The memory of its own that a kernel needs, for numbers between its loops."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..kernels.kernel import Buffer, LoopKernel

__all__ = ["SCRATCH_ALIGNMENT", "aligned_bytes", "scratch_bytes"]

SCRATCH_ALIGNMENT = 64


def scratch_bytes(kernel: LoopKernel) -> int:
    """Returns how much memory of its own a kernel needs."""
    return sum(map(aligned_bytes, kernel.scratch))


def aligned_bytes(buffer: Buffer) -> int:
    """Returns the bytes of a buffer, rounded up to the alignment of all."""
    rows = (min(buffer.tile, buffer.shape[0]),) if buffer.tile else buffer.shape[:1]
    size = prod((*rows, *buffer.shape[1:])) * buffer.dtype.itemsize
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
