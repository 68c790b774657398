"""The type variables in signatures of transformations, which show editors what goes in and out."""

from __future__ import annotations

from typing import Any, ParamSpec, TypeVar

__all__ = ["Aux", "P", "R", "T"]

# The parameters of the function that is transformed, and what it returns.
P = ParamSpec("P")
R = TypeVar("R")
# The argument that it is differentiated by. The bound lets lambdas use it in any way.
T = TypeVar("T", bound=Any)
# The extras that it returns beside, with ``has_aux``.
Aux = TypeVar("Aux")
