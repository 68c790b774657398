"""Compares constants of programs, and finds those that are one number repeated."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.buffers import WEAK_TYPES
from ..programs.program import Variable

if TYPE_CHECKING:
    from ..backends.annotations import Buffer
    from ..primitives.core.annotations import Value

__all__ = ["LARGEST_COMPARED_BYTES", "constant_buffer", "constant_key", "uniform_value"]

# Up to this many bytes constants are compared by their values.
LARGEST_COMPARED_BYTES = 1 << 14
# So many elements of a larger one mostly tell that not all are the same.
SAMPLED_ELEMENTS = 100
WORD_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def constant_buffer(x: Value) -> Any:
    """Returns the raw buffer of a constant."""
    return x._data if type(x) is Array else x


def constant_key(x: Any) -> Hashable:
    """Returns a key that two operands share if they are the same, and only then.

    Zeros of different signs differ and NaN is the same as NaN. Arrays that are not small are told
    apart by their identity.
    """
    if type(x) is Variable:
        return x
    if type(x) in WEAK_TYPES:
        return type(x), repr(x)
    buffer = constant_buffer(x)
    if isinstance(buffer, np.ndarray | np.generic) and buffer.nbytes <= LARGEST_COMPARED_BYTES:
        return buffer.dtype, buffer.shape, buffer.tobytes()
    return id(buffer)


def uniform_value(x: Value) -> Any:
    """Returns the NumPy scalar that all elements of a constant are; None where they differ.

    >>> uniform_value(np.ones((2, 3), np.float32))
    np.float32(1.0)
    """
    buffer = constant_buffer(x)
    if isinstance(buffer, np.generic):
        return buffer
    if type(buffer) is not np.ndarray or not buffer.size:
        return None
    first = buffer[(slice(0, 1),) * buffer.ndim]
    steps = [step for step, n in zip(buffer.strides, buffer.shape, strict=True) if n > 1]
    if any(steps) and not _all_bits_are(first, buffer):
        return None
    return first.reshape(())[()]


def _all_bits_are(first: np.generic | Buffer, buffer: Buffer) -> bool:
    """Says whether all elements have the bits of the first, looking at a few before all."""
    if buffer.nbytes <= LARGEST_COMPARED_BYTES:
        return bool(buffer.tobytes() == first.tobytes() * buffer.size)
    bits = WORD_DTYPES.get(buffer.dtype.itemsize)
    if bits is None or not buffer.flags.c_contiguous:
        return False
    words, word = buffer.reshape(-1).view(bits), first.reshape(-1).view(bits)[0]
    return bool((words[:: words.size // SAMPLED_ELEMENTS] == word).all() and (words == word).all())
