"""Functions that generated code calls beside NumPy and primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ....annotations import Buffer

__all__ = ["unshared"]


def unshared(value: Any, *others: Buffer) -> Any:
    """Returns a result that shares no memory with others, which it may be a view of."""
    if type(value) is np.ndarray and any(np.may_share_memory(value, x) for x in others):
        return value.copy()
    return value
