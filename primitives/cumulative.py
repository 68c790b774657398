"""Running sums and products."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .errors import refuse_out
from .families import along
from .registry import registry as ops
from .rules import shape_of
from .samples import Sample
from .types import canonical_axis, number_dtype

__all__ = ["cumprod", "cumsum", "shift"]


def _flattened(x: Any, axis: int | None) -> tuple[Any, int]:
    """Returns an operand and an axis of it; without an axis all elements lie along one."""
    if axis is None:
        return ops.reshape(x, -1), 0
    return x, canonical_axis(axis, len(shape_of(x)))


def _cumsum_arguments(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
) -> Any:
    if out is not None:
        refuse_out("cumsum", out)
    x, axis = _flattened(a, axis)
    dtype = None if dtype is None else number_dtype(dtype)
    return (x,), {"axis": axis, "dtype": dtype, "reverse": bool(reverse)}


def _cumsum(xp: Any, x: Any, *, axis: int, dtype: Any, reverse: bool) -> Any:
    if not reverse:
        return xp.cumsum(x, axis=axis, dtype=dtype)
    return xp.flip(xp.cumsum(xp.flip(x, axis), axis=axis, dtype=dtype), axis)


def _samples(*flags: str) -> list[Sample]:
    """Every axis, and with it every combination of flags."""
    shapes = [((4,), 0), ((2, 3), 1), ((3, 2, 2), 0), ((0, 3), 0), ((2, 0), 0), ((1,), 0)]
    chosen = [dict(zip(flags, on)) for on in product((False, True), repeat=len(flags))]
    return [
        Sample(shape, axis=axis, dtype=None, **options)
        for options in chosen
        for shape, axis in shapes
    ]


OPTIONS = {
    "a": "an array.",
    "axis": "along which axis; None flattens the array first.",
    "dtype": "the result's dtype; None for a's own (integers: int64).",
    "out": "None; arrays are immutable.",
    "reverse": "whether to start at the end.",
}
RETURNS = "An array of a's shape, flat where ``axis`` is None."


def _reference(function: Any, first: float) -> Any:
    """Returns NumPy's function, which knows nothing of the other end or of a late start."""

    def reference(
        x: Any, axis: int, dtype: Any, reverse: bool, exclusive: bool = False
    ) -> Any:
        out = function(np.flip(x, axis) if reverse else x, axis=axis, dtype=dtype)
        if exclusive:
            out = np.roll(out, 1, axis)
            np.moveaxis(out, axis, 0)[:1] = first
        return np.flip(out, axis) if reverse else out

    return reference


cumsum = along(
    "cumsum",
    lambda g, *, axis, reverse: ops.cumsum(g, axis, reverse=not reverse),
    prepare=_cumsum_arguments,
    compute=_cumsum,
    linear=True,
    samples=_samples("reverse"),
    reference=_reference(np.cumsum, 0.0),
    dtypes="fdD",
    doc="Returns the sums of all elements up to each.",
    options=OPTIONS,
    returns=RETURNS,
    example="np.cumsum([1, 2, 3]) -> [1, 3, 6]",
)

# -- products. Their derivatives hold where elements are zero: nothing is divided.


def _shift_arguments(x: Any, by: int, axis: int = -1) -> Any:
    return (x,), {"by": int(by), "axis": canonical_axis(axis, len(shape_of(x)))}


def _shift(xp: Any, x: Any, *, by: int, axis: int) -> Any:
    out = xp.zeros_like(x)
    kept = x.shape[axis] - abs(by)
    if kept > 0:
        low, high = slice(0, kept), slice(abs(by), None)
        before = (slice(None),) * axis
        source, target = (low, high) if by > 0 else (high, low)
        out[(*before, target)] = x[(*before, source)]
    return out


def _shift_reference(x: Any, by: int, axis: int) -> Any:
    moved = np.moveaxis(x, axis, -1) @ np.eye(x.shape[axis], k=by, dtype=x.dtype)
    return np.moveaxis(moved, -1, axis)


shift = along(
    "shift",
    lambda g, *, by, axis: ops.shift(g, -by, axis),
    prepare=_shift_arguments,
    compute=_shift,
    linear=True,
    samples=[
        Sample((4,), by=1, axis=0),
        Sample((4,), by=-4, axis=0),
        Sample((2, 3), by=-1, axis=1),
        Sample((3, 2, 2), by=2, axis=0),
        Sample((2, 0), by=1, axis=0),
    ],
    reference=_shift_reference,
    dtypes="fdD",
    doc="Returns the elements moved along an axis; those that leave it are lost, zeros enter.",
    options={"by": "how far, to the front if negative.", "axis": "along which axis."},
)


def _cumprod_arguments(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    if out is not None:
        refuse_out("cumprod", out)
    (x,), params = _cumsum_arguments(a, axis, dtype, reverse=reverse)
    return (x,), {**params, "exclusive": bool(exclusive)}


def _cumprod(xp: Any, x: Any, *, axis: int, dtype: Any, reverse: bool, exclusive: bool) -> Any:
    x = xp.flip(x, axis) if reverse else x
    out = xp.cumprod(x, axis=axis, dtype=dtype)
    if exclusive:
        out = _shift(xp, out, by=1, axis=axis)
        out[(*(slice(None),) * axis, slice(0, 1))] = 1
    return xp.flip(out, axis) if reverse else out


def _recurrence(a: Any, b: Any, axis: int, step: int) -> Any:
    """Solves ``h[i] = b[i] + a[i] h[i - step]`` with 0 outside, in log2 of the length passes.

    After each pass b sums twice as many terms: G. E. Blelloch, "Prefix sums and their
    applications" (1990).
    """
    reach = 1
    while reach < shape_of(a)[axis]:
        b = b + a * ops.shift(b, step * reach, axis)
        a = a * ops.shift(a, step * reach, axis)
        reach *= 2
    return b


def _cumprod_vjp(g: Any, x: Any, *, axis: int, reverse: bool, exclusive: bool) -> Any:
    # Of element i: the product of all before it times s[i], which sums the cotangents of all
    # products that it is in, each with the product of the elements between.
    back = 1 if reverse else -1
    before = ops.cumprod(x, axis, reverse=reverse, exclusive=True)
    first = ops.shift(g, back, axis) if exclusive else g
    return before * _recurrence(ops.shift(x, back, axis), first, axis, back)


def _cumprod_jvp(t: Any, x: Any, *, axis: int, reverse: bool, exclusive: bool) -> Any:
    ahead = -1 if reverse else 1
    before = ops.cumprod(x, axis, reverse=reverse, exclusive=True)
    total = _recurrence(x, t * before, axis, ahead)
    return ops.shift(total, ahead, axis) if exclusive else total


cumprod = along(
    "cumprod",
    _cumprod_vjp,
    jvp=(_cumprod_jvp,),
    prepare=_cumprod_arguments,
    compute=_cumprod,
    samples=_samples("reverse", "exclusive"),
    reference=_reference(np.cumprod, 1.0),
    dtypes="fdD",
    doc="Returns the products of all elements up to each.",
    options={**OPTIONS, "exclusive": "whether each product leaves out its own element."},
    returns=RETURNS,
    example="np.cumprod([1, 2, 3]) -> [1, 2, 6]",
)
