"""Numbers as integers of the same order, so that NaN has a place in it.

The bits of a float, read as an integer, are in the order of floats where the sign is clear, and
in the opposite one where it is set: there all other bits are turned over. NaN stands behind
infinity where the largest is looked for, and before minus infinity where the smallest is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["from_ordered", "to_ordered"]


def to_ordered(xp: Any, x: Any, nan_last: bool) -> Any:
    """Returns integers in the order of real numbers.

    Args:
        xp: the array module.
        x: its array of floats, integers or truth values.
        nan_last: whether NaN is the largest number, and not the smallest.
    """
    kind = x.dtype.kind
    if kind == "b":
        return x.view(xp.uint8)
    if kind in "iu":
        return x
    words = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(words)
    limits = np.iinfo(words)
    is_nan = (bits & words.type(limits.max)) > bits_of("inf", x.dtype)
    place = words.type(limits.max if nan_last else limits.min)
    return xp.where(is_nan, place, turned_over(xp, bits))


def from_ordered(xp: Any, ordered: Any, dtype: Any) -> Any:
    """Returns the numbers of integers that `to_ordered` made."""
    if dtype.kind == "b":
        return ordered.view(bool)
    if dtype.kind in "iu":
        return ordered
    limits = np.iinfo(ordered.dtype)
    is_nan = (ordered == limits.max) | (ordered == limits.min)
    return xp.where(is_nan, bits_of("nan", dtype), turned_over(xp, ordered)).view(dtype)


def bits_of(number: str, dtype: Any) -> Any:
    """Returns the bits of infinity or NaN in a dtype, as a signed integer."""
    return np.array(float(number)).astype(dtype).view(f"i{dtype.itemsize}")[()]


def turned_over(xp: Any, bits: Any) -> Any:
    """Returns integers with all bits but the sign turned over where the sign is set."""
    return xp.where(bits < 0, bits ^ bits.dtype.type(np.iinfo(bits.dtype).max), bits)
