"""Reverse mode that keeps copies of the arrays whose owners may change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.buffers import owned
from ..primitives.core.trace import Trace
from ..traces.reverse import ReverseTrace

__all__ = ["KeepingTrace"]


class KeepingTrace(ReverseTrace):
    """Reverse mode whose nodes are used later: they keep copies of what its owner may change.

    Args:
        parent, name, fun: as for every trace.
        own: returns the copy of an array.
    """

    __slots__ = ()

    direct = frozenset({float, int, bool, complex})

    def __init__(
        self,
        parent: Trace,
        name: str,
        fun: Callable[..., Any] | None,
        own: Callable[[Any], Any] = owned,
    ) -> None:
        super().__init__(parent, name, fun)
        lift = self.lift

        def kept(x: Any) -> Any:
            plain = type(x) is np.ndarray and x.ndim
            return lift(x) if isinstance(x, Array) else lift(own(x) if plain else owned(x))

        self.lift = kept
