"""Comparisons of whole tensors."""

from __future__ import annotations

import builtins
from typing import Any

from ..primitives.core.array import Array
from ..primitives.core.registry import registry as ops

__all__ = ["allclose", "equal"]


def allclose(
    input: Array, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> builtins.bool:
    """Says whether all elements differ by at most ``atol + rtol * abs(other)``."""
    return builtins.bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Any, other: Any) -> builtins.bool:
    """Says whether two tensors have the same shape and all the same elements."""
    return builtins.bool(input.equal(other))
