"""Other views of the same memory, for CuPy's buffers, with nothing between them and CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

__all__ = ["VIEW_FUNCTIONS", "reshape"]

ndarray = cupy.ndarray


def reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
    """Returns the elements in another shape; a copy only where strides cannot say it."""
    return x.reshape(shape) if type(x) is ndarray else cupy.reshape(x, shape)


VIEW_FUNCTIONS: dict[str, Callable[..., Any]] = {"reshape": reshape}
