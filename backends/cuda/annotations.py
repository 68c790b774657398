"""The parameters that the CUDA backend is given by higher floors, as far as it knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..annotations import Shape

__all__ = ["ConvolutionGeometry", "IndexKey", "PoolingWindows"]


class ConvolutionGeometry(Protocol):
    """The places of a kernel along every spatial axis."""

    @property
    def stride(self) -> Shape: ...

    @property
    def padding(self) -> tuple[tuple[int, int], ...]: ...

    @property
    def dilation(self) -> Shape: ...

    @property
    def groups(self) -> int: ...


class PoolingWindows(Protocol):
    """The windows along every spatial axis."""

    @property
    def window(self) -> Shape: ...

    @property
    def stride(self) -> Shape: ...

    @property
    def padding(self) -> tuple[tuple[int, int], ...]: ...


class IndexKey(Protocol):
    """The static part of a key ``x[key]``: the key, and how many index arrays it takes."""

    native: tuple[Any, ...]
    arrays: int

    def __init__(self, native: tuple[Any, ...], arrays: int = 0) -> None: ...

    def fill(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the key with index arrays in their places."""
