"""Numbers as integers of the same order, so that NaN has a place in it.

The bits of a float, read as an integer, are in the order of floats where the sign is clear, and
in the opposite one where it is set: there all other bits are turned over. NaN stands behind
infinity where the largest is looked for, and before minus infinity where the smallest is.
"""

from __future__ import annotations

from typing import Any

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
    words = xp.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(words)
    turned = turned_over(xp, bits)
    extreme = xp.iinfo(words).max if nan_last else xp.iinfo(words).min
    return xp.where(x != x, words.type(extreme), turned)


def from_ordered(xp: Any, ordered: Any, dtype: Any) -> Any:
    """Returns the numbers of integers that `to_ordered` made."""
    if dtype.kind == "b":
        return ordered.view(bool)
    if dtype.kind in "iu":
        return ordered
    limits = xp.iinfo(ordered.dtype)
    is_nan = (ordered == limits.max) | (ordered == limits.min)
    return xp.where(is_nan, dtype.type("nan"), turned_over(xp, ordered).view(dtype))


def turned_over(xp: Any, bits: Any) -> Any:
    """Returns integers with all bits but the sign turned over where the sign is set."""
    return xp.where(bits < 0, bits ^ xp.iinfo(bits.dtype).max, bits)
