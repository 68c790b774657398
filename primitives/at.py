"""``x.at[i].set(v)``: updates of immutable arrays."""

from __future__ import annotations

import dis
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from .errors import ImmutableArrayError, UnusedUpdateWarning, message
from .registry import registry as ops
from .rules import shape_of
from .types import INEXACT

__all__ = ["UPDATING", "At", "result_is_dropped"]

# Where array_api_extra updates arrays by index; libraries carry it within.
UPDATING = "array_api_extra._lib._at"


class At:
    """The ``at`` of an array: ``x.at[key]`` names the elements to update."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Update:
        return Update(self._array, key)


class Update:
    """Elements of an array about to be updated; every method returns a new array.

    Methods take the options that JAX's have. ``indices_are_sorted`` and ``unique_indices`` change
    nothing here. Indices out of bounds are an error, unless ``mode`` says that they are meant:
    "clip" takes the nearest element, "drop" and "fill" leave updates out and ``get`` a fill value.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Any, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self, *, fill_value: Any = None, **options: Any) -> Any:
        """Returns the elements; out of bounds a fill value, NaN or the least integer, if told."""
        mode = _mode(options)
        x, key = self._array, self._key
        if mode is not None:
            if fill_value is None:
                fill_value = _nothing(x.dtype)
            x, key = _brought_in(x, key, mode, fill_value)
        return ops.index(x, key)

    def set(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements replaced; of repeated indices the last wins."""
        return self._updated("set", values, options)

    def add(self, values: Any, **options: Any) -> Any:
        """Returns the array with values added; repeated indices add up."""
        return self._updated("add", values, options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """Returns the array with values subtracted; repeated indices add up."""
        return self._updated("subtract", values, options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements multiplied."""
        return self._updated("multiply", values, options)

    def divide(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements divided; by all values of repeated indices."""
        return self._updated("divide", values, options)

    def power(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements to a power; to all values of repeated indices."""
        return self._updated("power", values, options)

    def min(self, values: Any, **options: Any) -> Any:
        """Returns the array with the smaller of element and value."""
        return self._updated("min", values, options)

    def max(self, values: Any, **options: Any) -> Any:
        """Returns the array with the larger of element and value."""
        return self._updated("max", values, options)

    def apply(self, ufunc: Callable[[Any], Any], **options: Any) -> Any:
        """Returns the array with the elements replaced by what a function makes of them, once."""
        return self._updated("apply", ufunc, options)

    def _updated(self, kind: str, values: Any, options: dict[str, Any]) -> Any:
        mode = _mode(options)
        if __debug__ and result_is_dropped():
            warnings.warn(
                message(
                    f"the result of x.at[...].{kind}(...) is thrown away; x itself is unchanged",
                    fix=f"x = x.at[i].{kind}(value)",
                    number=3,
                ),
                UnusedUpdateWarning,
                stacklevel=3,
            )
        refuse_dropped(kind)
        x, key = self._array, self._key
        if mode is not None:
            # A one has finite powers, quotients and logarithms.
            x, key = _brought_in(x, key, mode, 1)
        if isinstance(values, list | tuple):
            values = ops.asarray(values, device=x.device)
        if kind == "subtract":
            kind, values = "add", ops.negative(values)
        elif kind == "apply":
            kind, values = "set", values(ops.index(x, key))
        elif kind in ("divide", "power"):
            # Divisors, and exponents, of repeated indices multiply.
            x = ops.divide(x, 1) if kind == "divide" else x  # integers become floats
            joint = ops.index_multiply(ops.ones_like(x), key, values)
            by = getattr(ops, kind)
            kind, values = "set", by(ops.index(x, key), ops.index(joint, key))
        out = ops.find(f"index_{kind}")(x, key, values)
        lengths = shape_of(self._array)
        if out.shape != lengths:
            out = ops.index(out, tuple([slice(length) for length in lengths]))
        return out


def _mode(options: dict[str, Any]) -> str | None:
    """Returns what is to become of indices out of bounds, None for an error."""
    unknown = set(options) - {"indices_are_sorted", "unique_indices", "mode"}
    if unknown:
        raise TypeError(f"x.at[i] has no option {sorted(unknown)[0]!r}")
    mode = options.get("mode")
    if mode in (None, "promise_in_bounds"):
        return None
    if mode not in ("clip", "drop", "fill"):
        raise ValueError(
            f"x.at[i]: mode={mode!r}: it is 'clip', 'drop', 'fill', or 'promise_in_bounds', with "
            "which indices out of bounds are an error"
        )
    return str(mode)


def _nothing(dtype: np.dtype[Any]) -> Any:
    """Returns what stands for elements that are not there."""
    if dtype.kind in INEXACT:
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _brought_in(x: Any, key: Any, mode: str, fill: Any) -> tuple[Any, Any]:
    """Returns an array and a key that has no index out of bounds.

    Unless they are clipped, such indices name an element appended to their axis.
    """
    lengths = shape_of(x)
    plain = (int, slice, type(None), type(Ellipsis))
    items = [
        item if isinstance(item, plain) else ops.asarray(item)
        for item in (key if isinstance(key, tuple) else (key,))
    ]
    spans = [_span(item) for item in items]
    appended = [0] * len(lengths)
    axis = 0
    for place, (item, span) in enumerate(zip(items, spans, strict=True)):
        if item is Ellipsis:
            axis += len(lengths) - sum(spans)
        elif _is_index(item) and axis < len(lengths):
            items[place] = _bounded(item, lengths[axis], mode)
            appended[axis] = int(mode != "clip")
        axis += span
    if any(appended):
        x = ops.pad(x, [(0, count) for count in appended], constant_values=fill)
    return x, tuple(items)


def _span(item: Any) -> int:
    """Returns how many axes an item of a key is about."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    is_mask = not isinstance(item, int | slice) and item.dtype.kind == "b"
    return len(item.shape) if is_mask else 1


def _is_index(item: Any) -> bool:
    """Says whether an item of a key is an integer, or an array of integers."""
    if isinstance(item, int):
        return not isinstance(item, bool)
    return getattr(item, "dtype", np.dtype(bool)).kind in "iu"


def _bounded(index: Any, length: int, mode: str) -> Any:
    if isinstance(index, int):
        index = index + length if index < 0 else index
        if mode == "clip":
            return min(max(index, 0), length - 1)
        return index if 0 <= index < length else length
    index = ops.astype(index, np.intp)
    index = ops.where(ops.less(index, 0), ops.add(index, length), index)
    if mode == "clip":
        return ops.clip(index, 0, length - 1)
    outside = ops.logical_or(ops.less(index, 0), ops.greater_equal(index, length))
    return ops.where(outside, length, index)


def result_is_dropped() -> bool:
    """Says whether the caller's caller pops the result that it is waiting for."""
    return drops(sys._getframe(3))


def refuse_dropped(kind: str) -> None:
    """Refuses an update by array_api_extra, for which a library has no use.

    Of NumPy's arrays it changes the array itself, so that code written for these may be right.

    Raises:
        ImmutableArrayError: the library throws away what array_api_extra returns.
    """
    frame: FrameType | None = sys._getframe(3)
    module: str = frame.f_globals.get("__name__", "") if frame is not None else ""
    if not module.endswith(UPDATING):
        return
    while frame is not None and frame.f_globals.get("__name__", "") == module:
        frame = frame.f_back
    if frame is not None and drops(frame):
        code = frame.f_code
        raise ImmutableArrayError(
            message(
                f"{code.co_name} ({frame.f_globals.get('__name__', '')}, line {frame.f_lineno}) "
                f"throws away what at(x, i).{kind}(...) returns, but arrays are immutable: x "
                "itself is unchanged",
                fix="call it with NumPy's arrays, or with xp=numpy, and np.asarray the result",
                number=3,
            )
        )


def drops(frame: FrameType) -> bool:
    """Says whether a frame pops the result of the call that it is at."""
    code = frame.f_code.co_code
    position = frame.f_lasti + 2
    while position < len(code) and dis.opname[code[position]] == "CACHE":
        position += 2
    return position < len(code) and dis.opname[code[position]] == "POP_TOP"
