"""The functions that equations call: NumPy's ufuncs, and those of primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ....restoring import quiet
from .operands import NATIVE_KINDS, PYTHON_NUMBERS, constant, is_variable

if TYPE_CHECKING:
    from ....annotations import Buffer, DType
    from ..annotations import EquationLike, Kernels, Operand

__all__ = [
    "as_operand",
    "copied_if_shared",
    "function_of",
    "is_made_apart",
    "is_numpy_function",
    "is_ufunc",
    "loop_types",
    "operand_type",
    "ufunc_loop",
    "ufunc_of",
    "unwrapped",
]

# Of a call with more pairs of an operand and a result the results are made apart when it has run.
MOST_SHARING_PAIRS = 1024


@lru_cache(maxsize=4096)
def is_ufunc(compute: Any) -> bool:
    """Says whether a primitive's ``compute`` is the name of a NumPy ufunc."""
    return type(compute) is str and isinstance(getattr(np, compute, None), np.ufunc)


def operand_type(x: Operand) -> type | DType:
    """Returns an operand's dtype, or its Python type if it is weak."""
    if is_variable(x):
        return x.type.weak or x.type.dtype
    value = constant(x)
    return type(value) if type(value) in PYTHON_NUMBERS else value.dtype


def loop_types(operands: Sequence[Operand]) -> tuple[type | DType, ...]:
    """Returns the types of operands by which a loop is chosen; dtypes where all are weak.

    A truth value of Python's is like one of NumPy's, which chooses no loop by the former.
    """
    types = [np.dtype(t) if t is bool else t for t in map(operand_type, operands)]
    return tuple(map(np.dtype, types) if all(type(t) is type for t in types) else types)


@lru_cache(maxsize=4096)
def ufunc_loop(name: str, types: tuple[Any, ...]) -> tuple[np.ufunc, tuple[DType, ...]] | None:
    """Returns the ufunc of a name and the dtypes of its loop for operands, or None."""
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1 or ufunc.signature is not None:
        return None
    if any(type(t) is not type and t.kind not in NATIVE_KINDS for t in types):
        return None
    try:
        return ufunc, tuple(ufunc.resolve_dtypes((*types, None)))
    except TypeError:
        return None


def ufunc_of(equation: EquationLike, kernels: Kernels) -> tuple[np.ufunc, tuple[DType, ...]] | None:
    """Returns the ufunc that computes an equation and the dtypes of its loop.

    None for other equations, and if the result would have to be cast.
    """
    primitive = equation.primitive
    compute = primitive.compute
    if type(compute) is not str or equation.params or primitive.name in kernels:
        return None
    found = ufunc_loop(compute, tuple(map(operand_type, equation.operands)))
    if found is None or found[1][-1] != equation.outputs[0].type.dtype:
        return None
    return found


def as_operand(x: Operand, dtype: DType) -> Any:
    """Returns a Python number as an array of the dtype of a ufunc's loop, which saves the cast."""
    value = constant(x)
    if type(value) not in PYTHON_NUMBERS:
        return x
    try:
        with quiet():
            return np.asarray(value, dtype)
    except OverflowError:
        return x  # the plan raises when it runs


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
    return function, f"{'np_' * is_numpy_function(unwrapped(function))}{name}_in_single"


def unwrapped(function: Any) -> Callable[..., Any]:
    """Returns a function without its wrappers.

    These compute 16-bit dtypes in float32, and hand large work to machine code.
    """
    while hasattr(function, "wide"):
        function = function.wide
    return function  # type: ignore[no-any-return]


def is_numpy_function(function: Any) -> bool:
    """Says whether a function is one of NumPy's main namespace."""
    name = getattr(function, "__name__", "")
    return bool(name) and getattr(np, name, None) is function


def has_narrow(equation: EquationLike) -> bool:
    """Says whether an equation has floats of 16 bits, or makes them."""
    values = (*equation.operands, *equation.outputs)
    dtypes = [getattr(getattr(x, "type", x), "dtype", None) for x in values]
    dtypes.append(equation.params.get("dtype"))
    return any(d is not None and np.dtype(d).itemsize == 2 and d.kind in "fV" for d in dtypes)


def is_made_apart(equation: EquationLike) -> bool:
    """Says whether the results of a loop or a choice are made apart from its many operands."""
    pairs = len(equation.operands) * len(equation.outputs)
    return equation.primitive.impl is None and pairs > MOST_SHARING_PAIRS


def copied_if_shared(value: Any, *others: Buffer) -> Any:
    """Returns a value, or a copy of it if it may share memory with other arrays."""
    if type(value) is np.ndarray and any(np.may_share_memory(value, x) for x in others):
        return value.copy()
    return value
