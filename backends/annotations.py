"""The types of all floors: shapes, dtypes, buffers, array modules, and a base of shaped classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

__all__ = [
    "ArrayModule", "Axes", "Axis", "Buffer", "DType", "DTypeLike", "GeometryLike", "KeyLike",
    "Number", "Padding", "Shape", "ShapeLike", "Shaped", "WindowsLike",
]  # fmt: skip

# The length of every axis.
Shape: TypeAlias = tuple[int, ...]
# Users give a length or several.
ShapeLike: TypeAlias = int | Sequence[int]
# Axes counted from the first.
Axes: TypeAlias = tuple[int, ...]
# Users give an axis or several; None stands for all of them.
Axis: TypeAlias = int | Sequence[int] | None
DType: TypeAlias = np.dtype[Any]


class HasDType(Protocol):
    """An object with a dtype, by which it names that."""

    @property
    def dtype(self) -> DType:
        """The dtype."""


# NumPy's own alias has records as well, which are refused, and its import runs 5,000 lines.
DTypeLike: TypeAlias = type[Any] | DType | str | HasDType
# Python's numbers.
Number: TypeAlias = bool | int | float | complex
# The numbers of elements before and after each spatial axis.
Padding: TypeAlias = tuple[tuple[int, int], ...]
# The memory behind an array. CuPy's arrays have NumPy's methods, and pass for NumPy's here.
Buffer: TypeAlias = np.ndarray[Any, Any]


class Shaped:
    """An array or the type of one: the numbers that follow from its shape and dtype."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> DType: ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize


class ArrayModule(Protocol):
    """An array module, NumPy or one with its functions, whose functions return buffers."""

    __name__: str
    linalg: Any
    fft: Any
    lib: Any
    finfo: Any
    iinfo: Any
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


if TYPE_CHECKING:

    class WindowsLike(Protocol):
        """The windows of pooling: a length, a stride and a padding for each spatial axis."""

        window: Shape
        stride: Shape
        padding: Padding

        def __hash__(self) -> int: ...

    class GeometryLike(Protocol):
        """The places of a convolution's kernel: strides, paddings and dilations by axis."""

        stride: Shape
        padding: Padding
        dilation: Shape
        groups: int

        def __hash__(self) -> int: ...

    class KeyLike(Protocol):
        """A key of ``x[key]``, apart from its index arrays.

        Attributes:
            native: the key as NumPy takes it, with a mark for each index array.
            arrays: the number of index arrays.
        """

        native: tuple[Any, ...]
        arrays: int

        def __init__(self, native: tuple[Any, ...], arrays: int = 0) -> None: ...

        def __hash__(self) -> int: ...

        def fill(self, indices: Sequence[Any]) -> tuple[Any, ...]:
            """Returns the key with index arrays in their places."""

        def shape(self, x: Buffer, indices: Sequence[Any]) -> Shape:
            """Returns the shape of ``x[key]``."""
