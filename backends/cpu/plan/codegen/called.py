"""The function of plans that separates a result's memory from that of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ....annotations import Buffer

__all__ = ["copied_if_shared"]


def copied_if_shared(value: Any, *others: Buffer) -> Any:
    """Returns a value, or a copy of it if it may share memory with other arrays."""
    if type(value) is np.ndarray and any(np.may_share_memory(value, x) for x in others):
        return value.copy()
    return value
