"""Large products in TF32 of two factors in neither of which what is summed lies in a row.

Hopper's units for matrices read numbers of 32 bits along the summed axis. Where one factor lies
otherwise, cuBLAS is about as quick; where both do, it took half as long again and more on an H200.
So the smaller one is turned first: 0.41 ms instead of 0.56 for matrices of 4096 x 4096.
"""

from __future__ import annotations

from cupy import ndarray

from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel
from ..row_layout import limit
from .padding import Matrix

__all__ = ["turned_factors"]

TURN_ROWS = Kernel("padding", "turn_rows", "ppllll")
# The rows, and the elements of them, that a block turns; the blocks along an axis of the grid.
TILE, MOST_TILES = 64, 65_535
# The generation of GPUs that gain by it.
HOPPER = 9
# What a product gains is worth copies of these bytes a multiplication and addition, or less; small
# products gain nothing.
TURNED_BYTES_PER_OPERATION, FEWEST_TURNING_OPERATIONS = 0.005, 1 << 33
NEITHER_IN_A_ROW = 0, 1


def turned_factors(
    first: Matrix, second: Matrix, transposed: tuple[int, int], operations: int
) -> tuple[Matrix, Matrix, tuple[int, int]]:
    """Returns the factors of a product in TF32, one turned where that pays, and what is transposed.

    Args:
        first, second: the factors as they lie in memory.
        transposed: for both factors 1 where it is transposed first.
        operations: how many multiplications the product takes.
    """
    if transposed != NEITHER_IN_A_ROW or operations < FEWEST_TURNING_OPERATIONS:
        return first, second, transposed
    smaller = min(first, second, key=lambda x: x.rows * x.columns)
    itemsize = smaller.array.itemsize
    copied = 2 * smaller.rows * smaller.columns * itemsize
    unit = WIDEST_LOAD_BYTES // itemsize
    if (
        copied > TURNED_BYTES_PER_OPERATION * operations
        or limit("generation", smaller.array.data.device_id) != HOPPER
        or not (first.is_aligned(unit) and second.is_aligned(unit))
        or smaller.columns % unit
        or smaller.columns > MOST_TILES * TILE
    ):
        return first, second, transposed
    if smaller is first:
        return turned_matrix(first), second, (1, 1)
    return first, turned_matrix(second), (0, 0)


def turned_matrix(x: Matrix) -> Matrix:
    """Returns a copy of a matrix whose rows are columns."""
    out = ndarray((x.rows, x.columns), x.array.dtype)
    grid = -(-x.rows // TILE), -(-x.columns // TILE)
    # A column lies as a row of CUDA's.
    TURN_ROWS("", grid, BLOCK_THREADS, x.array, out, x.columns, x.rows, x.leading, x.columns)
    return Matrix(out, x.columns, x.rows, x.columns)
