"""Sums, extrema and softmax over axes, for NumPy's buffers.

NumPy's reductions pay for every row of short axes, and for every row of narrow arrays. Sums are
done by BLAS instead, as products with ones, in runs that are short enough to lose no digits, and
extrema are laid out so that the inner loop is long.
"""

from __future__ import annotations

import math
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_calls import added_up
from ..restoring import quiet
from .blocks import inexact

if TYPE_CHECKING:
    from ..annotations import Axes, Buffer, DType

__all__ = [
    "log_softmax", "logsumexp", "max", "mean", "min", "reduced_extremum", "softmax", "softmax_grad",
    "sum", "var",
]  # fmt: skip

# Smaller arrays are quicker by NumPy. Sums over all axes, which have no rows, gain later.
FEWEST_ELEMENTS_BY_BLAS = 512
FEWEST_ELEMENTS_SUMMED_IN_ALL = 65536
# Terms that BLAS adds up one after the other: rounding errors grow with them.
LONGEST_BLAS_RUN = 1024
# The length that inner loops are brought to, and the length up to which rows count as short.
INNER_LOOP_LENGTH = 1024
LONGEST_SHORT_ROW = 32

add_up: Any = np.add.reduce
# The methods of arrays get to these by Python.
largest_number: Any = np.maximum.reduce
smallest: Any = np.minimum.reduce


@lru_cache(maxsize=256)
def ones(length: int, dtype: DType) -> Buffer:
    """Returns a vector of ones, to add up by a product with it."""
    ones = np.ones(length, dtype)
    ones.flags.writeable = False
    return ones


@lru_cache(maxsize=16)
def safe_exponents(dtype: DType) -> tuple[Any, Any]:
    """Returns up to which number exp is far from overflow, and what sums of it are large enough."""
    limit = np.finfo(dtype)
    return 0.5 * np.log(limit.max), np.sqrt(limit.tiny)


def sum(x: Buffer, *, axis: Axes, keepdims: bool, dtype: DType | None = None) -> Any:
    """Returns the sum over axes, which are sorted and counted from the front."""
    if (
        dtype is not None
        or type(x) is not np.ndarray
        or x.size < FEWEST_ELEMENTS_BY_BLAS
        or x.dtype.char not in "fd"
        or not axis
        or (len(axis) == x.ndim and x.size < FEWEST_ELEMENTS_SUMMED_IN_ALL)
        or not (x.flags.c_contiguous or in_order_of_memory(x).flags.c_contiguous)
    ):
        if dtype is None and type(x) is np.ndarray and x.dtype.char == "e":
            return add_up(x, axis=axis, dtype=np.float32, keepdims=keepdims).astype(x.dtype)
        return add_up(x, axis=axis, dtype=dtype, keepdims=keepdims)
    if not x.flags.c_contiguous:
        # Images whose channels are last in memory, as convolutions return them, for instance.
        order = axes_by_strides(x)
        ordered = x.transpose(order)
        axes = tuple(sorted(order.index(a) for a in axis))
        out = sum(ordered, axis=axes, keepdims=True).transpose(np.argsort(order))
        return out if keepdims else out.squeeze(axis)[()]
    shape, last = x.shape, x.ndim - 1
    if axis == (last,) and 0 < shape[last] <= LONGEST_BLAS_RUN:
        length = shape[last]
        out = added_up(x.reshape(-1, length), ones(length, x.dtype))
        return out.reshape((*shape[:last], 1) if keepdims else shape[:last])[()]
    # The last run of neighbouring axes is summed first.
    start = len(axis) - 1
    while start and axis[start - 1] == axis[start] - 1:
        start -= 1
    first, last = axis[start], axis[-1]
    out = _sum_middle(
        x.reshape(prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :]))
    ).reshape(shape[:first] + shape[last + 1 :])
    if start:
        out = sum(out, axis=axis[:start], keepdims=False)
    if keepdims:
        out = out.reshape(tuple(1 if i in axis else n for i, n in enumerate(shape)))
    return out if out.ndim else out[()]


def axes_by_strides(x: Buffer) -> list[int]:
    """Returns the axes, those first whose neighbours are furthest away in memory."""
    return sorted(range(x.ndim), key=lambda axis: -x.strides[axis])


def in_order_of_memory(x: Buffer) -> Buffer:
    """Returns the array with its axes in the order of memory."""
    return x.transpose(axes_by_strides(x))


def _sum_middle(x: Buffer) -> Any:
    """Returns the sum over the middle one of three axes, without that axis."""
    before, length, after = x.shape
    if length > LONGEST_BLAS_RUN:
        whole = length - length % LONGEST_BLAS_RUN
        runs = x[:, :whole].reshape(before, whole // LONGEST_BLAS_RUN, LONGEST_BLAS_RUN, after)
        out = _sum_middle(
            _sum_middle(runs.reshape(-1, LONGEST_BLAS_RUN, after)).reshape(before, -1, after)
        )
        if whole < length:
            out += _sum_middle(x[:, whole:])
        return out
    if after == 1:
        return added_up(x.reshape(before, length), ones(length, x.dtype))
    if before == 1 or length * after >= FEWEST_ELEMENTS_BY_BLAS:
        return added_up(ones(length, x.dtype), x)
    return add_up(x, axis=1)


def mean(x: Buffer, *, axis: Axes, keepdims: bool, dtype: DType | None = None) -> Any:
    """Returns the mean over axes; of integers as ``float64``, of half precision by single."""
    x = np.asarray(x)
    wanted = dtype or (x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64))
    between = np.dtype(np.float32) if wanted.char == "e" else wanted
    same = between == x.dtype and x.dtype.kind in "fc"
    total = sum(x, axis=axis, keepdims=keepdims, dtype=None if same else between)
    # The mean of no elements is NaN. 0 / 0 would be NaN with a warning, and so complex 0 / nan.
    count = prod(x.shape[a] for a in axis)
    out = total / count if count else total * math.nan
    return out if out.dtype == wanted else out.astype(wanted)


def var(x: Buffer, *, axis: Axes, keepdims: bool, ddof: float) -> Any:
    """Returns the mean squared distance from the mean over axes, of ``n - ddof`` numbers."""
    x = np.asarray(x)
    # As NumPy does, since squares of half precision soon overflow.
    wide = x.astype(np.float32) if x.dtype.char == "e" else x
    apart = np.asarray(wide - mean(wide, axis=axis, keepdims=True))
    if apart.dtype.kind == "c":
        squares = sum(apart.real**2 + apart.imag**2, axis=axis, keepdims=keepdims)
    elif axis == (x.ndim - 1,):
        squares = np.vecdot(apart, apart)
        squares = squares[..., None] if keepdims else squares
    else:
        squares = sum(np.square(apart, out=apart), axis=axis, keepdims=keepdims)
    freedom = prod(x.shape[a] for a in axis) - ddof
    with quiet():
        out = squares / (freedom if freedom > 0 else 0)
    return out.astype(x.dtype) if x.dtype.char == "e" else out


def max(x: Buffer, *, axis: Axes, keepdims: bool) -> Any:
    """Returns the maximum over axes."""
    return reduced_extremum(np.maximum, x, axis, keepdims)


def min(x: Buffer, *, axis: Axes, keepdims: bool) -> Any:
    """Returns the minimum over axes."""
    return reduced_extremum(np.minimum, x, axis, keepdims)


def reduced_extremum(ufunc: np.ufunc, x: Buffer, axis: Axes, keepdims: bool, **initial: Any) -> Any:
    """Returns the maximum or the minimum over axes."""
    if (
        type(x) is np.ndarray
        and x.size >= FEWEST_ELEMENTS_BY_BLAS
        and len(axis) == 1
        and x.flags.c_contiguous
    ):
        (a,) = axis
        length = x.shape[a]
        out = None
        if a == x.ndim - 1 and 1 < length <= LONGEST_SHORT_ROW:
            out = _down(ufunc, x.reshape(-1, length).T.copy())
        elif a == 0 and x.ndim > 1 and x.size // length < INNER_LOOP_LENGTH // 2:
            out = _down(ufunc, x.reshape(length, -1))
        if out is not None:
            shape = x.shape[:a] + (1,) * keepdims + x.shape[a + 1 :]
            return out.reshape(shape)
    return ufunc.reduce(x, axis=axis, keepdims=keepdims, **initial)


def _down(ufunc: np.ufunc, x: Buffer) -> Any:
    """Reduces the first axis of a contiguous matrix, several rows at a time if they are short."""
    rows, width = x.shape
    together = INNER_LOOP_LENGTH // width
    if together < 2 or rows < 2 * together:
        return ufunc.reduce(x, axis=0)
    whole = rows - rows % together
    out = ufunc.reduce(x[:whole].reshape(-1, together * width), axis=0)
    out = ufunc.reduce(out.reshape(together, width), axis=0)
    return ufunc(out, ufunc.reduce(x[whole:], axis=0)) if whole < rows else out


def _exponentials(x: Buffer, axis: Axes) -> tuple[Any, Any, Any, Any]:
    """Returns ``exp(x - shift)``, its sums over axes, the shift, and x, all with kept axes.

    The shift is None where exp neither overflows nor vanishes without one, which saves finding the
    maximum of every row. Otherwise it is the maximum. If that is infinite, x comes back with 0
    for it and -inf for all else, which has the limit as its softmax.
    """
    if x.size >= FEWEST_ELEMENTS_BY_BLAS:
        most, least = safe_exponents(x.dtype)
        if largest_number(x, axis=None) <= most:
            powers = np.exp(x)
            sums = sum(powers, axis=axis, keepdims=True)
            if smallest(sums, axis=None) >= least:
                return powers, sums, None, x
    shift = reduced_extremum(np.maximum, x, axis, True, initial=-np.inf)
    finite = np.isfinite(shift)
    if finite.all():
        powers = np.subtract(x, shift)
    else:
        x = np.where(shift == np.inf, np.where(x == np.inf, 0, -np.inf).astype(x.dtype), x)
        powers = np.subtract(x, np.where(finite, shift, 0))
    powers = np.exp(powers, out=powers) if powers.ndim else np.exp(powers)
    return powers, sum(powers, axis=axis, keepdims=True), shift, x


def _back(out: Buffer, x: Buffer) -> Buffer:
    """Returns a result as a scalar if it has no axes, in half precision if the argument was."""
    out = np.asarray(out)
    if getattr(x, "dtype", None) == np.float16:
        out = out.astype(np.float16)
    return out if out.ndim else out[()]


def softmax(x: Buffer, *, axis: Axes) -> Buffer:
    """Returns ``exp(x)`` over its sum along axes."""
    with quiet():
        powers, sums, _, _ = _exponentials(inexact(x), axis)
        if powers.ndim:
            powers /= sums
        else:
            powers = powers / sums
    return _back(powers, x)


def softmax_grad(g: Buffer, ans: Buffer, *, axis: Axes) -> Any:
    """Returns ``ans * (g - sum(g * ans))``."""
    out = np.multiply(g, ans)
    sums = sum(out, axis=axis, keepdims=True)
    if not out.ndim:
        return (g - sums) * ans
    np.subtract(g, sums, out=out)
    out *= ans
    return out


def logsumexp(x: Buffer, *, axis: Axes, keepdims: bool) -> Buffer:
    """Returns the logarithm of the sum of ``exp(x)``."""
    with quiet():
        values = inexact(x)
        _, sums, shift, _ = _exponentials(values, axis)
        out = np.log(sums)
        if shift is not None:
            out = out + shift
    if not keepdims:
        out = np.asarray(out).reshape([n for i, n in enumerate(values.shape) if i not in axis])
    return _back(out, x)


def log_softmax(x: Buffer, *, axis: Axes) -> Buffer:
    """Returns ``x - logsumexp(x)``."""
    with quiet():
        values = inexact(x)
        powers, sums, shift, values = _exponentials(values, axis)
        # The memory of the exponentials takes the result.
        into = powers if type(powers) is np.ndarray else None
        if shift is None:
            out = np.subtract(values, np.log(sums), out=into)
            # Rounding may leave a little more than the logarithm of 1. It seldom does.
            if not out.max() <= 0:
                np.minimum(out, 0, out=out)
        else:
            out = np.subtract(values, np.where(np.isfinite(shift), shift, 0), out=into)
            out = np.subtract(out, np.log(sums), out=into)
    return _back(out, x)
