"""Activation functions and their derivatives, one launch each, and the error function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import dropwhile
from typing import Any

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, Shape
from ...dtypes import result_type
from ..annotations import GpuOperand
from ..launch import BLOCK_THREADS, C_FLOATS, WIDEST_LOAD_BYTES, Kernel, is_contiguous
from ..row_layout import inexact
from ..strides import merged_axes, strides_of

__all__ = ["ACTIVATION_FUNCTIONS"]

# The same number as in the kernels.
ACTIVATION_TURNS = 2

UNARY_NAMES = (
    "relu", "sigmoid", "silu", "softplus", "gelu", "gelu_grad", "gelu_exact", "gelu_exact_grad",
    "error_function", "error_complement",
)  # fmt: skip
BINARY_NAMES = (
    "relu_grad", "sigmoid_grad", "tanh_grad", "softplus_grad", "silu_grad", "gelu_grad",
    "gelu_exact_grad", "biased<relu>", "biased<sigmoid>", "biased<hyperbolic>", "biased<softplus>",
)  # fmt: skip
PACKS = ("half_t, 8", "bfloat16_t, 8", "double, 2")
ACTIVATION_TYPES = (
    *(f"{name}, float, 4" for name in UNARY_NAMES),
    *(f"gelu, {pack}" for pack in (*PACKS, "float, 1")),
)
ACTIVATION_GRAD_TYPES = (
    *(f"{name}, float, 4" for name in BINARY_NAMES),
    *(f"relu_grad, {pack}" for pack in PACKS),
)
UNARY_KERNEL = Kernel("activations", "unary", "ppl", ACTIVATION_TYPES)
BINARY_KERNEL = Kernel("activations", "binary", "pppll", ACTIVATION_GRAD_TYPES)
STRIDED_KERNEL = Kernel("activations", "unary_strided", "ppllllllll", ("gelu, float",))
# The axes that the kernel for strided arrays takes.
MOST_STRIDED_AXES = 4


def _load_elements(itemsize: int, *buffers: ndarray) -> int:
    """Returns how many elements may be loaded at once."""
    for buffer in buffers:
        if buffer.data.ptr % WIDEST_LOAD_BYTES:
            return 1
    return WIDEST_LOAD_BYTES // itemsize


def _block_count(n: int, wide: int) -> int:
    return -(-n // (BLOCK_THREADS * ACTIVATION_TURNS * wide))


def unary(name: str, x: ndarray) -> ndarray:
    """Returns a function of every element."""
    x = inexact(x)
    dtype, n = x.dtype, x.size
    if is_contiguous(x):
        out = cupy.ndarray(x.shape, dtype)
    elif x.flags.f_contiguous:
        out = cupy.ndarray(x.shape, dtype, order="F")
    else:
        out = cupy.ndarray(x.shape, dtype)
        axes = merged_axes(zip(x.shape, strides_of(x)))
        if n and len(axes) <= MOST_STRIDED_AXES:
            lengths, steps = zip(*[(1, 0)] * (MOST_STRIDED_AXES - len(axes)), *axes)
            types, blocks = f"{name}, {C_FLOATS[dtype.char]}", -(-n // BLOCK_THREADS)
            STRIDED_KERNEL(types, blocks, BLOCK_THREADS, x, out, n, *lengths[1:], *steps)
            return out
        x = cupy.ascontiguousarray(x)
    if n:
        wide = _load_elements(dtype.itemsize, x, out)
        types = f"{name}, {C_FLOATS[dtype.char]}, {wide}"
        UNARY_KERNEL(types, _block_count(n, wide), BLOCK_THREADS, x, out, n)
    return out


def binary(name: str, x: GpuOperand, y: GpuOperand) -> ndarray:
    """Returns a function of the elements of two arrays that broadcast; either may be a number."""
    left: ndarray = x
    right: ndarray = y
    if not _fit_binary_kernel(x, y):
        dtype = result_type(x, y)
        if dtype.char not in C_FLOATS:
            if dtype.kind == "c":
                raise TypeError(f"defined for real numbers only, got dtype {dtype}")
            dtype = np.dtype(np.float64)
        shape = np.broadcast_shapes(*[getattr(z, "shape", ()) for z in (x, y)])
        left = _binary_operand(x, dtype, shape, False)
        right = _binary_operand(y, dtype, shape, True)
    dtype, shape, row = left.dtype, left.shape, right.size
    out = cupy.ndarray(shape, dtype)
    n = out.size
    if n:
        wide = _load_elements(dtype.itemsize, left, right, out)
        if row % wide:
            wide = 1
        types = f"{name}, {C_FLOATS[dtype.char]}, {wide}"
        BINARY_KERNEL(types, _block_count(n, wide), BLOCK_THREADS, left, right, out, n, row)
    return out


def _fit_binary_kernel(x: Any, y: Any) -> bool:
    """Says whether a binary kernel takes two operands as they are, as it usually does."""
    return (
        type(x) is ndarray
        and type(y) is ndarray
        and x.dtype == y.dtype
        and x.dtype.char in C_FLOATS
        and (x.shape == y.shape or (y.ndim == 1 and x.shape[-1:] == y.shape))
        and is_contiguous(x)
        and is_contiguous(y)
    )


def _binary_operand(x: GpuOperand, dtype: DType, shape: Shape, repeats: bool) -> ndarray:
    """Returns an operand of a binary kernel: contiguous, of the result's shape.

    It may have the last axes alone if the kernel repeats it.
    """
    if not isinstance(x, cupy.ndarray):
        return cupy.full(shape, x, dtype)
    if x.dtype != dtype:
        x = x.astype(dtype)
    if x.shape != shape:
        row = tuple(dropwhile(lambda n: n == 1, x.shape))
        if not (repeats and row and shape[-len(row) :] == row and x.flags.c_contiguous):
            x = cupy.broadcast_to(x, shape)
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x)


def relu(x: ndarray) -> ndarray:
    """Returns ``max(x, 0)``."""
    return unary("relu", x) if x.dtype.char in C_FLOATS else cupy.maximum(x, 0)


def gelu(x: ndarray, *, approximate: bool) -> ndarray:
    """Returns ``x P(X <= x)`` of a standard normal X, or its approximation by a sigmoid."""
    return unary("gelu" if approximate else "gelu_exact", x)


def gelu_unit_grad(x: ndarray, *, approximate: bool) -> ndarray:
    """Returns the derivative of ``gelu``, which is ``gelu_grad`` of a cotangent of 1."""
    return unary("gelu_grad" if approximate else "gelu_exact_grad", x)


def gelu_grad(g: GpuOperand, x: GpuOperand, *, approximate: bool) -> ndarray:
    """Returns the derivative of ``gelu`` in a direction."""
    return binary("gelu_grad" if approximate else "gelu_exact_grad", g, x)


def tanh_grad(g: Any, y: Any) -> ndarray:
    """Returns the derivative of ``tanh`` in a direction, where its value is y."""
    if cupy.result_type(g, y).kind == "c":
        return g * (1 - y * y)
    return binary("tanh_grad", g, y)


def tanh_biased(x: Any, y: Any) -> ndarray:
    """Returns ``tanh(x + y)``."""
    if cupy.result_type(x, y).kind == "c":
        return cupy.tanh(x + y)
    return binary("biased<hyperbolic>", x, y)


ACTIVATION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "erf": partial(unary, "error_function"),
    "erfc": partial(unary, "error_complement"),
    "logistic": partial(unary, "sigmoid"),
    "gelu": gelu,
    "gelu_grad": gelu_grad,
    "gelu_unit_grad": gelu_unit_grad,
    "relu": relu,
    "relu_biased": partial(binary, "biased<relu>"),
    "relu_grad": partial(binary, "relu_grad"),
    "sigmoid": partial(unary, "sigmoid"),
    "sigmoid_biased": partial(binary, "biased<sigmoid>"),
    "sigmoid_grad": partial(binary, "sigmoid_grad"),
    "silu": partial(unary, "silu"),
    "silu_grad": partial(binary, "silu_grad"),
    "softplus": partial(unary, "softplus"),
    "softplus_grad": partial(binary, "softplus_grad"),
    "tanh_biased": tanh_biased,
    "tanh_grad": tanh_grad,
}
