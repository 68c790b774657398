"""Which equations are one call of a NumPy ufunc, and with which operands."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .values import NATIVE, SCALARS, constant, is_variable

__all__ = ["as_operand", "operand_type", "ufunc_of"]


def operand_type(x: Any) -> Any:
    """Returns an operand's dtype, or its Python type if it is weak."""
    if is_variable(x):
        return x.type.weak or x.type.dtype
    value = constant(x)
    return type(value) if type(value) in SCALARS else value.dtype


@functools.lru_cache(maxsize=4096)
def resolved(ufunc: Any, types: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Returns the dtypes of the loop that a ufunc takes for operands; None if there is none."""
    try:
        return tuple(ufunc.resolve_dtypes((*types, None)))
    except TypeError:
        return None


def ufunc_of(equation: Any, kernels: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Returns the ufunc that computes an equation and the dtypes of its loop.

    Args:
        equation: of the program.
        kernels: the functions that the backend has in place of NumPy's, by the primitive's name.

    Returns:
        None where it is none, or where its result would have to be cast.
    """
    primitive = equation.primitive
    if type(getattr(primitive, "compute", None)) is not str or primitive.name in kernels:
        return None
    if equation.params:
        return None
    ufunc = getattr(np, primitive.compute, None)
    if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1 or ufunc.signature is not None:
        return None
    types = tuple(map(operand_type, equation.operands))
    if any(type(t) is not type and t.kind not in NATIVE for t in types):
        return None
    loop = resolved(ufunc, types)
    if loop is None or loop[-1] != equation.outputs[0].type.dtype:
        return None
    return ufunc, loop


def as_operand(x: Any, dtype: Any) -> Any:
    """Returns a Python scalar as what a ufunc's loop makes of it, which it then need not do."""
    value = constant(x)
    if type(value) not in SCALARS:
        return x
    try:
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)
    except OverflowError:
        return x  # which raises when it is run
