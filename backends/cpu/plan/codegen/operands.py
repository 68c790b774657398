"""Operands of a program as a plan sees them: variables, and constants as raw buffers."""

from __future__ import annotations

from keyword import kwlist
from math import prod
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from ..annotations import VariableLike, VariableType

__all__ = ["SCALARS", "constant", "is_variable", "letters", "nbytes", "plain"]

SCALARS = frozenset({int, float, bool, complex})
# The kinds of dtypes that NumPy itself computes with.
NATIVE = "fiubc"
# Names that generated code has for other things.
TAKEN = frozenset({"blocks", "high", "low", "memory", "np", "number", "plan", *kwlist})
BUFFERS = np.ndarray, np.generic


# For every class that was met, whether its instances are variables.
_variables: dict[type, bool] = {}


def is_variable(x: Any) -> TypeGuard[VariableLike]:
    """Says whether an operand is a variable of the program, not a constant."""
    kind = type(x)
    found = _variables.get(kind)
    if found is None:
        found = _variables[kind] = hasattr(kind, "type") and hasattr(kind, "device")
    return found


def constant(x: Any) -> Any:
    """Returns a constant as a raw buffer."""
    return x if isinstance(x, BUFFERS) else getattr(x, "_data", x)


def nbytes(known: VariableType) -> int:
    """Returns how much memory an array of a type takes."""
    return int(prod(known.shape) * known.dtype.itemsize)


def plain(known: VariableType) -> bool:
    """Says whether a value is an array of a dtype of NumPy's own, not a number."""
    return bool(known.shape) and known.dtype.kind in NATIVE


def letters(number: int) -> str:
    """Returns a, b, ..., z, ba, bb, ...: names as printed programs have them."""
    name = ascii_lowercase[number % 26]
    while number >= 26:
        number //= 26
        name = ascii_lowercase[number % 26] + name
    return name + "_" if name in TAKEN else name
