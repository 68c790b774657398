"""Sets numbers, and copies arrays in and out, around the graph of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack_into

import numpy as np
from cupy import ndarray

from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel

__all__ = [
    "MOST_COPIED", "MOST_WORDS", "copy_arrays", "copy_in", "copy_out", "set_words",
    "table_words",
]  # fmt: skip

# The numbers, and the arrays, of a launch: those of a small table, and at most.
FEW_WORDS, MOST_WORDS = 16, 448
FEW_COPIES, MOST_COPIED = 8, 160
WORD_TABLES = {count: np.dtype(f"V{8 * count}") for count in (FEW_WORDS, MOST_WORDS)}
COPY_TABLES = {count: np.dtype(f"V{24 * count}") for count in (FEW_COPIES, MOST_COPIED)}
SET_WORDS = Kernel("plan", "set_words", "tpl", tuple(map(str, WORD_TABLES)))
COPY_ARRAYS = Kernel("plan", "copy_arrays", "tl", tuple(map(str, COPY_TABLES)))
# The bytes that a block copies, if there are more, and the most blocks of an array.
BYTES_OF_BLOCK, MOST_COPYING_BLOCKS = 1 << 15, 2048


# Bits of an argument: copies are wide; the places that they go to, or come from, are read from
# memory.
WIDE, TO_READ_PLACES, FROM_READ_PLACES = 1, 2, 4


def table_words(count: int) -> int:
    """Returns the words of the table by which so many are set at once."""
    return FEW_WORDS if count <= FEW_WORDS else MOST_WORDS


def set_words(words: bytes, out: ndarray) -> None:
    """Writes numbers of 8 bytes each into an array; nothing waits for that.

    Args:
        words: the numbers, as they lie in memory.
        out: an array of as many bytes.
    """
    most = table_words(len(words) // 8)
    for start in range(0, len(words), 8 * most):
        part = words[start : start + 8 * most]
        table = np.frombuffer(part.ljust(8 * most, b"\0"), WORD_TABLES[most])
        SET_WORDS(str(most), 1, BLOCK_THREADS, table, out[start:], len(part) // 8)


def copy_arrays(pairs: Sequence[tuple[ndarray, ndarray]]) -> None:
    """Copies contiguous arrays to others of as many bytes, in one launch for many of them.

    Args:
        pairs: for each what it is copied from, and where to.
    """
    whole = [pair for pair in pairs if pair[0].nbytes]
    aligned = [not (x.data.ptr | y.data.ptr) % WIDEST_LOAD_BYTES for x, y in whole]
    for wide in (True, False):
        some = [pair for pair, flag in zip(whole, aligned, strict=True) if flag is wide]
        if some:
            copied_alike(some, wide)


def copied_alike(pairs: Sequence[tuple[ndarray, ndarray]], wide: bool) -> None:
    """Copies arrays; ``wide`` says whether all begin where wide loads may."""
    for start in range(0, len(pairs), MOST_COPIED):
        part = pairs[start : start + MOST_COPIED]
        launch_copies([(x.data.ptr, y.data.ptr, x.nbytes) for x, y in part], WIDE * wide)


def copy_out(arrays: Sequence[ndarray], places: ndarray) -> None:
    """Copies contiguous arrays in one launch, to addresses that are in memory by then.

    Args:
        arrays: the arrays, at most `MOST_COPIED`.
        places: the addresses, where wide loads may begin.
    """
    begin = places.data.ptr
    rows = [(x.data.ptr, begin + 8 * i, x.nbytes) for i, x in enumerate(arrays) if x.nbytes]
    aligned = all(not row[0] % WIDEST_LOAD_BYTES for row in rows)
    if rows:
        launch_copies(rows, TO_READ_PLACES | WIDE * aligned)


def copy_in(places: ndarray, arrays: Sequence[ndarray]) -> None:
    """Copies to contiguous arrays in one launch, from addresses that are in memory by then.

    Args:
        places: the addresses, where wide loads may begin.
        arrays: the arrays, at most `MOST_COPIED`.
    """
    begin = places.data.ptr
    rows = [(begin + 8 * i, x.data.ptr, x.nbytes) for i, x in enumerate(arrays) if x.nbytes]
    aligned = all(not row[1] % WIDEST_LOAD_BYTES for row in rows)
    if rows:
        launch_copies(rows, FROM_READ_PLACES | WIDE * aligned)


def launch_copies(rows: Sequence[tuple[int, int, int]], how: int) -> None:
    """Launches copies: for each where from, where to, and how many bytes."""
    most = FEW_COPIES if len(rows) <= FEW_COPIES else MOST_COPIED
    words = bytearray(24 * most)
    pack_into(f"{3 * len(rows)}Q", words, 0, *[number for row in rows for number in row])
    longest = max(row[2] for row in rows)
    blocks = min(-(-longest // BYTES_OF_BLOCK), MOST_COPYING_BLOCKS)
    table = np.frombuffer(words, COPY_TABLES[most])
    COPY_ARRAYS(str(most), (blocks, len(rows)), BLOCK_THREADS, table, how)
