"""The type variables in signatures of transformations, which show editors what goes in and out."""

from __future__ import annotations

from typing import ParamSpec, TypeVar

__all__ = ["Aux", "P", "R"]

# The parameters of the function that is transformed, and what it returns.
P = ParamSpec("P")
R = TypeVar("R")
# What it returns beside, with ``has_aux``.
Aux = TypeVar("Aux")
