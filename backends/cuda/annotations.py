"""The operands and parameters that signatures of the CUDA backend speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from cupy import ndarray

if TYPE_CHECKING:
    from ..annotations import Shape

__all__ = ["ConvolutionGeometry", "GpuOperand", "IndexKey", "PoolingWindows"]

# An operand that may be a number too, which a kernel takes by value.
GpuOperand: TypeAlias = ndarray | np.generic | complex


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

    def __hash__(self) -> int: ...


class PoolingWindows(Protocol):
    """The windows along every spatial axis."""

    @property
    def window(self) -> Shape: ...

    @property
    def stride(self) -> Shape: ...

    @property
    def padding(self) -> tuple[tuple[int, int], ...]: ...

    def __hash__(self) -> int: ...


class IndexKey(Protocol):
    """The static part of a key ``x[key]``: the key, and how many index arrays it takes."""

    native: tuple[Any, ...]
    arrays: int

    def __init__(self, native: tuple[Any, ...], arrays: int = 0) -> None: ...

    def __hash__(self) -> int: ...

    def fill(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the key with index arrays in their places."""
