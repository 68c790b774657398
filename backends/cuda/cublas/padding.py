"""Large products whose matrices do not fit the matrix units: operands are padded for them.

cuBLAS has its quick kernels for matrices whose columns begin at multiples of 16 bytes and have as
many. For others it loads element by element: the product with a vocabulary of 50257 words took five
times as long on an H200. Copies with some zeros more cost less, and none are made of matrices whose
columns lie so far apart already, with zeros between them.
"""

from __future__ import annotations

from typing import NamedTuple

import cupy
from cupy import ndarray

from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel, is_contiguous
from ..row_layout import padded_rows

__all__ = ["Matrix", "PaddedProduct", "copy_columns", "padded_product", "with_zeros_behind"]

# The elements that a thread copies at a time, by their bytes.
COPIED = {2: "unsigned short, 16", 4: "unsigned int, 8", 8: "unsigned long long, 4"}
COPY_ROWS = Kernel("padding", "copy_rows", "pplllllll", tuple(COPIED.values()))
FEWEST_ACROSS, MOST_SHARES = 32, 65_535

# What a product gains is worth copies of these bytes a multiplication and addition, or less; small
# products gain nothing.
BYTES_PER_OPERATION, FEWEST_OPERATIONS = 0.02, 1 << 31


class Matrix(NamedTuple):
    """A matrix of cuBLAS's, whose columns are contiguous.

    Attributes:
        array: the array whose memory it begins with.
        rows, columns: its sizes in memory.
        leading: the distance of columns, in elements.
        zeros: whether what lies between columns is 0.
    """

    array: ndarray
    rows: int
    columns: int
    leading: int
    zeros: bool = False

    def is_aligned(self, unit: int) -> bool:
        """Says whether columns begin and end at multiples of some elements."""
        begins = self.array.data.ptr % WIDEST_LOAD_BYTES == 0
        return begins and self.rows % unit == 0 and self.leading % unit == 0

    def within(self, rows: int, columns: int, unit: int) -> Matrix | None:
        """Returns it with so many rows and columns, if its memory has them; otherwise None."""
        has = rows == self.rows or (self.zeros and rows <= self.leading)
        found = self._replace(rows=rows)
        return found if has and columns == self.columns and found.is_aligned(unit) else None

    def padded(self, rows: int, columns: int, unit: int) -> Matrix:
        """Returns one with so many rows and columns; the further elements are 0.

        It is a copy, unless memory has them.
        """
        there = self.within(rows, columns, unit)
        if there is not None:
            return there
        made = Matrix(ndarray((columns, rows), self.array.dtype), rows, columns, rows)
        copy_columns(self, made)
        return made


def copy_columns(given: Matrix, made: Matrix) -> None:
    """Copies a matrix to the beginning of another one, whose further elements become 0.

    It copies as much as the smaller of them has.
    """
    itemsize = given.array.itemsize
    types = COPIED[itemsize]
    # A column lies as a row of CUDA's.
    across = BLOCK_THREADS
    while across > max(made.rows, FEWEST_ACROSS):
        across //= 2
    together = across * int(types.rpartition(" ")[2])
    blocks = -(-made.columns // (BLOCK_THREADS // across))
    COPY_ROWS(
        types, (blocks, min(-(-made.rows // together), MOST_SHARES)), BLOCK_THREADS,
        given.array, made.array, min(given.columns, made.columns), min(given.rows, made.rows),
        given.leading, made.columns, made.rows, made.leading, across,
    )  # fmt: skip


class PaddedProduct(NamedTuple):
    """A product of padded matrices.

    Attributes:
        first, second: the factors.
        out: memory for the result.
        sizes: rows, columns and summed elements.
    """

    first: Matrix
    second: Matrix
    out: Matrix
    sizes: tuple[int, int, int]


def padded_product(
    first: Matrix, second: Matrix, out: Matrix, transposed: tuple[int, int]
) -> PaddedProduct | None:
    """Returns a product that is quicker for copies of its factors; None where there is none.

    Args:
        first, second: the factors as they lie in memory.
        out: the result.
        transposed: for both factors 1 where it is transposed first.
    """
    unit = WIDEST_LOAD_BYTES // out.array.itemsize
    if first.is_aligned(unit) and second.is_aligned(unit) and out.is_aligned(unit):
        return None
    m, n = out.rows, out.columns
    operations = m * n * (first.rows if transposed[0] else first.columns)
    if operations < FEWEST_OPERATIONS:
        return None
    k = first.rows if transposed[0] else first.columns
    m, n, k = (-(-size // unit) * unit for size in (m, n, k))
    shapes = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n), (m, n)
    pairs = [*zip((first, second, out), shapes)]
    copied = [x.rows * x.columns for x, shape in pairs if x.within(*shape, unit) is None]
    if 2 * sum(copied) * out.array.itemsize > BYTES_PER_OPERATION * operations:
        return None
    made = out.within(m, n, unit) or Matrix(cupy.empty((n, m), out.array.dtype), m, n, m)
    return PaddedProduct(
        first.padded(*shapes[0], unit), second.padded(*shapes[1], unit), made, (m, n, k)
    )


def with_zeros_behind(x: ndarray) -> ndarray:
    """Returns a copy of a matrix whose rows begin at multiples of 16 bytes, with zeros between."""
    x = x if is_contiguous(x) else cupy.ascontiguousarray(x)
    count, length = x.shape
    made = padded_rows(x.shape, x.dtype)
    pitch = made.strides[0] // x.itemsize
    copy_columns(Matrix(x, length, count, length), Matrix(made, pitch, count, pitch))
    return made
