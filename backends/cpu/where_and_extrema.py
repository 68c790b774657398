"""Choosing between elements, for NumPy's buffers.

``np.where`` branches at every element. For irregular conditions that costs fifteen times an
addition. Large arrays choose by their bits instead. They are limited by ``ndarray.clip``: its loop
is vectorised for scalar bounds, and those of ``np.maximum`` and ``np.minimum`` are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import copysign
from typing import TYPE_CHECKING, Any

import numpy as np

from ..processor import ZEROS_ARE_ORDERED
from ..restoring import errstate
from .blocks import BLOCK_ELEMENTS, flat_in_memory, row_blocks
from .parallel import side_by_side

if TYPE_CHECKING:
    from ..annotations import Buffer, DType

__all__ = ["log_ratio", "logaddexp", "maximum", "minimum", "power", "relu", "relu_grad", "where"]

# Smaller arrays are quicker by ``np.where``.
FEWEST_ELEMENTS_BY_BITS = 1024
# Powers up to this are products: NumPy's loop takes sixty times as long where bases are negative.
LARGEST_PRODUCT_POWER = 32
SIGNED_INTEGERS: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
REAL_PYTHON_NUMBERS = frozenset({int, float})


def where(condition: Buffer, x: Any, y: Any) -> Any:
    """Returns x's elements where the condition holds, y's elsewhere."""
    if (
        type(condition) is not np.ndarray
        or condition.size < FEWEST_ELEMENTS_BY_BITS
        or condition.dtype != np.bool_
    ):
        return np.where(condition, x, y)
    dtype = np.result_type(x, y)
    bits = SIGNED_INTEGERS.get(dtype.itemsize)
    if bits is None:
        return np.where(condition, x, y)
    mask = condition.astype(bits)
    if _is_zero_bits(x):
        # 0 becomes -1, all bits set, and 1 becomes 0.
        mask -= 1
        return _combine(np.bitwise_and, _as_bits(y, dtype, bits), mask).view(dtype)
    np.negative(mask, out=mask)
    a = _as_bits(x, dtype, bits)
    if _is_zero_bits(y):
        return _combine(np.bitwise_and, a, mask).view(dtype)
    b = _as_bits(y, dtype, bits)
    if b.ndim == 0 and a.size > mask.size:
        # A number for the places of a mask that is used again and again: a pass less.
        rest = np.bitwise_and(b, ~mask)
        chosen = a & mask
        np.bitwise_or(chosen, rest, out=chosen)
        return chosen.view(dtype)
    out = _combine(np.bitwise_and, a ^ b, mask)
    out ^= b
    return out.view(dtype)


def _is_zero_bits(x: Any) -> bool:
    """Says whether an operand is a number all of whose bits are 0, which those of -0.0 are not."""
    return type(x) in REAL_PYTHON_NUMBERS and x == 0 and copysign(1, x) > 0


def _as_bits(x: Any, dtype: DType, bits: Any) -> Buffer:
    return np.asarray(x, dtype).view(bits)


def _combine(ufunc: np.ufunc, x: Buffer, mask: Buffer) -> Any:
    """Applies a ufunc, into the mask where the result has its shape."""
    return ufunc(x, mask, out=mask) if x.ndim == 0 or x.shape == mask.shape else ufunc(x, mask)


def _is_limited_by_clip(x: Any, bound: Any) -> bool:
    """Says whether ``x.clip`` serves: a large array of reals against a number, but -0.0."""
    return (
        type(bound) in REAL_PYTHON_NUMBERS
        and type(x) is np.ndarray
        and x.size >= FEWEST_ELEMENTS_BY_BITS
        and x.dtype.char in "fd"
        and (bound != 0 or _is_zero_bits(bound))
    )


def _limited(out: Buffer, bound: float, with_its_zeros: bool = False) -> Buffer:
    """Returns a limited array. Of two zeros that of the bound comes out, unless asked otherwise."""
    return out if bound or with_its_zeros else np.add(out, 0.0, out=out)


def maximum(x: Any, y: Any) -> Any:
    """Returns the larger of two elements; NaN where one is."""
    if _is_limited_by_clip(x, y):
        return _limited(x.clip(y, np.inf), y)
    if _is_limited_by_clip(y, x):
        return _limited(y.clip(x, np.inf), x, not ZEROS_ARE_ORDERED)
    return np.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    """Returns the smaller of two elements; NaN where one is."""
    if _is_limited_by_clip(x, y):
        return _limited(x.clip(-np.inf, y), y, ZEROS_ARE_ORDERED)
    return y.clip(-np.inf, x) if _is_limited_by_clip(y, x) else np.minimum(x, y)


def relu(x: Any) -> Any:
    """Returns ``max(x, 0)``."""
    if not _is_limited_by_clip(x, 0):
        return np.maximum(x, 0)
    out = np.empty_like(x) if x.size > BLOCK_ELEMENTS else None
    flat = None if out is None else flat_in_memory(x, out)
    if flat is None:
        return x.clip(0, np.inf)
    values, limited = flat

    def some(blocks: Iterable[slice]) -> None:
        for block in blocks:
            values[block].clip(0, np.inf, out=limited[block])

    side_by_side(some, list(row_blocks(values.size, 1, 2 * BLOCK_ELEMENTS)))
    return out


def relu_grad(x: Any, y: Any) -> Any:
    """Returns x where y is positive, 0 elsewhere."""
    if type(x) is float and getattr(y, "dtype", None) is not None and y.dtype.kind == "f":
        x = y.dtype.type(x)
    if type(x) is type(y) is np.ndarray and x.size > BLOCK_ELEMENTS and x.dtype == y.dtype:
        out = np.empty_like(x)
        flat = flat_in_memory(x, y, out) if x.dtype.char in "fd" else None
        if flat is not None:
            kept_where_positive(*flat)
            return out
    return where(np.greater(y, 0), x, 0)


def kept_where_positive(x: Buffer, y: Buffer, out: Buffer) -> None:
    """Fills an array of one axis with x's elements where y's are positive, and with 0 elsewhere."""
    bits = SIGNED_INTEGERS[x.dtype.itemsize]
    x, out = x.view(bits), out.view(bits)

    def some(blocks: Iterable[slice]) -> None:
        positive = np.empty(BLOCK_ELEMENTS, np.bool_)
        for block in blocks:
            kept = out[block]
            # 1 becomes -1, all of whose bits are set.
            np.copyto(kept, np.greater(y[block], 0, out=positive[: kept.size]))
            np.negative(kept, out=kept)
            np.bitwise_and(kept, x[block], out=kept)

    side_by_side(some, list(row_blocks(out.size, 1)))


def power(x: Any, y: Any) -> Any:
    """Returns ``x`` to the power ``y``; small integer powers of reals are products."""
    if type(x) is not np.ndarray or not x.ndim or x.dtype.kind == "b":
        return np.power(x, y)
    if type(y) not in REAL_PYTHON_NUMBERS:
        if not isinstance(y, np.floating) or np.result_type(x, y) != x.dtype:
            return np.power(x, y)
        y = float(y)
    # The operator knows -1, 0, 0.5, 1 and 2.
    known = -1 <= y <= 2 or not abs(y) <= LARGEST_PRODUCT_POWER or y != int(y)
    if known or x.dtype.kind not in "fc":
        return x**y
    exponent = abs(int(y))
    base: Any = x
    out: Any = None
    while True:
        if exponent & 1:
            out = base if out is None else np.multiply(out, base, out=None if out is x else out)
        exponent >>= 1
        if not exponent:
            break
        # The result may still be the buffer that the base is in.
        base = np.multiply(base, base, out=None if base is x or base is out else base)
    return np.reciprocal(out, out=out) if y < 0 else out


def log_ratio(x: Any, y: Any) -> Any:
    """Returns ``log(exp(x) / exp(y))``: ``x - y``, -inf where x is, 0 where both are inf."""
    # One of many equal elements is enough to look at, if y was broadcast.
    strides = getattr(y, "strides", ())
    seen = y[tuple(slice(None) if s else slice(1) for s in strides)] if strides else y
    if not np.isinf(seen).any():
        return np.subtract(x, y)
    with errstate(invalid="ignore"):
        difference = np.subtract(x, y)
    # ``minimum`` of a Python number is a double, which would decide the dtype.
    lower = np.minimum(x, 0).astype(difference.dtype)
    return np.where(np.equal(x, y) & np.isinf(y), lower, difference)


def logaddexp(x: Any, y: Any) -> Any:
    """Returns ``log(exp(x) + exp(y))``, in vectorised passes where NumPy's loop has none."""
    small = max(np.size(x), np.size(y)) < FEWEST_ELEMENTS_BY_BITS
    if small or np.result_type(x, y).char not in "fd":
        return np.logaddexp(x, y)
    out = log_ratio(x, y)
    np.absolute(out, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    out += maximum(x, y)
    return out
