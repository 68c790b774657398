"""Functions without their leading terms, in double precision, each in one launch."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ...arrays.special_remainders import AT_ONCE
from ..launch import Kernel

__all__ = ["remainder"]

NAMES = ("log_remainder", "exp_remainder", "stirling_error", "digamma_gap")
BLOCK = 128

remainder_of = Kernel("remainders", "remainder_of", "ppl", NAMES)


def remainder(name: str, x: Any) -> Any:
    """Returns one of the functions of an array."""
    x = cupy.ascontiguousarray(x, dtype=np.float64)
    out = cupy.empty_like(x)
    if x.size:
        remainder_of(name, -(-x.size // BLOCK), BLOCK, x, out, x.size)
    return out


AT_ONCE["cupy"] = remainder
