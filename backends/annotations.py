"""The types that signatures of all floors speak of: shapes, dtypes, buffers and array modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
else:
    # Importing numpy.typing runs 5,000 lines, and nobody asks for the alias when programs run.
    DTypeLike = Any

__all__ = [
    "ArrayModule",
    "Axes",
    "Axis",
    "Buffer",
    "DType",
    "DTypeLike",
    "Number",
    "Shape",
    "ShapeLike",
]

# The length of every axis.
Shape: TypeAlias = tuple[int, ...]
# What users give for one.
ShapeLike: TypeAlias = int | Sequence[int]
# Axes counted from the first.
Axes: TypeAlias = tuple[int, ...]
# What users give for an axis or several; None stands for all of them.
Axis: TypeAlias = int | Sequence[int] | None
DType: TypeAlias = np.dtype[Any]
# Python's numbers.
Number: TypeAlias = bool | int | float | complex
# The memory behind an array. CuPy's arrays have NumPy's methods, and pass for NumPy's here.
Buffer: TypeAlias = np.ndarray[Any, Any]


class ArrayModule(Protocol):
    """An array module, NumPy or one with its functions, whose functions return buffers."""

    linalg: Any
    fft: Any
    lib: Any
    pi: float
    inf: float
    nan: float

    @property
    def ndarray(self) -> type[Any]:
        """The class of its buffers."""

    @property
    def add(self) -> np.ufunc:
        """The sum of two operands, and its methods."""

    def __getattr__(self, name: str) -> Callable[..., Buffer]: ...
