"""Arguments in the form in which functions compute with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.registry import registry as ops
from .creation import asarray

__all__ = ["as_inexact"]


def as_inexact(x: Any) -> Any:
    """Returns an argument as an array of real or complex numbers; integers become ``float64``.

    >>> as_inexact([1, 2])
    Array([1., 2.], dtype=float64, device='cpu')
    """
    x = asarray(x)
    return x if x.dtype.kind in "fc" else ops.astype(x, np.float64)
