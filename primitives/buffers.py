"""Raw buffers, and the arrays that hold them at the public face."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import Array, Tracer
from .errors import OperandError

__all__ = [
    "BUFFER_TYPES",
    "WEAK_TYPES",
    "TracedListError",
    "as_array",
    "expose",
    "holds_array",
    "owned",
    "to_buffer",
    "wrap",
]

new = object.__new__

# Python's scalars: as operands they are weak and do not decide a promotion.
WEAK_TYPES = frozenset({float, int, bool, complex})

# What may stand as a raw buffer: arrays, NumPy's scalars, and Python's (which stay weak).
BUFFER_TYPES = frozenset(
    WEAK_TYPES | {np.ndarray} | {np.dtype(c).type for c in "?bBhHiIlLqQefdgFDG"}
)


def wrap(buffer: Any) -> Any:
    """Returns a raw buffer as an ``Array``; what is one already, or a tracer, as it is."""
    if isinstance(buffer, Array):
        return buffer
    out = new(Array)
    out._data = np.asarray(buffer)[()] if type(buffer) in WEAK_TYPES else buffer
    return out


def expose(value: Any) -> Any:
    """Returns a value of any level as a user's function sees it: Python scalars stay weak."""
    return value if value is None or type(value) in WEAK_TYPES else wrap(value)


class TracedListError(OperandError):
    """A list of traced values has no buffer: it is to be joined by a primitive first."""


def holds_array(items: Any, kind: type = Array) -> bool:
    """Says whether nested lists hold an array, so that NumPy alone cannot join them."""
    types = set(map(type, items))
    if types <= BUFFER_TYPES:
        return False
    return any(issubclass(t, kind) for t in types) or any(
        isinstance(item, list | tuple) and holds_array(item, kind) for item in items
    )


def to_buffer(x: Any) -> Any:
    """Returns the raw buffer of an operand: an array, a NumPy array or scalar, a number, a list.

    Raises:
        EscapedTracerError: it is a tracer of a transformation that has ended.
        OperandError: it is nothing that holds numbers.
        TracedListError: it is a list with traced values.
    """
    if type(x) in BUFFER_TYPES:
        return x
    if type(x) is Array:
        return x._data
    if isinstance(x, Tracer):
        return x.owner.leave(x)
    if isinstance(x, list | tuple | range):
        if holds_array(x):
            if any(isinstance(item, Tracer) and not item.owner.standing for item in x):
                raise TracedListError(f"a list of traced values is no array: np.stack({x!r:.60})")
            return np.asarray([np.asarray(to_buffer(item)) for item in x])
        buffer = np.asarray(x)
        if buffer.dtype.kind == "O":
            buffer = np.asarray([np.asarray(to_buffer(item)) for item in x])
    elif isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        buffer = np.asarray(x)
    elif hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        buffer = np.from_dlpack(x) if hasattr(x, "__dlpack__") else np.asarray(x)
    elif hasattr(x, "__float__"):
        # Numbers of the standard library: fractions, decimals.
        return float(x)
    else:
        raise OperandError(f"expected an array or a number, got {type(x).__name__}: {x!r:.60}")
    if buffer.dtype.kind not in "?biufc":
        raise OperandError(f"arrays hold numbers, not dtype {buffer.dtype}: {x!r:.60}")
    return buffer


def owned(x: Any) -> Any:
    """Returns a NumPy array, which its owner may change later, as a copy; all else as it is.

    For what a derivative keeps from one call for the next.
    """
    return x.copy() if type(x) is np.ndarray else x


def as_array(x: Any) -> Any:
    """Returns one of the facade's tensors as the array that it holds, and all else as it is."""
    return wrap(x.value) if isinstance(x, Tracer) and x.owner.standing else x
