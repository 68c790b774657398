"""Choices of elements, powers, remainders and shapes, where CuPy differs from NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy import ndarray

from ..annotations import DType, Shape
from ..cpu.where_and_extrema import LARGEST_PRODUCT_POWER, REAL_PYTHON_NUMBERS
from ..dtypes import result_type
from .annotations import GpuOperand

__all__ = ["WHERE_FUNCTIONS"]


def of_two(name: str, code: str) -> cupy.ElementwiseKernel:
    """Returns a kernel that computes out of x and y, all of one dtype T."""
    return cupy.ElementwiseKernel("T x, T y", "T out", code, f"functensor_{name}")


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
LOG_RATIO = of_two("log_ratio", "out = x == y && isinf(y) ? (x < T(0) ? x : T(0)) : T(x - y)")
LOGADDEXP = of_two(
    "logaddexp",
    # The difference of an infinity and itself would be NaN.
    "out = x == y ? T(x + log(2.0)) : T((x > y || x != x ? x : y) + log1p(exp(-abs(x - y))))",
)
# As in NumPy, the rest is exact, and the quotient is computed without it.
FLOOR_DIVIDE = of_two(
    "floor_divide",
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
)
REMAINDER = of_two(
    "remainder",
    """
    T rest = fmod(x, y);
    if (rest == 0) out = T(copysign(T(0), y));
    else out = y != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    """,
)
# CuPy's function goes through float64, which does not hold large integers.
INTEGER_FMOD = of_two("integer_fmod", "out = y == T(0) || y == T(-1) ? T(0) : T(x % y)")
UNSIGNED_FMOD = of_two("unsigned_fmod", "out = y == T(0) ? T(0) : T(x % y)")
# The functions that are quicker than powers.
POWERS = {2: cupy.square, 1: cupy.positive, 0.5: cupy.sqrt, -1: cupy.reciprocal}
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


def reshape(x: GpuOperand, *, shape: Shape) -> ndarray:
    """Returns the elements in another shape; a copy only where strides cannot say it."""
    return x.reshape(shape) if isinstance(x, ndarray) else cupy.reshape(x, shape)


def clip(x: GpuOperand, low: GpuOperand, high: GpuOperand) -> ndarray:
    """Returns ``minimum(maximum(x, low), high)``; a number is an array, as it is for NumPy's."""
    return cupy.clip(x if isinstance(x, cupy.ndarray) else cupy.asarray(x), low, high)


def _as_int16(x: GpuOperand, dtype: DType) -> ndarray:
    if isinstance(x, cupy.ndarray):
        return x.astype(dtype, copy=False).view(np.int16)
    return np.asarray(x).astype(dtype).view(np.int16)[()]


def power(x: GpuOperand, y: Any) -> ndarray:
    """Returns ``x`` to the power ``y``; small integer powers of floats are products."""
    if type(y) not in REAL_PYTHON_NUMBERS or not isinstance(x, cupy.ndarray):
        return cupy.power(x, y)
    if x.dtype.kind in "iu" and type(y) is int and y < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    if x.dtype.kind not in "fc":
        return cupy.power(x, y)
    if y in POWERS:
        return POWERS[y](x)
    if not abs(y) <= LARGEST_PRODUCT_POWER or y != int(y):
        return cupy.power(x, y)
    return RAISED(x, abs(int(y)), y < 0)


def _operands_in(dtype: DType, *operands: GpuOperand) -> list[Any]:
    """Returns arrays in a dtype, and numbers as NumPy's of it."""
    return [
        x.astype(dtype, copy=False) if isinstance(x, cupy.ndarray) else dtype.type(x)
        for x in operands
    ]


def of_floats(
    kernel: Callable[..., ndarray], otherwise: Callable[..., ndarray] | None = None
) -> Callable[[GpuOperand, GpuOperand], ndarray]:
    """Returns a function of two operands that a kernel computes in float32 or float64.

    Another one computes it of operands that are no floats, if there is one.
    """

    def compute(x: GpuOperand, y: GpuOperand) -> ndarray:
        dtype = result_type(x, y)
        if dtype.kind not in "fV":
            if otherwise is not None:
                return otherwise(x, y)
            if dtype.kind == "c":
                raise TypeError(f"defined for real numbers only, got dtype {dtype}")
            dtype = np.dtype(LOOPS.get(dtype.itemsize, np.float64))
        wider = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        return kernel(*_operands_in(wider, x, y)).astype(dtype, copy=False)

    return compute


def fmod(x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns what is left when x is divided by y, with x's sign; 0 of integers by 0."""
    dtype = result_type(x, y)
    if dtype.kind not in "iu":
        return cupy.fmod(x, y)
    kernel = INTEGER_FMOD if dtype.kind == "i" else UNSIGNED_FMOD
    return kernel(*_operands_in(dtype, x, y))


WHERE_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "clip": clip,
    "floor_divide": of_floats(FLOOR_DIVIDE, cupy.floor_divide),
    "fmod": fmod,
    "log_ratio": of_floats(LOG_RATIO, cupy.subtract),
    "logaddexp": of_floats(LOGADDEXP),
    "power": power,
    "remainder": of_floats(REMAINDER, cupy.remainder),
    "reshape": reshape,
    "where": where,
}
