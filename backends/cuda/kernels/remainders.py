"""Functions without their leading terms, in double precision, each in one launch."""

from __future__ import annotations

import cupy
import numpy as np
from cupy import ndarray

from ...arrays.special_remainders import AT_ONCE
from ..launch import SMALL_BLOCK_THREADS, Kernel

__all__ = ["remainder"]

REMAINDERS = ("log_remainder", "exp_remainder", "stirling_error", "digamma_gap")

remainder_of = Kernel("remainders", "remainder_of", "ppl", REMAINDERS)


def remainder(name: str, x: ndarray) -> ndarray:
    """Returns one of the functions of an array."""
    x = cupy.ascontiguousarray(x, dtype=np.float64)
    out = cupy.empty_like(x)
    if x.size:
        remainder_of(name, -(-x.size // SMALL_BLOCK_THREADS), SMALL_BLOCK_THREADS, x, out, x.size)
    return out


AT_ONCE["cupy"] = remainder
