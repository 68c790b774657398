"""What makes plans of single primitives for backends; the floor that knows programs enters it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["PLAN_MAKERS"]

# Functions that load the maker: a function of a primitive's name, the shapes and dtypes of its
# operands and of its result, and its parameters. It returns what computes the primitive on a list
# of buffers as machine code, or None where there is none.
PLAN_MAKERS: list[Callable[[], Callable[..., Any]]] = []
