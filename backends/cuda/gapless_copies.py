"""Copies of arrays whose elements lie one behind the other."""

from __future__ import annotations

import cupy
import numpy as np
from cupy import ndarray

from .launch import WIDEST_LOAD_BYTES, is_contiguous

__all__ = ["gapless", "wide_array"]

# Copies move elements of this type, of as many bytes as a thread loads at once.
WIDEST = np.dtype(np.complex128)


def gapless(x: ndarray) -> ndarray:
    """Returns an array whose elements lie one behind the other: the same one, or a copy.

    Rows that are whole wide loads are copied by these.
    """
    if is_contiguous(x):
        return x
    *steps, last = x.strides
    length = x.shape[-1] * x.itemsize
    if last != x.itemsize or any(
        number % WIDEST_LOAD_BYTES for number in (length, x.data.ptr, *steps)
    ):
        return cupy.ascontiguousarray(x)
    shape = (*x.shape[:-1], length // WIDEST_LOAD_BYTES)
    wide = ndarray(shape, WIDEST, x.data, (*steps, WIDEST_LOAD_BYTES))
    return ndarray(x.shape, x.dtype, cupy.ascontiguousarray(wide).data)


def wide_array(x: ndarray) -> ndarray:
    """Returns an array without gaps that begins where wide loads may."""
    x = gapless(x)
    return x.copy() if x.data.ptr % WIDEST_LOAD_BYTES else x
