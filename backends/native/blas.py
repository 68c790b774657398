"""Products and factors of matrices by the BLAS and LAPACK that NumPy brought, found at run time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..blas_threads import blas_libraries
from ..lapack_of_numpy import LAPACK_NAMES
from .instructions import Lines, constant, element_type

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["Blas", "blas_functions", "numpy_blas"]

# The names of the functions, with the bits of their whole numbers.
BLAS_NAMES = (("scipy_cblas_{}64_", 64), ("cblas_{}64_", 64), ("cblas_{}", 32))
# What machine code calls them, by the letters of dtypes.
BLAS_SYMBOLS = {"f": "functensor_sgemm", "d": "functensor_dgemm"}
VECTOR_SYMBOLS = {"f": "functensor_sgemv", "d": "functensor_dgemv"}
# The functions of LAPACK.
LAPACK_FUNCTIONS = ("gesv", "getrf", "getrs", "potrf", "trtrs")
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
        sizes: Sequence[int | str],
        pointers: Sequence[str],
        left: tuple[bool, int],
        right: tuple[bool, int],
        step: int | None = None,
    ) -> None:
        """Writes a product into memory in C order.

        Args:
            lines: where it is written.
            dtype: the dtype of all.
            sizes: the rows, the columns, and what is summed over; numbers, or names of theirs.
            pointers: the names of the addresses of both factors and the result.
            left, right: for each factor if it is transposed, and the distance of its rows.
            step: the distance of the result's rows; the number of columns unless it is given.
        """
        if 1 in sizes[:2]:
            self._call_with_vector(lines, dtype, sizes, pointers, left, right)
            return
        whole, element = f"i{self.bits}", element_type(dtype)
        one, none = (constant(dtype.type(n), 1) for n in (1, 0))
        x, y, out = pointers
        rows_apart = sizes[1] if step is None else step
        orders = [AS_TRANSPOSED if t else ROWS_AS_GIVEN for t, _ in (left, right)]
        given = [
            f"i32 {ROW_MAJOR}", *[f"i32 {order}" for order in orders],
            *[f"{whole} {n}" for n in sizes],
            f"{element} {one}", f"ptr {x}", f"{whole} {left[1]}", f"ptr {y}",
            f"{whole} {right[1]}", f"{element} {none}", f"ptr {out}", f"{whole} {rows_apart}",
        ]  # fmt: skip
        write_call(lines, BLAS_SYMBOLS[dtype.char], given)

    def _call_with_vector(
        self,
        lines: Lines,
        dtype: DType,
        sizes: Sequence[int | str],
        pointers: Sequence[str],
        left: tuple[bool, int],
        right: tuple[bool, int],
    ) -> None:
        """Writes the product of a matrix and a vector, from either side.

        BLAS computes it twice as fast as that of a matrix of one row.
        """
        whole, element = f"i{self.bits}", element_type(dtype)
        one, none = (constant(dtype.type(n), 1) for n in (1, 0))
        rows, columns, terms = sizes
        x, y, out = pointers
        if columns == 1:
            (turned, step), matrix, vector, length = left, x, y, rows
            between = right[1]
        else:
            (turned, step), matrix, vector, length = right, y, x, columns
            turned = not turned
            between = left[1] if left[0] else 1
        lying = (terms, length) if turned else (length, terms)
        given = [
            f"i32 {ROW_MAJOR}", f"i32 {AS_TRANSPOSED if turned else ROWS_AS_GIVEN}",
            *[f"{whole} {n}" for n in lying], f"{element} {one}", f"ptr {matrix}",
            f"{whole} {step}", f"ptr {vector}", f"{whole} {between}", f"{element} {none}",
            f"ptr {out}", f"{whole} 1",
        ]  # fmt: skip
        write_call(lines, VECTOR_SYMBOLS[dtype.char], given)

    def has(self, function: str, dtype: DType) -> bool:
        """Says whether it has a function of LAPACK for a dtype."""
        return lapack_symbol(function, dtype.char) in self.addresses

    def lapack(
        self, lines: Lines, function: str, dtype: DType, given: Sequence[str | int], memory: str
    ) -> str:
        """Writes a call of LAPACK; returns the name of what it says: 0 if all went well.

        Args:
            lines: where it is written.
            function: its name without the letter of its dtype.
            dtype: that of the matrices.
            given: what it takes, as Fortran does by address: whole numbers, names of addresses.
            memory: the name of the address of a whole number for each of these and one more.
        """
        whole, shown = f"i{self.bits}", []
        for number, x in enumerate([*given, 0]):
            place = str(x)
            if isinstance(x, int):
                place = lines.let(f"getelementptr i64, ptr {memory}, i64 {number}")
                lines.add(f"store {whole} {x}, ptr {place}, align 8")
            shown.append(("ptr", place))
        lines.call(lapack_symbol(function, dtype.char), "void", shown)
        said = lines.let(f"load {whole}, ptr {shown[-1][1]}, align 8")
        return said if self.bits == 64 else lines.let(f"sext {whole} {said} to i64")


def write_call(lines: Lines, name: str, given: Sequence[str]) -> None:
    """Writes the call of a function that returns nothing, and its declaration."""
    kinds = ", ".join(text.split(" ")[0] for text in given)
    lines.declared[name] = f"declare void @{name}({kinds})"
    lines.add(f"call void @{name}({', '.join(given)})")


def lapack_symbol(function: str, char: str) -> str:
    """Returns what machine code calls a function of LAPACK for the letter of a dtype."""
    return f"functensor_{'s' if char == 'f' else 'd'}{function}"


def lapack_addresses(library: ctypes.CDLL, name: str) -> dict[str, int]:
    """Returns the addresses of the functions of LAPACK that a library has by such names."""
    found = {}
    for function in LAPACK_FUNCTIONS:
        for char, letter in (("f", "s"), ("d", "d")):
            with suppress(AttributeError):
                known = getattr(library, name.format(letter + function))
                found[lapack_symbol(function, char)] = address_of(known)
    return found


def address_of(function: Any) -> int:
    """Returns the address of a function of a library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def numpy_blas() -> Blas | None:
    """Returns the BLAS of NumPy's wheel; None where it is not known."""
    for library in blas_libraries():
        for (name, bits), (others, _) in zip(BLAS_NAMES, LAPACK_NAMES, strict=True):
            if hasattr(library, name.format("sgemm")):
                found = {
                    symbols[char]: address_of(getattr(library, name.format(word + function)))
                    for symbols, function in ((BLAS_SYMBOLS, "gemm"), (VECTOR_SYMBOLS, "gemv"))
                    for char, word in (("f", "s"), ("d", "d"))
                }
                return Blas(library, found | lapack_addresses(library, others), bits)
    return None


def blas_functions() -> dict[str, int]:
    """Returns the addresses of its functions, by the names that machine code has for them."""
    blas = numpy_blas()
    return {} if blas is None else blas.addresses
