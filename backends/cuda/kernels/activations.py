"""Activation functions and their derivatives, one launch each, and the error function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cupy
import numpy as np

from ...dtypes import result_type
from ..launch import Kernel
from .elementwise import contiguous

__all__ = ["TABLE", "promoted"]

# As the kernels have them.
THREADS = 256
TURNS = 2
WIDE = 16

UNARY = Kernel(
    "activations",
    "unary",
    "ppl",
    (
        *(
            f"{name}, float, 4"
            for name in (
                "relu",
                "sigmoid",
                "silu",
                "softplus",
                "gelu",
                "gelu_slope",
                "gelu_exact",
                "gelu_exact_slope",
                "error_function",
                "error_complement",
            )
        ),
        "gelu, half_t, 8",
        "gelu, bfloat16_t, 8",
        "gelu, double, 2",
        "gelu, float, 1",
    ),
)
STRIDED = Kernel("activations", "unary_strided", "ppllllllll", ("gelu, float",))
BINARY = Kernel(
    "activations",
    "binary",
    "pppll",
    (
        *(
            f"{name}, float, 4"
            for name in (
                "relu_derivative",
                "sigmoid_derivative",
                "tanh_derivative",
                "softplus_derivative",
                "silu_derivative",
                "gelu_derivative",
                "gelu_exact_derivative",
                "biased<relu>",
                "biased<sigmoid>",
                "biased<hyperbolic>",
                "biased<softplus>",
            )
        ),
        "relu_derivative, half_t, 8",
        "relu_derivative, bfloat16_t, 8",
        "relu_derivative, double, 2",
    ),
)
# Numbers that do not decide the dtype of a float.
WEAK = frozenset({bool, int, float})
ndarray = cupy.ndarray
# How many axes the kernel for strided arrays takes.
AXES = 4
# What the kernels call the floats, by the character of their dtype.
REAL = {"e": "half_t", "E": "bfloat16_t", "f": "float", "d": "double"}


def folded(x: Any) -> tuple[list[int], list[int]]:
    """Returns lengths and strides, in elements, of as few axes as an array's elements lie on."""
    lengths: list[int] = []
    steps: list[int] = []
    for length, stride in zip(x.shape, x.strides, strict=True):
        step = stride // x.dtype.itemsize
        if length == 1:
            continue
        if lengths and steps[-1] == length * step:
            lengths[-1] *= length
            steps[-1] = step
        else:
            lengths.append(length)
            steps.append(step)
    return lengths, steps


def _real(x: Any) -> Any:
    """Returns an array of floats, of which integers become double.

    Raises:
        TypeError: it is complex.
    """
    if x.dtype.char in REAL:
        return x
    if x.dtype.kind == "c":
        raise TypeError(f"defined for real numbers only, got dtype {x.dtype}")
    return x.astype(np.float64)


def _wide(itemsize: int, *buffers: Any) -> int:
    """Returns how many elements may be loaded at once."""
    for buffer in buffers:
        if buffer.data.ptr % WIDE:
            return 1
    return WIDE // itemsize


def _blocks(n: int, wide: int) -> int:
    return -(-n // (THREADS * TURNS * wide))


def unary(name: str, x: Any) -> Any:
    """Returns a function of every element."""
    x = _real(x)
    dtype, n = x.dtype, x.size
    if contiguous(x):
        out = cupy.ndarray(x.shape, dtype)
    elif x.flags.f_contiguous:
        out = cupy.ndarray(x.shape, dtype, order="F")
    else:
        out = cupy.ndarray(x.shape, dtype)
        lengths, steps = folded(x)
        if n and len(lengths) <= AXES:
            lengths = [1] * (AXES - len(lengths)) + lengths
            steps = [0] * (AXES - len(steps)) + steps
            types = f"{name}, {REAL[dtype.char]}"
            STRIDED(types, -(-n // THREADS), THREADS, x, out, n, *lengths[1:], *steps)
            return out
        x = cupy.ascontiguousarray(x)
    if n:
        wide = _wide(dtype.itemsize, x, out)
        UNARY(f"{name}, {REAL[dtype.char]}, {wide}", _blocks(n, wide), THREADS, x, out, n)
    return out


def binary(name: str, x: Any, y: Any) -> Any:
    """Returns a function of the elements of two arrays that broadcast; either may be a number."""
    if not _alike(x, y):
        dtype = promoted(x, y)
        if dtype.char not in REAL:
            if dtype.kind == "c":
                raise TypeError(f"defined for real numbers only, got dtype {dtype}")
            dtype = np.dtype(np.float64)
        shape = np.broadcast_shapes(*[getattr(z, "shape", ()) for z in (x, y)])
        x = _placed(x, dtype, shape, False)
        y = _placed(y, dtype, shape, True)
    dtype, shape, row = x.dtype, x.shape, y.size
    out = cupy.ndarray(shape, dtype)
    n = out.size
    if n:
        wide = _wide(dtype.itemsize, x, y, out)
        if row % wide:
            wide = 1
        BINARY(f"{name}, {REAL[dtype.char]}, {wide}", _blocks(n, wide), THREADS, x, y, out, n, row)
    return out


def _alike(x: Any, y: Any) -> bool:
    """Says whether two operands can be given to a binary kernel as they are, which is usual."""
    return (
        type(x) is ndarray
        and type(y) is ndarray
        and x.dtype == y.dtype
        and x.dtype.char in REAL
        and (x.shape == y.shape or (y.ndim == 1 and x.shape[-1:] == y.shape))
        and contiguous(x)
        and contiguous(y)
    )


def _placed(x: Any, dtype: Any, shape: tuple[int, ...], repeats: bool) -> Any:
    """Returns an operand of a binary kernel: contiguous, of the result's shape or its last axes.

    Args:
        x: an array or a number.
        dtype: the dtype of both operands.
        shape: the result's shape.
        repeats: whether it may be one that starts again.
    """
    if not isinstance(x, cupy.ndarray):
        return cupy.full(shape, x, dtype)
    if x.dtype != dtype:
        x = x.astype(dtype)
    if x.shape != shape:
        row = _trimmed(x.shape)
        if not (repeats and row and shape[-len(row) :] == row and x.flags.c_contiguous):
            x = cupy.broadcast_to(x, shape)
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x)


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape without the axes of length 1 in front."""
    first = next((i for i, length in enumerate(shape) if length != 1), len(shape))
    return shape[first:]


def promoted(x: Any, y: Any) -> Any:
    """Returns the dtype to which two operands promote."""
    return result_type(x, y)


def relu(x: Any) -> Any:
    """Returns ``max(x, 0)``."""
    return unary("relu", x) if x.dtype.char in REAL else cupy.maximum(x, 0)


def gelu(x: Any, *, approximate: bool) -> Any:
    """Returns ``x P(X <= x)`` of a standard normal X, or its approximation by a sigmoid."""
    return unary("gelu" if approximate else "gelu_exact", x)


def gelu_slope(x: Any, *, approximate: bool) -> Any:
    """Returns the derivative of ``gelu``."""
    return unary("gelu_slope" if approximate else "gelu_exact_slope", x)


def gelu_derivative(g: Any, x: Any, *, approximate: bool) -> Any:
    """Returns the derivative of ``gelu`` in a direction."""
    return binary("gelu_derivative" if approximate else "gelu_exact_derivative", g, x)


def tanh_derivative(g: Any, y: Any) -> Any:
    """Returns the derivative of ``tanh`` in a direction, where its value is y."""
    if cupy.result_type(g, y).kind == "c":
        return g * (1 - y * y)
    return binary("tanh_derivative", g, y)


def tanh_biased(x: Any, y: Any) -> Any:
    """Returns ``tanh(x + y)``."""
    if cupy.result_type(x, y).kind == "c":
        return cupy.tanh(x + y)
    return binary("biased<hyperbolic>", x, y)


TABLE: dict[str, Callable[..., Any]] = {
    "erf": partial(unary, "error_function"),
    "erfc": partial(unary, "error_complement"),
    "logistic": partial(unary, "sigmoid"),
    "gelu": gelu,
    "gelu_derivative": gelu_derivative,
    "gelu_slope": gelu_slope,
    "relu": relu,
    "relu_biased": partial(binary, "biased<relu>"),
    "relu_derivative": partial(binary, "relu_derivative"),
    "sigmoid": partial(unary, "sigmoid"),
    "sigmoid_biased": partial(binary, "biased<sigmoid>"),
    "sigmoid_derivative": partial(binary, "sigmoid_derivative"),
    "silu": partial(unary, "silu"),
    "silu_derivative": partial(binary, "silu_derivative"),
    "softplus": partial(unary, "softplus"),
    "softplus_derivative": partial(binary, "softplus_derivative"),
    "tanh_biased": tanh_biased,
    "tanh_derivative": tanh_derivative,
}
