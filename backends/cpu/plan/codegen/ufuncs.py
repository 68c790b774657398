"""Equations that are one call of a NumPy ufunc, and the operands of such calls."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ....restoring import quiet
from .operands import NATIVE_KINDS, PYTHON_NUMBERS, constant, is_variable

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike, Kernels, Operand

__all__ = ["as_operand", "is_ufunc", "operand_type", "ufunc_of"]


@functools.lru_cache(maxsize=4096)
def is_ufunc(compute: Any) -> bool:
    """Says whether a primitive's ``compute`` is the name of a NumPy ufunc."""
    return type(compute) is str and isinstance(getattr(np, compute, None), np.ufunc)


def operand_type(x: Operand) -> type | DType:
    """Returns an operand's dtype, or its Python type if it is weak."""
    if is_variable(x):
        return x.type.weak or x.type.dtype
    value = constant(x)
    return type(value) if type(value) in PYTHON_NUMBERS else value.dtype


@functools.lru_cache(maxsize=4096)
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
