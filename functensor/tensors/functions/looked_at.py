"""Checks of values, where they can be looked at without waiting: on the CPU, if they are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...primitives.core.array import Array, Tracer
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import finfo

__all__ = [
    "all_differ",
    "check_argument_of_draw",
    "check_between",
    "check_divisor",
    "check_integers",
    "check_mask",
    "check_not_negative",
    "check_places",
    "integers_of",
    "with_masks",
    "with_numbers",
]  # fmt: skip

# What has no dtype of its own, and is no integer.
NO_INTEGER = np.dtype(np.float64)


def _values_at_hand(x: Any) -> Any:
    """Returns a tensor's values as an array of NumPy's; None on a GPU or where they are unknown."""
    while isinstance(x, Tracer) and not x.lazy and x.concrete:
        x = x.value
    if type(x) is Array:
        x = x._data
    return x if isinstance(x, np.ndarray | np.generic) and x.size else None


def with_numbers(key: Any) -> Any:
    """Returns an index with numbers in place of integers in tensors without axes that are known."""
    if type(key) is tuple:
        return tuple(map(with_numbers, key))
    if not isinstance(key, Array) or key.ndim or key.dtype.kind not in "iu":
        return key
    value = _values_at_hand(key)
    return key if value is None else int(value)


def all_differ(x: Any, value: int) -> bool:
    """Says whether no element is a number, as far as that is known."""
    values = _values_at_hand(x)
    return values is not None and not (values == value).any()


def check_places(name: str, index: Any) -> None:
    """Raises an ``IndexError`` for an index below 0, which PyTorch does not count from the end."""
    values = _values_at_hand(index)
    if values is not None and values.dtype.kind == "i" and values.min() < 0:
        raise IndexError(f"{name}: the index {values.min()} is negative; places count from 0")


def check_between(name: str, x: Any, low: float, high: float, error: type[Exception]) -> None:
    """Raises an error for values outside of an interval, or not finite."""
    values = _values_at_hand(x)
    if values is None:
        return
    least, most = values.min(), values.max()
    if not (low <= least and most <= high and np.isfinite(most)):
        bounds = f"at least {low}, and finite" if high == np.inf else f"from {low} to {high}"
        raise error(f"{name} is {bounds}, not from {least} to {most}")


def check_argument_of_draw(
    name: str, x: Any, low: float = 0, high: float = np.inf, above: bool = False
) -> None:
    """Raises a ``RuntimeError`` for a parameter outside of an interval, or NaN.

    Args:
        name: what messages call it.
        x: a number, or a tensor, whose values are looked at if they are at hand.
        low, high: the ends, which it may be.
        above: whether it may not be the lower end.
    """
    values = np.asarray(x) if isinstance(x, int | float | np.generic) else _values_at_hand(x)
    if values is not None and not (
        ((values > low) if above else (values >= low)) & (values <= high)
    ).all():
        words = f"above {low}" if above else f"at least {low}"
        end = "" if high == np.inf else f" and at most {high}"
        raise RuntimeError(f"{name} is {words}{end}, not {x}")


def integers_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Returns the first and the last integer up to which a dtype has all."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    last = 1 if dtype.kind == "b" else 2 ** (finfo(dtype).nmant + 1)
    return (0 if dtype.kind == "b" else -last), last


def check_integers(name: str, dtype: np.dtype[Any], low: int, high: int) -> None:
    """Raises a ``RuntimeError`` where a dtype has not all integers from low to before high."""
    least, most = integers_of(dtype)
    if dtype.kind in "iub" and (low < least or high - 1 > most):
        raise RuntimeError(f"{name}: {dtype} has not all integers from {low} to {high - 1}")


def check_divisor(name: str, x: Any, y: Any) -> None:
    """Raises a ``RuntimeError`` where integers are divided by zero."""
    if not all(isinstance(a, int) or getattr(a, "dtype", NO_INTEGER).kind in "iub" for a in (x, y)):
        return
    values = y if isinstance(y, int) else _values_at_hand(y)
    if values is not None and not np.all(values):
        raise RuntimeError(f"{name}: integers divided by zero; x.float() has infinities")


def check_not_negative(name: str, x: Any) -> None:
    """Raises a ``ValueError`` for negative numbers; infinities and NaN are none."""
    values = _values_at_hand(x)
    if values is not None and (values < 0).any():
        raise ValueError(f"{name} is not negative, but has {values.min()}")


def check_mask(name: str, mask: Any) -> None:
    """Raises a ``RuntimeError`` for a mask that is not of booleans."""
    dtype = getattr(mask, "dtype", None)
    if dtype is not None and dtype.kind != "b":
        raise RuntimeError(f"{name}: a mask is of booleans, not {dtype}; mask.bool() makes one")


def with_masks(key: Any) -> Any:
    """Returns an index in which tensors of uint8 are masks, as in PyTorch."""
    if type(key) is tuple:
        return tuple([with_masks(part) for part in key])
    masks = isinstance(key, Array) and key.dtype == np.uint8 and key.shape
    return ops.not_equal(key, 0) if masks else key
