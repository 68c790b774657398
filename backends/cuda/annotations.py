"""The operands that signatures of the CUDA backend speak of, beside those of all backends."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from cupy import ndarray

__all__ = ["GpuOperand"]

# An operand that may be a number too, which a kernel takes by value.
GpuOperand: TypeAlias = ndarray | np.generic | complex
