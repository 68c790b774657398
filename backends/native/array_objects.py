"""The places in array objects where NumPy holds the address of elements, for machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = [
    *("CONTIGUOUS_AND_ALIGNED", "FLAGS_OFFSET", "OBJECT_HEADER", "is_known", "never_freed"),
    *("memory_loads", "word_of"),
]

# The address of the elements stands behind the header that all objects have: 16 bytes, or 32 in a
# build of Python without a global lock. Flags stand behind six more words.
OBJECT_HEADER = object.__basicsize__
FLAGS_OFFSET = OBJECT_HEADER + 6 * 8
CONTIGUOUS_AND_ALIGNED = 0x1 | 0x100


@cache
def is_known() -> bool:
    """Says whether array objects of this NumPy hold both where they are looked for."""
    whole = np.arange(12.0).reshape(3, 4)
    samples = [whole, whole.T, whole[1:, 1], np.zeros(()), np.zeros((0, 3)), whole[::-1]]
    odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    for x in (*samples, odd):
        data = word_of(x, OBJECT_HEADER)
        flags = ctypes.c_int32.from_address(id(x) + FLAGS_OFFSET).value
        wanted = (0x1 if x.flags.c_contiguous else 0) | (0x100 if x.flags.aligned else 0)
        if data != x.__array_interface__["data"][0] or flags & CONTIGUOUS_AND_ALIGNED != wanted:
            return False
    return True


def never_freed(array: Any) -> Any:
    """Returns an array whose memory lasts until the process ends, longer than all modules do."""
    keep = getattr(getattr(ctypes, "pythonapi", None), "Py_IncRef", None)
    if keep is not None:
        keep(ctypes.py_object(array))
    return array


def word_of(array: Any, offset: int) -> int | None:
    """Returns a word of an array object."""
    return ctypes.c_void_p.from_address(id(array) + offset).value


def memory_loads(count: int, arguments: Sequence[int] = ()) -> str:
    """Returns the lines of a function that load the memories of its array objects.

    Args:
        count: how many objects ``%objects`` leads to; their memories are ``%data0`` and so on.
        arguments: the numbers of memories that are stored where ``%arguments`` leads to.
    """
    lines = []
    for i in range(count):
        lines += [
            f"  %object{i}_place = getelementptr ptr, ptr %objects, i64 {i}",
            f"  %object{i} = load ptr, ptr %object{i}_place, align 8",
            f"  %data{i}_place = getelementptr i8, ptr %object{i}, i64 {OBJECT_HEADER}",
            f"  %data{i} = load ptr, ptr %data{i}_place, align 8",
        ]
    for i, number in enumerate(arguments):
        lines += [
            f"  %argument{i} = getelementptr ptr, ptr %arguments, i64 {i}",
            f"  store ptr %data{number}, ptr %argument{i}, align 8",
        ]
    return "\n".join(lines)
