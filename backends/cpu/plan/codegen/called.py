"""The functions that plans call: those of primitives, and one that separates memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ....annotations import Buffer
    from ..annotations import EquationLike

__all__ = ["copied_if_shared", "function_of", "is_numpys", "unwrapped"]


def function_of(equation: EquationLike) -> tuple[Callable[..., Any], str]:
    """Returns the function that computes an equation on buffers, and a name for it.

    Functions that compute 16-bit dtypes in float32 are named so. Equations without such dtypes get
    the function within the wrapper.
    """
    function, name = equation.primitive.impl, equation.primitive.name
    if not has_narrow(equation):
        return unwrapped(function), name
    if getattr(function, "takes", True):
        return function, name
    return function, f"{'np_' * is_numpys(unwrapped(function))}{name}_in_single"


def unwrapped(function: Any) -> Callable[..., Any]:
    """Returns a function without the wrappers that compute 16-bit dtypes in float32."""
    while hasattr(function, "wide"):
        function = function.wide
    return function  # type: ignore[no-any-return]


def is_numpys(function: Any) -> bool:
    """Says whether a function is one of NumPy's main namespace."""
    name = getattr(function, "__name__", "")
    return bool(name) and getattr(np, name, None) is function


def has_narrow(equation: EquationLike) -> bool:
    """Says whether an equation has floats of 16 bits, or makes them."""
    values = (*equation.operands, *equation.outputs)
    dtypes = [getattr(getattr(x, "type", x), "dtype", None) for x in values]
    dtypes.append(equation.params.get("dtype"))
    return any(d is not None and np.dtype(d).itemsize == 2 and d.kind in "fV" for d in dtypes)


def copied_if_shared(value: Any, *others: Buffer) -> Any:
    """Returns a value, or a copy of it if it may share memory with other arrays."""
    if type(value) is np.ndarray and any(np.may_share_memory(value, x) for x in others):
        return value.copy()
    return value
