"""NumPy's arrays among arguments: their owner may change them, so results share none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...backends.annotations import Buffer
from ...backends.memory_search import ManyArrays

__all__ = ["plain_arrays"]

# Of fewer arrays each is asked.
MANY = 16


def plain_arrays(leaves: Iterable[Any]) -> list[Buffer]:
    """Returns those leaves of arguments that are NumPy's arrays."""
    found = [x for x in leaves if isinstance(x, np.ndarray)]
    return found if len(found) < MANY else ManyArrays(found)
