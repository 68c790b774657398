"""The operands that signatures of the CUDA backend speak of, beside those of all backends."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from cupy import ndarray

__all__ = ["GpuOperand", "Heads"]

# An operand that may be a number too, which a kernel takes by value.
GpuOperand: TypeAlias = ndarray | np.generic | complex


class Heads(NamedTuple):
    """The operands of attention, of axes (images, heads, rows, columns), and its parameters."""

    q: ndarray
    k: ndarray
    v: ndarray
    mask: ndarray | None
    causal: bool
    scale: float

    @property
    def masking(self) -> ndarray:
        """The mask; without one, any array, at which a kernel does not look."""
        return self.q if self.mask is None else self.mask
