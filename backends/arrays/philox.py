"""Random bits by counter: Philox4x64-10, the same on every backend.

A block of four words is a function of a key and a counter alone, so that any part of a stream can
be computed anywhere, in any order. Source: Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer, Shape

__all__ = ["WORD_VALUES", "dropout", "dropped", "numpy_dropout", "numpy_random_bits", "random_bits"]

MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
PHILOX_ROUNDS = 10
LOW_WORD = 0xFFFFFFFF
# The number of values of a word of 32 bits.
WORD_VALUES = 2**32

# NumPy's own generator is seeded key by key, which costs as much as 250 words computed here; a
# call here costs as much as seeding 24 times.
MOST_COMPILED_KEYS = 24
FEWEST_COMPILED_WORDS = 256


def wide_product(factor: int, x: Buffer) -> tuple[Any, Any]:
    """Returns the high and the low word of the products of a constant and words."""
    low, high = factor & LOW_WORD, factor >> 32
    x_low, x_high = x & LOW_WORD, x >> 32
    middle = x_low * high + (x_low * low >> 32)
    other = x_high * low + (middle & LOW_WORD)
    return x_high * high + (middle >> 32) + (other >> 32), x * factor


def philox_block(
    counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]
) -> tuple[Any, Any, Any, Any]:
    """Returns the four words for each counter and key, all of them arrays of ``uint64``."""
    a, b, c, d = counter
    k, m = key
    for _ in range(PHILOX_ROUNDS):
        high0, low0 = wide_product(MULTIPLIERS[0], a)
        high1, low1 = wide_product(MULTIPLIERS[1], c)
        a, b, c, d = high1 ^ b ^ k, low1, high0 ^ d ^ m, low0
        k, m = k + WEYL[0], m + WEYL[1]
    return a, b, c, d


def random_bits(
    xp: ArrayModule, key: Buffer, start: Buffer, *, shape: Shape, bits: int, stream: int
) -> Buffer:
    """Returns words of random bits, for every key its own.

    They are what ``numpy.random.Philox(key=key, counter=[start, 0, 0, stream])`` yields, narrower
    words being the parts of wider ones from the lowest bits up.

    Args:
        xp: the array module.
        key: integers of shape ``(*batch, 2)``.
        start: integers of shape ``batch``: after which block of four 64-bit words to start.
        shape: of the words for every key; the result's is ``(*batch, *shape)``.
        bits: the width of a word: 8, 16, 32 or 64.
        stream: the number of a key's stream: the highest word of the counter.
    """
    batch, length, words = _sizes(key, shape, bits)
    keys = xp.asarray(key).astype("uint64").reshape(-1, 1, 2)
    after = xp.asarray(start).astype("uint64").reshape(-1, 1)
    blocks = -(-words // 4)
    first = after + xp.arange(1, blocks + 1, dtype="uint64")
    carry = (first <= after).astype("uint64")
    zero = xp.zeros_like(first)
    drawn = philox_block((first, carry, zero, zero + stream), (keys[..., 0], keys[..., 1]))
    raw = xp.stack(drawn, axis=-1).reshape(len(keys), blocks * 4)
    return raw.view(f"uint{bits}")[:, :length].reshape((*batch, *shape))


def numpy_random_bits(
    key: Buffer, start: Buffer, *, shape: Shape, bits: int, stream: int
) -> Buffer:
    """Returns the words of ``random_bits``, by NumPy's compiled generator where that is faster."""
    batch, length, words = _sizes(key, shape, bits)
    count = prod(batch)
    if count > MOST_COMPILED_KEYS and words < FEWEST_COMPILED_WORDS:
        return random_bits(np, key, start, shape=shape, bits=bits, stream=stream)
    keys = np.asarray(key).astype(np.uint64).reshape(-1, 2)
    counters = np.zeros((count, 4), np.uint64)
    counters[:, 0] = np.asarray(start).astype(np.uint64).reshape(-1)
    counters[:, 3] = stream
    raw = np.empty((count, words), np.uint64)
    for row, own_key, counter in zip(raw, keys, counters, strict=True):
        row[:] = np.random.Philox(key=own_key, counter=counter).random_raw(words)
    return raw.view(f"uint{bits}")[:, :length].reshape((*batch, *shape))


def _sizes(key: Buffer, shape: Shape, bits: int) -> tuple[Shape, int, int]:
    """Returns the keys' batch shape, the words of ``bits`` for each, and of 64 bits."""
    length = prod(shape)
    return key.shape[:-1], length, -(-length * bits // 64)


# -- dropout


def dropped(
    xp: ArrayModule, words: Callable[..., Any], x: Buffer, key: Buffer, rate: float
) -> Buffer:
    """Returns x with elements set to zero at random, by words of 32 bits from a key's stream 0.

    The result is ``x / (1 - rate)`` where the element's word is at least the rate, as a part of
    all words, and 0 elsewhere.

    Args:
        xp, words: the array module and its ``random_bits``.
        x: an array of shape ``(*batch, *shape)``.
        key: integers of shape ``(*batch, 2)``.
        rate: the probability of every element to be dropped.
    """
    batch = key.shape[:-1]
    shape = getattr(x, "shape", ())[len(batch) :]
    # The words of a broadcast key are drawn once.
    if getattr(key, "strides", None) and batch:
        key = key[tuple([slice(None) if step else slice(1) for step in key.strides[:-1]])]
    start = np.zeros(key.shape[:-1], np.uint64)
    drawn = words(key, start, shape=shape, bits=32, stream=0)
    return xp.where(drawn >= round(rate * WORD_VALUES), xp.divide(x, 1.0 - rate), 0)


def dropout(xp: ArrayModule, x: Buffer, key: Buffer, *, rate: float) -> Buffer:
    """Returns x with elements set to zero at random, by an array module's functions alone."""
    return dropped(xp, partial(random_bits, xp), x, key, rate)


def numpy_dropout(x: Buffer, key: Buffer, *, rate: float) -> Buffer:
    """Returns the result of ``dropout``, by NumPy's compiled generator where that is faster."""
    return dropped(np, numpy_random_bits, x, key, rate)
