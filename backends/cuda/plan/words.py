"""Numbers of the host as kernels find them in memory, eight bytes for each."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import TYPE_CHECKING, Any

from .leaf_kernels import WORD_BYTES

if TYPE_CHECKING:
    from ...annotations import DType

__all__ = ["Words"]

# How `struct` writes numbers of a dtype.
FORMATS = {
    "?": "?7x", "b": "b7x", "B": "B7x", "h": "h6x", "H": "H6x", "i": "i4x", "I": "I4x",
    "l": "q", "L": "Q", "q": "q", "Q": "Q", "e": "e6x", "f": "f4x", "d": "d",
}  # fmt: skip


class Words:
    """Writes numbers, and addresses behind them.

    Args:
        dtypes: the dtypes of the numbers.
        count: how many addresses there are.
    """

    def __init__(self, dtypes: Sequence[DType], count: int = 0) -> None:
        self._types = [dtype.type for dtype in dtypes]
        self._addresses = f"<{count}Q"
        formats = [FORMATS.get(dtype.char) for dtype in dtypes]
        self._all: Struct | None = None
        if None not in formats:
            self._all = Struct(f"<{''.join(map(str, formats))}{count}Q")

    def of(self, numbers: Sequence[Any], addresses: Sequence[int] = ()) -> bytes:
        """Returns the words of numbers, in their dtypes, and of addresses."""
        if self._all is not None:
            # NumPy has numbers of any size: infinity, or an integer that wraps around.
            try:
                return self._all.pack(*numbers, *addresses)
            except (OverflowError, TypeError, error):
                return self._by_numpy(numbers, addresses)
        return self._by_numpy(numbers, addresses)

    def _by_numpy(self, numbers: Sequence[Any], addresses: Sequence[int]) -> bytes:
        pairs = zip(numbers, self._types, strict=True)
        pieces = [kind(number).tobytes().ljust(WORD_BYTES, b"\0") for number, kind in pairs]
        return b"".join(pieces) + Struct(self._addresses).pack(*addresses)
