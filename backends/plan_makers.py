"""Knows the makers of plans of single primitives, which the floor that knows programs enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["LEFT_OUT_BY_PLANS", "PLAN_MAKERS"]

# Functions that load the maker: a function of a primitive's name, the shapes and dtypes of its
# operands and of its result, and its parameters. It returns what computes the primitive on a list
# of buffers as machine code, or None where there is none.
PLAN_MAKERS: list[Callable[[], Callable[..., Any]]] = []
# What NumPy does where numbers overflow that plans may leave out.
LEFT_OUT_BY_PLANS = frozenset({"ignore", "warn"})
