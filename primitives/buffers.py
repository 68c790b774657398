"""Raw buffers, and the arrays that hold them at the public face."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import Array, Tracer
from .errors import OperandError

__all__ = ["BUFFER_TYPES", "WEAK_TYPES", "as_array", "expose", "to_buffer", "wrap"]

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


def to_buffer(x: Any) -> Any:
    """Returns the raw buffer of an operand: an array, a NumPy array or scalar, a number, a list.

    Raises:
        EscapedTracerError: it is a tracer of a transformation that has ended.
        OperandError: it is nothing that holds numbers.
    """
    if type(x) in BUFFER_TYPES:
        return x
    if type(x) is Array:
        return x._data
    if isinstance(x, Tracer):
        return x.trace.leave(x)
    if isinstance(x, list | tuple | range):
        if any(isinstance(item, Tracer) and not item.trace.standing for item in x):
            raise OperandError(f"a list of traced values is no array: np.stack({x!r:.60})")
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


def as_array(x: Any) -> Any:
    """Returns one of the facade's tensors as the array that it holds, and all else as it is."""
    return wrap(x.value) if isinstance(x, Tracer) and x.trace.standing else x
