"""Views of the memory of CuPy's buffers, by CuPy's own methods."""

from __future__ import annotations

from collections.abc import Callable

import cupy
from cupy import ndarray

from .annotations import GpuOperand

__all__ = ["VIEW_FUNCTIONS", "reshape"]


def reshape(x: GpuOperand, *, shape: tuple[int, ...]) -> ndarray:
    """Returns the elements in another shape; a copy only where strides cannot say it."""
    return x.reshape(shape) if isinstance(x, ndarray) else cupy.reshape(x, shape)


VIEW_FUNCTIONS: dict[str, Callable[..., ndarray]] = {"reshape": reshape}
