"""Tests of NaN and infinity, which take less time than computing what they test.

Plans that report where these are made use them, and the check of operations one by one.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from .restoring import silently

__all__ = ["INEXACT_KINDS", "has_infinity", "has_nan", "is_finite"]

# The kinds of dtypes that have NaN; "V" is that of bfloat16.
INEXACT_KINDS = "fcV"
SINGLE_NUMBERS = frozenset({float, np.float32, np.float64})


def is_finite(x: Any) -> bool:
    """Says whether a number, or an array on the host, has neither NaN nor infinity."""
    if type(x) in SINGLE_NUMBERS:
        return isfinite(x)
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    if x.dtype.kind not in INEXACT_KINDS:
        return True
    if x.dtype.char not in "fd":
        return bool(np.isfinite(x).all())
    if not x.ndim:
        return isfinite(x.item())
    if x.flags.forc:
        # A sum of squares takes half the time of a look at every number. It may overflow.
        row = x.ravel("K")
        if isfinite(silently(np.dot, (row, row))):
            return True
    return bool(np.isfinite(x).all())


def has_nan(x: Any) -> bool:
    """Says whether there is NaN in a number or an array on the host."""
    x = np.asarray(x)
    return x.dtype.kind in INEXACT_KINDS and bool(np.isnan(x).any())


def has_infinity(x: Any) -> bool:
    """Says whether there is infinity in a number or an array on the host."""
    x = np.asarray(x)
    return x.dtype.kind in INEXACT_KINDS and bool(np.isinf(x).any())
