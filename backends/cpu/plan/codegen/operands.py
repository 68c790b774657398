"""Operands of a program for the modules of plans: variables, and constants as raw buffers."""

from __future__ import annotations

from keyword import kwlist
from math import prod
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from ..annotations import VariableLike, VariableType

__all__ = [
    "ARITHMETIC_SIGNS",
    "COMPARISON_SIGNS",
    "OPERATOR_SIGNS",
    "PYTHON_NUMBERS",
    "bytes_of",
    "constant",
    "form_of",
    "is_native_array",
    "is_variable",
    "lettered_name",
]

PYTHON_NUMBERS = frozenset({int, float, bool, complex})
# The kinds of dtypes that NumPy itself computes with.
NATIVE_KINDS = "fiubc"
# Python's operators, by the names of primitives.
ARITHMETIC_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
COMPARISON_SIGNS = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=",
}  # fmt: skip
OPERATOR_SIGNS = {**ARITHMETIC_SIGNS, "divide": "/", **COMPARISON_SIGNS}
# Names in generated code that neither variables nor functions have.
RESERVED_NAMES = frozenset(
    {"blocks", "high", "keepdims", "low", "memory", "np", "number", "plan", *kwlist}
)
# Functions have longer names, or an underscore.
LONGEST_VARIABLE_NAME = 3
BUFFER_CLASSES = np.ndarray, np.generic


# Tells for every class that was met if its instances are variables.
_is_variable_class: dict[type, bool] = {}


def is_variable(x: Any) -> TypeGuard[VariableLike]:
    """Says whether an operand is a variable of the program, not a constant."""
    kind = type(x)
    found = _is_variable_class.get(kind)
    if found is None:
        found = _is_variable_class[kind] = hasattr(kind, "type") and hasattr(kind, "device")
    return found


def constant(x: Any) -> Any:
    """Returns a constant as a raw buffer."""
    return x if isinstance(x, BUFFER_CLASSES) else getattr(x, "_data", x)


def bytes_of(known: VariableType) -> int:
    """Returns the size in bytes of an array of a type."""
    return int(prod(known.shape) * known.dtype.itemsize)


def is_native_array(known: VariableType) -> bool:
    """Says whether values of a type are arrays with axes, of a dtype of NumPy's own."""
    return bool(known.shape) and known.dtype.kind in NATIVE_KINDS


def lettered_name(number: int) -> str:
    """Returns a, b, ..., z, ba, bb, ...: names as printed programs have them.

    Two underscores follow where functions have such names, which have one at most.
    """
    name = ascii_lowercase[number % 26]
    while number >= 26:
        number //= 26
        name = ascii_lowercase[number % 26] + name
    return name + "__" if name in RESERVED_NAMES or len(name) > LONGEST_VARIABLE_NAME else name


def form_of(operand: Any) -> Any:
    """Returns a variable's type, or a constant array of NumPy's; None for other constants."""
    if is_variable(operand):
        return operand.type
    buffer = getattr(operand, "_data", operand)
    return buffer if type(buffer) is np.ndarray else None
