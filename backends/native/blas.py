"""Products of matrices by the BLAS that NumPy brought, whose functions are found at run time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ..blas_threads import blas_libraries
from .instructions import Lines, constant, element_type

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["Blas", "numpy_blas"]

# The names of the functions, with the bits of their whole numbers.
BLAS_NAMES = (("scipy_cblas_{}64_", 64), ("cblas_{}64_", 64), ("cblas_{}", 32))
# What machine code calls them, by the letters of dtypes.
BLAS_SYMBOLS = {"f": "functensor_sgemm", "d": "functensor_dgemm"}
ROW_MAJOR, ROWS_AS_GIVEN, AS_TRANSPOSED = 101, 111, 112


class Blas:
    """The products of a BLAS.

    Attributes:
        addresses: the address of each function, by the name that machine code has for it.
        bits: the bits of its whole numbers.
    """

    def __init__(self, library: ctypes.CDLL, addresses: dict[str, int], bits: int) -> None:
        self._library = library
        self.addresses = addresses
        self.bits = bits

    def call(
        self,
        lines: Lines,
        dtype: DType,
        sizes: Sequence[int],
        pointers: Sequence[str],
        left: tuple[bool, int],
        right: tuple[bool, int],
    ) -> None:
        """Writes a product into memory in C order.

        Args:
            lines: where it is written.
            dtype: the dtype of all.
            sizes: the rows, the columns, and what is summed over.
            pointers: the names of the addresses of both factors and the result.
            left, right: for each factor if it is transposed, and the distance of its rows.
        """
        whole, element = f"i{self.bits}", element_type(dtype)
        one, none = (constant(dtype.type(n), 1) for n in (1, 0))
        x, y, out = pointers
        orders = [AS_TRANSPOSED if t else ROWS_AS_GIVEN for t, _ in (left, right)]
        given = [
            f"i32 {ROW_MAJOR}", *[f"i32 {order}" for order in orders],
            *[f"{whole} {n}" for n in sizes],
            f"{element} {one}", f"ptr {x}", f"{whole} {left[1]}", f"ptr {y}",
            f"{whole} {right[1]}", f"{element} {none}", f"ptr {out}", f"{whole} {sizes[1]}",
        ]  # fmt: skip
        name = BLAS_SYMBOLS[dtype.char]
        kinds = ", ".join(text.split(" ")[0] for text in given)
        lines.declared[name] = f"declare void @{name}({kinds})"
        lines.add(f"call void @{name}({', '.join(given)})")


@lru_cache(maxsize=1)
def numpy_blas() -> Blas | None:
    """Returns the BLAS of NumPy's wheel; None where it is not known."""
    for library in blas_libraries():
        for name, bits in BLAS_NAMES:
            if hasattr(library, name.format("sgemm")):
                found = {
                    char: ctypes.cast(getattr(library, name.format(f"{word}gemm")), ctypes.c_void_p)
                    for char, word in (("f", "s"), ("d", "d"))
                }
                return Blas(
                    library, {BLAS_SYMBOLS[c]: x.value or 0 for c, x in found.items()}, bits
                )
    return None
