"""The types that signatures of all floors speak of: shapes, dtypes, buffers and array modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

__all__ = ["ArrayModule", "Axes", "Axis", "Buffer", "DType", "DTypeLike", "Shape", "ShapeLike"]

# The length of every axis.
Shape: TypeAlias = tuple[int, ...]
# What users give for one.
ShapeLike: TypeAlias = int | Sequence[int]
# Axes counted from the first.
Axes: TypeAlias = tuple[int, ...]
# What users give for an axis or several; None stands for all of them.
Axis: TypeAlias = int | Sequence[int] | None
DType: TypeAlias = np.dtype[Any]
# The memory behind an array. CuPy's arrays have NumPy's methods, and pass for NumPy's here.
Buffer: TypeAlias = np.ndarray[Any, Any]


class ArrayModule(Protocol):
    """An array module, NumPy or one with its functions, whose functions return buffers."""

    linalg: Any
    fft: Any
    pi: float
    inf: float
    nan: float

    def __getattr__(self, name: str) -> Callable[..., Buffer]: ...
