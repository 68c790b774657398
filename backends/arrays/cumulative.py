"""Running sums, products and linear recurrences, by any array module's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..restoring import quiet

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer, DType

__all__ = ["cumprod", "cumsum", "linear_recurrence", "shift"]


def cumsum(xp: ArrayModule, x: Buffer, *, axis: int, dtype: DType, reverse: bool) -> Buffer:
    """Returns the sums of all elements up to each."""
    if not reverse:
        return xp.cumsum(x, axis=axis, dtype=dtype)
    return xp.flip(xp.cumsum(xp.flip(x, axis), axis=axis, dtype=dtype), axis)


def cumprod(
    xp: ArrayModule, x: Buffer, *, axis: int, dtype: DType, reverse: bool, exclusive: bool
) -> Buffer:
    """Returns the products of all elements up to each, or of those before it."""
    x = xp.flip(x, axis) if reverse else x
    out = xp.cumprod(x, axis=axis, dtype=dtype)
    if exclusive:
        out = shift(xp, out, by=1, axis=axis)
        out[(*(slice(None),) * axis, slice(0, 1))] = 1
    return xp.flip(out, axis) if reverse else out


def shift(xp: ArrayModule, x: Buffer, *, by: int, axis: int) -> Buffer:
    """Returns the elements moved along an axis; those that leave it are lost, zeros enter."""
    out = xp.zeros_like(x)
    kept = x.shape[axis] - abs(by)
    if kept > 0:
        low, high = slice(0, kept), slice(abs(by), None)
        before = (slice(None),) * axis
        source, target = (low, high) if by > 0 else (high, low)
        out[(*before, target)] = x[(*before, source)]
    return out


def linear_recurrence(xp: ArrayModule, a: Buffer, b: Buffer, *, axis: int, reverse: bool) -> Buffer:
    """Solves ``h[i] = b[i] + a[i] h[i - 1]`` with 0 outside, in log2 of the length passes.

    After each pass b sums twice as many terms: G. E. Blelloch, "Prefix sums and their
    applications" (1990).
    """
    out = xp.array(b, dtype=xp.result_type(a, b))
    factors = xp.array(a)
    before = (slice(None),) * axis
    reach = 1
    with quiet():
        while reach < a.shape[axis]:
            low, high = (*before, slice(None, -reach)), (*before, slice(reach, None))
            source, target = (high, low) if reverse else (low, high)
            out[target] += factors[target] * out[source]
            factors[target] = factors[target] * factors[source]
            reach *= 2
        # A product of several factors may be infinite, or zero and then NaN, where no step's is.
        if xp is np and out.dtype.kind in "fc" and not np.isfinite(out).all():
            return recurrence_step_by_step(a, b, out, axis, reverse)
    return out


def recurrence_step_by_step(a: Buffer, b: Buffer, out: Buffer, axis: int, reverse: bool) -> Buffer:
    """Solves the recurrence step by step into an array, by NumPy."""
    a, b, lines = (np.moveaxis(x, axis, 0) for x in (a, b, out))
    order = range(len(lines))[::-1] if reverse else range(len(lines))
    for i, place in enumerate(order):
        lines[place] = b[place] + a[place] * lines[order[i - 1]] if i else b[place]
    return out
