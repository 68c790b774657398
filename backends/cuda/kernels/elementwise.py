"""Arithmetic and elementary functions of real arrays, with little time for a launch.

CuPy's own ufuncs cost more to launch than a GPU takes for a hundred thousand elements. Contiguous
arrays of one dtype are computed here, possibly with a number, a row or a column beside them; CuPy
computes the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, Shape
from ..annotations import GpuOperand
from ..launch import BLOCK_THREADS, C_TYPES, WIDEST_LOAD_BYTES, Kernel, is_contiguous

__all__ = ["ELEMENTWISE_FUNCTIONS", "GRAD_RULES", "add_into"]

UNARY_UFUNCS = (
    "absolute", "arcsinh", "arctan", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor",
    "log", "log10", "log1p", "log2", "negative", "reciprocal", "rint", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc",
)  # fmt: skip
BINARY_UFUNCS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
# The primitive whose name differs from its function here.
PRIMITIVE_NAMES = {"absolute": "abs"}
# A rule of reverse mode: a function of the cotangent, of saved values and of parameters.
GradRule: TypeAlias = Callable[[ndarray, tuple[Any, ...], dict[str, Any]], ndarray | None]
# Derivatives that are one function of the cotangent and the operand (1) or the result (0).
BY_OPERAND = {
    "absolute": 1, "arctan": 1, "cos": 1, "cosh": 1, "expm1": 0, "log1p": 1, "reciprocal": 0,
    "sin": 1, "sinh": 1, "sqrt": 0, "square": 1, "tan": 0,
}  # fmt: skip

ONE, EACH, EVERY_ROW, ALONG_ROW = range(4)
LAYOUTS = [(EACH, ONE), (ONE, EACH)]
ROW_LAYOUTS = [(EACH, EVERY_ROW), (EVERY_ROW, EACH), (EACH, ALONG_ROW), (ALONG_ROW, EACH)]
# Up to so many elements a launch costs more than its work, and a result made ahead takes little.
MOST_PAIRED_ELEMENTS = 1 << 16
# A larger count of a mean is divided by this first, since it may overflow.
LARGEST_FIRST_DIVISOR = 1 << 15

# By an array's dtype, its name in kernels and the number of elements in 16 bytes.
PACKED_FLOATS = {
    np.dtype(name): (C_TYPES[name], WIDEST_LOAD_BYTES // np.dtype(name).itemsize)
    for name in ("float16", "float32", "float64")
}
FLOAT_PACKS = [*PACKED_FLOATS.values(), (C_TYPES["bfloat16"], 8)]
if "ml_dtypes" in sys.modules:
    # CuPy has imported it, where it is installed.
    PACKED_FLOATS[np.dtype("bfloat16")] = FLOAT_PACKS[-1]


def ci_instances(*groups: Iterable[str]) -> tuple[str, ...]:
    """Returns the instances for CI: of every function one, of one function all."""
    return tuple(dict.fromkeys(instance for group in groups for instance in group))


UNARY_TYPES = ci_instances(
    (f"float, {f}_op, 4" for f in UNARY_UFUNCS),
    (f"{t}, sin_op, {n}" for t, wide in FLOAT_PACKS for n in (1, wide)),
)
PAIR_TYPES = ci_instances(
    (f"float, {f}_op, 4, 1, 1" for f in BINARY_UFUNCS),
    (f"float, {f}_grad, 4, 1, 1" for f in BY_OPERAND),
    (f"{t}, divide_op, {wide}, 1, 1" for t, wide in FLOAT_PACKS),
    (f"float, add_op, {n}, {i}, {j}" for n in (1, 4) for i, j in [(EACH, EACH), *LAYOUTS]),
)
BINARY_TYPES = ci_instances(
    (f"{t}, add_op, {wide}, 1, 2" for t, wide in FLOAT_PACKS),
    (f"float, add_op, {n}, {i}, {j}" for n in (1, 4) for i, j in ROW_LAYOUTS),
)
CHANNEL_TYPES = ci_instances(
    (f"{t}, add_op, {n}, false" for t, wide in FLOAT_PACKS for n in (1, wide)),
    ("float, subtract_op, 4, true",),
)
NUMBER_TYPES = ci_instances(
    f"{t}, subtract_op, {n}, {s}" for t, n in FLOAT_PACKS for s in ("false", "true")
)
PRODUCT_TYPES = tuple(f"{t}, {n}" for t, wide in FLOAT_PACKS for n in (1, wide))
unary = Kernel("elementwise", "unary", "ppl", UNARY_TYPES)
pairs = Kernel("elementwise", "pairs", "pppl", PAIR_TYPES)
binary = Kernel("elementwise", "binary", "pppll", BINARY_TYPES)
products = Kernel("elementwise", "products", "pppppl", PRODUCT_TYPES)
channels = Kernel("elementwise", "channels", "ppplll", CHANNEL_TYPES)
with_number = Kernel("elementwise", "with_number", "pdpl", NUMBER_TYPES)


def launches_by_dtype(types: str) -> dict[DType, tuple[int, str, str]]:
    """Returns the elements of a block and the template's arguments, by dtype.

    The arguments, which have ``{t}`` for the type and ``{n}`` for the elements of a load, are those
    without and with wide loads.
    """
    return {
        dtype: (wide * BLOCK_THREADS, types.format(t=t, n=1), types.format(t=t, n=wide))
        for dtype, (t, wide) in PACKED_FLOATS.items()
    }


def one_operand(name: str) -> Callable[[ndarray], ndarray]:
    """Returns a function of one array."""
    ufunc = getattr(cupy, name)
    types = launches_by_dtype(f"{{t}}, {name}_op, {{n}}")

    def compute(x: ndarray) -> ndarray:
        dtype = x.dtype
        found = types.get(dtype)
        if found is None or not is_contiguous(x):
            return ufunc(x)
        share, narrow, wide = found
        out = ndarray(x.shape, dtype)
        size = x.size
        if x.data.ptr % WIDEST_LOAD_BYTES:
            share, wide = BLOCK_THREADS, narrow
        if size:
            unary(wide, -(-size // share), BLOCK_THREADS, x, out, size)
        return out

    return compute


@lru_cache(maxsize=4096)
def layout_of(shape: Shape, whole: Shape) -> tuple[int, int] | None:
    """Returns how a contiguous operand belongs to a result of another shape, and the rows' width.

    None where it is neither one number, nor rows, nor a column.
    """
    size = prod(shape)
    if size == 1 and len(shape) <= len(whole):
        return ONE, 1
    kept = tuple(n for n in shape if n != 1) if 1 in shape else shape
    if len(shape) <= len(whole) and kept == whole[len(whole) - len(kept) :]:
        first = shape.index(kept[0])
        if shape[first:] == kept:
            return EVERY_ROW, size
    if len(shape) == len(whole):
        same = 0
        while shape[same] == whole[same]:
            same += 1
        if all(n == 1 for n in shape[same:]):
            return ALONG_ROW, prod(whole[same:])
    return None


@lru_cache(maxsize=4096)
def channels_of(shape: Shape, whole: Shape) -> tuple[int, int] | None:
    """Returns how many neighbours of a result have the same element of an operand, and of how many.

    None stands for axes, beside those of length 1, that are no run of the result's, or no elements.
    """
    before = len(whole) - len(shape)
    axes = [i for i, n in enumerate(shape, before) if n != 1]
    if before < 0 or not axes or 0 in whole:
        return None
    first, last = axes[0], axes[-1] + 1
    if shape[first - before : last - before] != whole[first:last]:
        return None
    return prod(whole[last:]), prod(whole[first:last])


def joint(name: str) -> Callable[[ndarray, ndarray], ndarray | None]:
    """Returns a function of two arrays, which gives None where others compute it."""
    types = launches_by_dtype(f"{{t}}, {name}, {{n}}, 1, 1")
    kinds = {
        (dtype, n, i, j): f"{t}, {name}, {n}, {i}, {j}"
        for dtype, (t, wide) in PACKED_FLOATS.items()
        for n in (1, wide)
        for i, j in LAYOUTS + ROW_LAYOUTS
    }

    def compute(x: ndarray, y: ndarray) -> ndarray:
        dtype = x.dtype
        found = types.get(dtype)
        if found is None or y.dtype is not dtype:
            return None
        shape = x.shape
        if shape != y.shape or not (is_contiguous(x) and is_contiguous(y)):
            return spread(x, y)
        share, narrow, wide = found
        out = ndarray(shape, dtype)
        size = x.size
        if x.data.ptr % WIDEST_LOAD_BYTES or y.data.ptr % WIDEST_LOAD_BYTES:
            share, wide = BLOCK_THREADS, narrow
        if size:
            pairs(wide, -(-size // share), BLOCK_THREADS, x, y, out, size)
        return out

    def spread(x: ndarray, y: ndarray) -> ndarray | None:
        left = right = EACH
        width = 0
        shape, other = x.shape, y.shape
        if not (is_contiguous(x) and is_contiguous(y)):
            # An array broadcast from one number, as the cotangent of a sum is, has one element.
            if shape != other or not x.size:
                return None
            if is_contiguous(y) and not any(x.strides):
                left = ONE
            elif is_contiguous(x) and not any(y.strides):
                right = ONE
            else:
                return None
        elif x.size > y.size or (x.size == y.size and len(shape) > len(other)):
            layout = layout_of(other, shape)
            if layout is None:
                return by_channel(x, y, "false")
            right, width = layout
        else:
            layout = layout_of(shape, other)
            if layout is None:
                return by_channel(y, x, "true")
            left, width = layout
            shape = other
        dtype = x.dtype
        out = ndarray(shape, dtype)
        size = out.size
        wide = PACKED_FLOATS[dtype][1]
        if (left == EACH and x.data.ptr % WIDEST_LOAD_BYTES) or (
            right == EACH and y.data.ptr % WIDEST_LOAD_BYTES
        ):
            wide = 1
        if not size:
            return out
        kind, blocks = kinds[dtype, wide, left, right], -(-size // (wide * BLOCK_THREADS))
        if ONE in (left, right):
            pairs(kind, blocks, BLOCK_THREADS, x, y, out, size)
        else:
            binary(kind, blocks, BLOCK_THREADS, x, y, out, size, width)
        return out

    def by_channel(x: ndarray, y: ndarray, swapped: str) -> ndarray | None:
        shape, dtype = x.shape, x.dtype
        found = channels_of(y.shape, shape)
        if found is None:
            return None
        out = ndarray(shape, dtype)
        t, wide = PACKED_FLOATS[dtype]
        if found[0] % wide or x.data.ptr % WIDEST_LOAD_BYTES:
            wide = 1
        kind, size = f"{t}, {name}, {wide}, {swapped}", x.size
        channels(kind, -(-size // (wide * BLOCK_THREADS)), BLOCK_THREADS, x, y, out, size, *found)
        return out

    return compute


ADDITIONS = launches_by_dtype("{t}, add_op, {n}, 1, 1")


def add_into(x: ndarray, y: ndarray) -> None:
    """Adds an array to another one of its shape and dtype, in the other one's place."""
    found = ADDITIONS.get(x.dtype)
    if found is None or not (is_contiguous(x) and is_contiguous(y)):
        x += y
        return
    share, narrow, wide = found
    size = x.size
    if x.data.ptr % WIDEST_LOAD_BYTES or y.data.ptr % WIDEST_LOAD_BYTES:
        share, wide = BLOCK_THREADS, narrow
    if size:
        pairs(wide, -(-size // share), BLOCK_THREADS, x, y, x, size)


# Numbers that are no array's and decide no dtype.
PLAIN_NUMBERS = frozenset({int, float})


def two_operands(name: str) -> Callable[[GpuOperand, GpuOperand], ndarray]:
    """Returns a function of two operands, one of which may be a number."""
    ufunc = getattr(cupy, name)
    arrays = joint(f"{name}_op")

    def compute(x: ndarray, y: ndarray) -> ndarray:
        if type(x) is ndarray:
            if type(y) is ndarray:
                out = arrays(x, y)
            else:
                out = beside_number(x, y, "false") if type(y) in PLAIN_NUMBERS else None
        else:
            out = beside_number(y, x, "true") if type(x) in PLAIN_NUMBERS else None
        return ufunc(x, y) if out is None else out

    def beside_number(x: ndarray, number: float, swapped: str) -> ndarray | None:
        dtype = x.dtype
        found = PACKED_FLOATS.get(dtype)
        if found is None or not is_contiguous(x):
            return None
        out = ndarray(x.shape, dtype)
        size = x.size
        t, wide = found
        if x.data.ptr % WIDEST_LOAD_BYTES:
            wide = 1
        if size:
            kind = f"{t}, {name}_op, {wide}, {swapped}"
            with_number(
                kind, -(-size // (wide * BLOCK_THREADS)), BLOCK_THREADS, x, float(number), out, size
            )
        return out

    return compute


ELEMENTWISE_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    **{PRIMITIVE_NAMES.get(name, name): one_operand(name) for name in UNARY_UFUNCS},
    **{name: two_operands(name) for name in BINARY_UFUNCS},
}


def by(function: Callable[[ndarray, ndarray], ndarray | None], place: int) -> GradRule:
    """Returns a rule: the function of the cotangent and of one of the saved values."""

    def rule(g: ndarray, saved: tuple[Any, ...], params: dict[str, Any]) -> ndarray | None:
        value = saved[place]
        return function(g, value) if type(value) is ndarray else None

    return rule


MULTIPLIED, DIVIDED = joint("multiply_op"), joint("divide_op")
TWICE = launches_by_dtype("{t}, {n}")


class BothFactors:
    """The rules of a product: where both factors want a cotangent, one launch makes both.

    Attributes:
        ahead: the cotangent, the saved values, and the second factor's cotangent, which its own
            rule asks for next; small, since it is kept until then.
    """

    def __init__(self) -> None:
        self.ahead: tuple[ndarray, tuple[Any, ...], ndarray] | None = None

    def first(self, g: ndarray, saved: tuple[Any, ...], params: dict[str, Any]) -> ndarray | None:
        """Returns the cotangent of the first factor."""
        x, y = saved[1], saved[2]
        if type(y) is not ndarray:
            return None
        dtype = g.dtype
        found = TWICE.get(dtype)
        if (
            type(x) is not ndarray
            or found is None
            or x.dtype is not dtype
            or y.dtype is not dtype
            or not (shape := g.shape) == x.shape == y.shape
            or not 0 < (size := g.size) <= MOST_PAIRED_ELEMENTS
            or not (is_contiguous(g) and is_contiguous(x) and is_contiguous(y))
        ):
            return MULTIPLIED(g, y)
        share, narrow, wide = found
        if (
            g.data.ptr % WIDEST_LOAD_BYTES
            or x.data.ptr % WIDEST_LOAD_BYTES
            or y.data.ptr % WIDEST_LOAD_BYTES
        ):
            share, wide = BLOCK_THREADS, narrow
        by_x, by_y = ndarray(shape, dtype), ndarray(shape, dtype)
        products(wide, -(-size // share), BLOCK_THREADS, g, x, y, by_x, by_y, size)
        self.ahead = g, saved, by_y
        return by_x

    def second(self, g: ndarray, saved: tuple[Any, ...], params: dict[str, Any]) -> ndarray | None:
        """Returns the cotangent of the second factor."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None and ahead[0] is g and ahead[1] is saved:
            return ahead[2]
        x = saved[1]
        return MULTIPLIED(g, x) if type(x) is ndarray else None


both_factors = BothFactors()
divided = two_operands("divide")


def mean_vjp(g: ndarray, saved: tuple[Any, ...], params: dict[str, Any]) -> ndarray:
    """Returns the cotangent of a mean's operand: that of the mean, scaled and then broadcast."""
    x, axis = saved[1], params["axis"]
    shape = x if type(x) is tuple else x.shape
    count = prod([shape[i] for i in axis])
    if len(axis) < len(shape):
        g = g.reshape([1 if i in axis else n for i, n in enumerate(shape)])
    # A count that float16 cannot hold divides in two steps; a power of two does not round.
    if count > LARGEST_FIRST_DIVISOR:
        g, count = divided(g, LARGEST_FIRST_DIVISOR), count / LARGEST_FIRST_DIVISOR
    return cupy.broadcast_to(divided(g, count or 1), shape)


# Rules of reverse mode in one launch, by the primitive's name and operand: functions of the
# cotangent, of saved values and of parameters. They give None where the primitive's own rule
# has to compute it.
GRAD_RULES: dict[str, tuple[GradRule | None, ...]] = {
    **{
        PRIMITIVE_NAMES.get(name, name): (by(joint(f"{name}_grad"), place),)
        for name, place in BY_OPERAND.items()
    },
    "divide": (by(DIVIDED, 2), None),
    "exp": (by(MULTIPLIED, 0),),
    "log": (by(DIVIDED, 1),),
    "mean": (mean_vjp,),
    "multiply": (both_factors.first, both_factors.second),
}
