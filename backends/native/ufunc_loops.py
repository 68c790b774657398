"""The addresses of NumPy's own loops over elements and matrices, which machine code calls.

Where they stand in a ufunc is public in C (``PyUFuncObject``). `has_known_words` proves on each
ufunc that the words around them are what they should be.
"""

from __future__ import annotations

import ctypes

import numpy as np

from .array_objects import OBJECT_HEADER

__all__ = ["address_of_loop"]

# Where the words of a ufunc stand behind the header of its object: numbers of operands and of
# loops, and the addresses of loops, of their data and of the numbers of their dtypes.
NIN, NOUT, NARGS, LOOP_ADDRESSES, DATA, NTYPES, LOOP_DTYPES = 0, 4, 8, 16, 24, 32, 48


def address_of_loop(ufunc: np.ufunc, chars: str) -> tuple[int, int] | None:
    """Returns the addresses of a ufunc's loop and of the loop's data; None where it has none.

    Args:
        ufunc: one of NumPy's.
        chars: the letters of the dtypes of its operands and of its result.
    """
    shown = f"{chars[: ufunc.nin]}->{chars[ufunc.nin :]}"
    if shown not in ufunc.types or not has_known_words(ufunc):
        return None
    place = 8 * ufunc.types.index(shown)
    begin = id(ufunc) + OBJECT_HEADER
    loops, data = (word_at(begin + offset) for offset in (LOOP_ADDRESSES, DATA))
    loop = word_at(loops + place) if loops else 0
    # Loops of another kind may have none of this one.
    return (loop, word_at(data + place) if data else 0) if loop else None


def has_known_words(ufunc: np.ufunc) -> bool:
    """Says whether the words of a ufunc stand where they are looked for."""
    begin = id(ufunc) + OBJECT_HEADER
    numbers = {NIN: ufunc.nin, NOUT: ufunc.nout, NARGS: ufunc.nargs, NTYPES: ufunc.ntypes}
    if type(ufunc) is not np.ufunc or any(
        ctypes.c_int32.from_address(begin + offset).value != number
        for offset, number in numbers.items()
    ):
        return False
    codes = [np.dtype(char).num for shown in ufunc.types for char in shown.replace("->", "")]
    return ctypes.string_at(word_at(begin + LOOP_DTYPES), len(codes)) == bytes(codes)


def word_at(address: int) -> int:
    """Returns a word of memory."""
    return ctypes.c_void_p.from_address(address).value or 0
