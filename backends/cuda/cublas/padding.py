"""Large products whose matrices do not fit the matrix units: operands are padded for them.

cuBLAS has its quick kernels for matrices whose columns begin at multiples of 16 bytes and have as
many. For others it loads element by element: the product with a vocabulary of 50257 words took five
times as long on an H200. Copies with some zeros more cost less.
"""

from __future__ import annotations

from typing import NamedTuple

import cupy
from cupy import ndarray

from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel

__all__ = ["Matrix", "PaddedProduct", "copy_columns", "padded_product"]

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
    """

    array: ndarray
    rows: int
    columns: int
    leading: int

    def is_aligned(self, unit: int) -> bool:
        """Says whether columns begin and end at multiples of some elements."""
        begins = self.array.data.ptr % WIDEST_LOAD_BYTES == 0
        return begins and self.rows % unit == 0 and self.leading % unit == 0

    def padded(self, rows: int, columns: int) -> Matrix:
        """Returns a copy with so many rows and columns; the further elements are 0."""
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
    k = first.rows if transposed[0] else first.columns
    elements = first.rows * first.columns + second.rows * second.columns + m * n
    operations = m * n * k
    moved = 2 * elements * out.array.itemsize
    if operations < FEWEST_OPERATIONS or moved > BYTES_PER_OPERATION * operations:
        return None
    m, n, k = (-(-size // unit) * unit for size in (m, n, k))
    return PaddedProduct(
        first.padded(k, m) if transposed[0] else first.padded(m, k),
        second.padded(n, k) if transposed[1] else second.padded(k, n),
        Matrix(cupy.empty((n, m), out.array.dtype), m, n, m),
        (m, n, k),
    )
