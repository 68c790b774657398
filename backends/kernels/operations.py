"""The operations of kernels: what each takes, and what it means in NumPy.

All operands of an operation have one dtype, but for ``select``, ``cast`` and ``bits``. Comparisons
give booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["KERNEL_COMPARISONS", "KERNEL_FUNCTIONS", "KERNEL_OPERATIONS", "result_dtype"]

KERNEL_COMPARISONS = frozenset(
    {"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"}
)
# Operations that every processor has, as NumPy's functions. ``fma`` rounds once: ``interpret.py``
# has it, and ``cast`` and ``bits``, which take a dtype.
KERNEL_OPERATIONS: dict[str, Callable[..., Any]] = {
    "absolute": np.absolute,
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "divide": np.divide,
    "equal": np.equal,
    "floor": np.floor,
    # Of whole numbers, as ``remainder``. By 0 both are 0, and the lowest one by -1 wraps around.
    "floor_divide": np.floor_divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "invert": np.invert,
    "left_shift": np.left_shift,
    "less": np.less,
    "less_equal": np.less_equal,
    # NaN of either is the result; of two zeros the second.
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "not_equal": np.not_equal,
    "remainder": np.remainder,
    "right_shift": np.right_shift,
    "rint": np.rint,
    "select": np.where,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "trunc": np.trunc,
}
# Functions of float32 and float64 that processors lack: ``functions/`` writes them in operations.
KERNEL_FUNCTIONS = frozenset(
    {
        "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos",
        "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fmod", "hypot", "log", "log10", "log1p",
        "log2", "power", "sin", "sinh", "tan", "tanh",
    }
)  # fmt: skip


def result_dtype(operation: str, dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """Returns the dtype of a result; not for ``cast`` and ``bits``, which say theirs."""
    if operation in KERNEL_COMPARISONS:
        return np.dtype(bool)
    return dtypes[1] if operation == "select" else dtypes[0]
