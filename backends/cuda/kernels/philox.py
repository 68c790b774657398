"""Random bits, the same as NumPy's backend draws, and dropout by them: one launch each.

A key may be an array on the host: its words then go to the kernel by value.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Buffer, Shape
from ...arrays.philox import WORD_VALUES, dropped
from ..launch import BLOCK_THREADS, Kernel, c_type

__all__ = ["PHILOX_FUNCTIONS", "dropout", "key_words", "random_bits"]

BLOCK_BITS = 256
# Elements that one block of four words decides on.
DECIDED = 8

BIT_WORD_TYPES = ("unsigned char", "unsigned short", "unsigned int", "unsigned long long")
RANDOM_BITS = Kernel("philox", "bits", "ppplllllll", BIT_WORD_TYPES)
DROPOUT = Kernel("philox", "dropout", "ppplllllld", ("half_t", "bfloat16_t", "float", "double"))


def random_bits(
    key: ndarray | Buffer, start: ndarray | Buffer, *, shape: Shape, bits: int, stream: int
) -> ndarray:
    """Returns words of random bits, for every key its own: see ``backends/arrays/philox.py``."""
    batch = key.shape[:-1]
    rows, length = prod(batch), prod(shape)
    out = cupy.ndarray((*batch, *shape), np.dtype(f"uint{bits}"))
    if out.size:
        keys, low, high = key_words(key, 2)
        starts, first, _ = key_words(start, 1)
        blocks = -(-length * bits // BLOCK_BITS)
        RANDOM_BITS(
            c_type(out.dtype), -(-rows * blocks // BLOCK_THREADS), BLOCK_THREADS, out, keys,
            starts, low, high, first, stream, rows, length, blocks,
        )  # fmt: skip
    return out


def dropout(x: ndarray, key: ndarray | Buffer, *, rate: float) -> ndarray:
    """Returns x with elements set to zero at random: see ``backends/arrays/philox.py``."""
    if x.dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        return dropped(cupy, random_bits, x, key, rate)
    x = x if x.flags.c_contiguous else cupy.ascontiguousarray(x)
    out = cupy.ndarray(x.shape, x.dtype)
    if out.size:
        rows = prod(key.shape[:-1])
        length = x.size // rows
        keys, low, high = key_words(key, 2)
        blocks = -(-length // DECIDED)
        DROPOUT(
            c_type(x.dtype), -(-rows * blocks // BLOCK_THREADS), BLOCK_THREADS, x, out, keys,
            low, high, rows, length, blocks, round(rate * WORD_VALUES), 1.0 - rate,
        )  # fmt: skip
    return out


def key_words(x: ndarray | Buffer, width: int) -> tuple[ndarray | int, int, int]:
    """Returns integers, of so many words a row, as a kernel takes them.

    That is an array for many rows, else 0 and the words of the only row, as signed numbers.
    """
    if not isinstance(x, cupy.ndarray):
        host = np.asarray(x).astype(np.uint64).reshape(-1, width)
        if (host[:1] == host).all():
            first = host[0].view(np.int64)
            return 0, int(first[0]), int(first[-1])
        x = cupy.asarray(host)
    if x.dtype.itemsize != 8 or not x.flags.c_contiguous:
        x = x.astype(np.uint64, order="C")
    return x, 0, 0


PHILOX_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "dropout": dropout,
    "random_bits": random_bits,
    "random_keys": random_bits,
}
