"""Choices between elements, powers and remainders, where CuPy's functions differ from NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy import ndarray

from ..annotations import DType
from ..cpu.where_and_extrema import LARGEST_PRODUCT_POWER, REAL_PYTHON_NUMBERS
from ..dtypes import result_type
from .annotations import GpuOperand

__all__ = [
    "WHERE_FUNCTIONS",
    "clip",
    "floor_divide",
    "fmod",
    "log_ratio",
    "logaddexp",
    "power",
    "remainder",
    "where",
]

RAISED = cupy.ElementwiseKernel(
    "T x, int32 n, bool inverse",
    "T out",
    """
    T base = x;
    out = T(1);
    for (int rest = n; rest; rest >>= 1) {
        if (rest & 1) out = out * base;
        if (rest > 1) base = base * base;
    }
    if (inverse) out = T(1) / out;
    """,
    "functensor_raised",
)
LOG_RATIO = cupy.ElementwiseKernel(
    "T x, T y",
    "T out",
    "out = x == y && isinf(y) ? (x < T(0) ? x : T(0)) : T(x - y)",
    "functensor_log_ratio",
)
LOGADDEXP = cupy.ElementwiseKernel(
    "T x, T y",
    "T out",
    # Where both are the same infinity, their difference would be NaN.
    "out = x == y ? T(x + log(2.0)) : T((x > y || x != x ? x : y) + log1p(exp(-abs(x - y))))",
    "functensor_logaddexp",
)
# As in NumPy, the rest is exact, and the quotient is computed without it.
FLOOR_DIVIDE = cupy.ElementwiseKernel(
    "T x, T y",
    "T out",
    """
    T quotient = x / y;
    if (y == 0) {
        out = quotient;
    } else {
        T rest = fmod(x, y), whole = (x - rest) / y;
        if (rest != 0 && (rest < 0) != (y < 0)) whole -= T(1);
        T below = floor(whole);
        if (whole - below > T(0.5)) below += T(1);
        out = whole == 0 ? T(copysign(T(0), quotient)) : below;
    }
    """,
    "functensor_floor_divide",
)
REMAINDER = cupy.ElementwiseKernel(
    "T x, T y",
    "T out",
    """
    T rest = fmod(x, y);
    if (rest == 0) out = T(copysign(T(0), y));
    else out = y != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    """,
    "functensor_remainder",
)
# CuPy's function goes through float64, which does not hold large integers.
INTEGER_FMOD = cupy.ElementwiseKernel(
    "T x, T y",
    "T out",
    "out = y == T(0) || y == T(-1) ? T(0) : T(x % y)",
    "functensor_integer_fmod",
)
UNSIGNED_FMOD = cupy.ElementwiseKernel(
    "T x, T y", "T out", "out = y == T(0) ? T(0) : T(x % y)", "functensor_unsigned_fmod"
)
# By the bytes of integers and booleans, the dtypes in which NumPy computes functions of them.
LOOPS = {1: np.float16, 2: np.float32}


def where(condition: GpuOperand, x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns x's elements where the condition holds, y's elsewhere."""
    if not isinstance(condition, cupy.ndarray):
        condition = cupy.asarray(condition)
    dtype = result_type(x, y)
    if dtype.kind != "V":
        return cupy.where(condition, x, y)
    # CuPy's function does not know bfloat16, whose bits it can choose.
    return cupy.where(condition, _as_int16(x, dtype), _as_int16(y, dtype)).view(dtype)


def clip(x: GpuOperand, low: GpuOperand, high: GpuOperand) -> ndarray:
    """Returns ``minimum(maximum(x, low), high)``; a number is an array, as it is for NumPy's."""
    return cupy.clip(x if isinstance(x, cupy.ndarray) else cupy.asarray(x), low, high)


def _as_int16(x: GpuOperand, dtype: DType) -> ndarray:
    if isinstance(x, cupy.ndarray):
        return x.astype(dtype, copy=False).view(np.int16)
    return np.asarray(x).astype(dtype).view(np.int16)[()]


def power(x: GpuOperand, y: Any) -> ndarray:
    """Returns ``x`` to the power ``y``; small integer powers of floats are products.

    Raises:
        ValueError: an integer to a negative one.
    """
    if type(y) not in REAL_PYTHON_NUMBERS or not isinstance(x, cupy.ndarray):
        return cupy.power(x, y)
    if x.dtype.kind in "iu" and type(y) is int and y < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    if x.dtype.kind not in "fc":
        return cupy.power(x, y)
    if y == 2:
        return cupy.square(x)
    if y == 1:
        return cupy.positive(x)
    if y == 0.5:
        return cupy.sqrt(x)
    if y == -1:
        return cupy.reciprocal(x)
    if not abs(y) <= LARGEST_PRODUCT_POWER or y != int(y):
        return cupy.power(x, y)
    return RAISED(x, abs(int(y)), y < 0)


def _computed_by(kernel: Callable[..., ndarray], x: Any, y: Any) -> ndarray:
    """Returns what a kernel makes of two operands, which it computes as float32 or float64."""
    dtype = result_type(x, y)
    if dtype.kind == "c":
        raise TypeError(f"defined for real numbers only, got dtype {dtype}")
    if dtype.kind not in "fV":
        dtype = np.dtype(LOOPS.get(dtype.itemsize, np.float64))
    wider = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    x, y = [
        z.astype(wider, copy=False) if isinstance(z, cupy.ndarray) else wider.type(z)
        for z in (x, y)
    ]
    return kernel(x, y).astype(dtype, copy=False)


def log_ratio(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns ``log(exp(x) / exp(y))``: ``x - y``, -inf where x is, 0 where both are inf."""
    if result_type(x, y).kind not in "fV":
        return cupy.subtract(x, y)
    return _computed_by(LOG_RATIO, x, y)


def logaddexp(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns ``log(exp(x) + exp(y))``; an infinity where both are."""
    return _computed_by(LOGADDEXP, x, y)


def floor_divide(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns the largest integer that is at most ``x / y``."""
    if result_type(x, y).kind not in "fV":
        return cupy.floor_divide(x, y)
    return _computed_by(FLOOR_DIVIDE, x, y)


def remainder(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns what is left when x is divided by y, with y's sign."""
    if result_type(x, y).kind not in "fV":
        return cupy.remainder(x, y)
    return _computed_by(REMAINDER, x, y)


def fmod(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns what is left when x is divided by y, with x's sign; 0 of integers by 0."""
    dtype = result_type(x, y)
    if dtype.kind not in "iu":
        return cupy.fmod(x, y)
    x, y = [
        z.astype(dtype, copy=False) if isinstance(z, cupy.ndarray) else dtype.type(z)
        for z in (x, y)
    ]
    return (INTEGER_FMOD if dtype.kind == "i" else UNSIGNED_FMOD)(x, y)


WHERE_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "clip": clip,
    "floor_divide": floor_divide,
    "fmod": fmod,
    "log_ratio": log_ratio,
    "logaddexp": logaddexp,
    "power": power,
    "remainder": remainder,
    "where": where,
}
