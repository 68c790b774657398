"""Leaves of trees that are arrays or numbers."""

from __future__ import annotations

from typing import Any

from ...backends.protocol import get as get_backend
from .array import Array
from .buffers import BUFFER_TYPES, WEAK_TYPES

__all__ = ["is_array_like", "is_first_of_cupy"]


def is_array_like(x: Any) -> bool:
    """Says whether a leaf is an array, a tracer, a NumPy array or scalar, or a number."""
    kind = type(x)
    if isinstance(x, Array) or kind in BUFFER_TYPES:
        return True
    return kind in WEAK_TYPES or is_first_of_cupy(x)


def is_first_of_cupy(x: Any) -> bool:
    """Says whether a leaf is the first of CuPy's arrays to be met, and loads the backend then."""
    if type(x).__module__.partition(".")[0] != "cupy" or not hasattr(x, "__cuda_array_interface__"):
        return False
    get_backend("cupy")
    return type(x) in BUFFER_TYPES
