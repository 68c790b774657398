"""Convolutions of float32 that sum up few products: each thread has a window in registers."""

from __future__ import annotations

from math import prod

from cupy import ndarray

from ..index_tables import table
from ..launch import BLOCK_THREADS, Kernel

__all__ = ["shallow_product"]

# The products of a result at most, of which each number has a kernel.
DEPTHS = (12, 20, 28, 32)
SHALLOW_PRODUCT = Kernel(
    "shallow_convolution", "shallow_product", "pppppllll", tuple(map(str, DEPTHS))
)
# The rows of a block.
SHALLOW_ROWS = 32


def shallow_product(
    weights: ndarray,
    x: ndarray,
    numbers: tuple[int, ...],
    out: ndarray,
    depth: int,
    groups: int,
    bias: ndarray | None,
    relu: bool,
) -> bool:
    """Writes for each window the sums over channels and taps of weights times what it meets.

    Args:
        weights, x, out, groups, bias, relu: as in `product_with_windows`.
        numbers: the kernel's table.
        depth: the products of a result.

    Returns:
        whether it was done: of more products others take care.
    """
    fit = next((most for most in DEPTHS if depth <= most), None)
    if fit is None:
        return False
    rows, columns = out.shape[1] // groups, len(out) * prod(out.shape[2:])
    grid = -(-columns // BLOCK_THREADS), -(-rows // SHALLOW_ROWS), groups
    SHALLOW_PRODUCT(
        str(fit), grid, BLOCK_THREADS, weights, x, 0 if bias is None else bias, out,
        table(numbers, x.data.device_id), rows, depth, columns, int(relu),
    )  # fmt: skip
    return True
