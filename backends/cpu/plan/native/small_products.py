"""Small products of matrices, and stacks of them, as kernels: BLAS takes longer to begin with one.

Four rows of the result are computed at a time, so that what is loaded of the second factor serves
all of them. The factors may lie in any order, and a stack of one may be a single matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ....kernels.kernel import (
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    Statement,
    Store,
)
from ....kernels.schedule import LANE_BYTES
from .layouts import c_strides, extent

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["is_small_product", "product_kernel"]

# What BLAS does at least as fast: more terms of a sum, or more multiplications in all. For few rows
# it begins so late that more terms pay, as long as a column of these rows has no more of them.
MOST_TERMS, MOST_MULTIPLICATIONS, MOST_TERMS_OF_ROWS = 32, 1 << 13, 128
ROWS_AT_A_TIME = 4
# Rows that are no multiple of lanes end with steps of fewer lanes, each with a text of all terms.
# Products of more terms end with one step in which some lanes are idle.
MOST_TERMS_OF_SHORT_STEPS = 8


def is_small_product(rows: int, terms: int, columns: int, in_rows: bool = True) -> bool:
    """Says whether a kernel of its own computes a product sooner than BLAS.

    ``in_rows`` says whether the rows of the second factor lie in memory as rows.
    """
    if rows * terms * columns > MOST_MULTIPLICATIONS:
        return False
    few_rows = in_rows and columns > 1 and rows * terms <= MOST_TERMS_OF_ROWS
    return 0 < terms <= MOST_TERMS or few_rows


def product_kernel(
    dtype: DType,
    stack: Sequence[int],
    sizes: tuple[int, int, int],
    x: Sequence[int],
    y: Sequence[int],
) -> LoopKernel:
    """Returns the kernel of ``x @ y``, into memory in C order.

    Args:
        dtype: the dtype of all.
        stack: the lengths of the axes before the matrices'.
        sizes: the rows, the terms of each sum, and the columns.
        x, y: the strides of the factors, in elements: those of the stack, then the matrix's two.
    """
    return SmallProduct(dtype, stack, sizes, x, y).kernel()


class SmallProduct:
    """Writes the loops of a product."""

    def __init__(
        self,
        dtype: DType,
        stack: Sequence[int],
        sizes: tuple[int, int, int],
        x: Sequence[int],
        y: Sequence[int],
    ) -> None:
        self.dtype = dtype
        self.sizes = rows, terms, columns = sizes
        self.stack = [LoopAxis(f"stack_{i}", length) for i, length in enumerate(stack)]
        lengths = *stack, rows, columns
        self.strides = {"x": tuple(x), "y": tuple(y), "out": c_strides(lengths)}
        self.buffers = {
            "x": Buffer("x", dtype, (extent((*stack, rows, terms), x),), "in"),
            "y": Buffer("y", dtype, (extent((*stack, terms, columns), y),), "in"),
            "out": Buffer("out", dtype, (prod(lengths),), "out"),
        }

    def kernel(self) -> LoopKernel:
        """Returns the kernel."""
        rows, _, _ = self.sizes
        whole = rows // ROWS_AT_A_TIME
        body: list[Statement] = []
        if whole > 1:
            axis = LoopAxis("rows", whole)
            body.append(For(axis, self._columns(0, ROWS_AT_A_TIME, axis)))
        elif whole:
            body += self._columns(0, ROWS_AT_A_TIME)
        if rows % ROWS_AT_A_TIME:
            body += self._columns(whole * ROWS_AT_A_TIME, rows % ROWS_AT_A_TIME)
        for axis in reversed(self.stack):
            body = [For(axis, body)]
        return LoopKernel("product", list(self.buffers.values()), [], body)

    def _index(
        self, name: str, row: int, column: int, terms: Sequence[tuple[LoopAxis, int]]
    ) -> Index:
        """Returns a place in a buffer, given that of one element of the matrix."""
        strides = self.strides[name]
        loops = list(zip(self.stack, strides))
        return Index([*loops, *terms], row * strides[-2] + column * strides[-1])

    def _columns(self, first: int, count: int, axis: LoopAxis | None = None) -> list[Statement]:
        """Returns loops over the columns of some rows; an axis counts groups of rows."""
        columns, low, loops = self.sizes[2], 0, []
        lanes = LANE_BYTES // self.dtype.itemsize
        short_steps = self.sizes[1] <= MOST_TERMS_OF_SHORT_STEPS
        while low < columns:
            while lanes > columns - low and (short_steps or lanes >= 2 * (columns - low)):
                lanes //= 2
            length = (columns - low) // lanes * lanes if short_steps else columns
            loops.append(self._loop(first, count, axis, low, length, lanes))
            low += length
        return loops

    def _loop(
        self, first: int, count: int, axis: LoopAxis | None, low: int, length: int, lanes: int
    ) -> Statement:
        """Returns the loop over some columns of some rows."""
        column = LoopAxis("columns", length)
        group = [] if axis is None else [(axis, ROWS_AT_A_TIME)]

        def rows_of(name: str) -> list[tuple[LoopAxis, int]]:
            return [(a, n * self.strides[name][-2]) for a, n in group]

        body: list[Statement] = []
        # A long sum waits for each addition, unless it has several parts.
        parts = ROWS_AT_A_TIME // count if self.sizes[1] > MOST_TERMS else 1
        sums: list[list[Operand]] = [[self.dtype.type(0)] * parts for _ in range(count)]
        for term in range(self.sizes[1]):
            right = LoopValue(self.dtype)
            along = [(column, self.strides["y"][-1])]
            body.append(Load(right, self.buffers["y"], self._index("y", term, low, along)))
            for row in range(count):
                left, total = LoopValue(self.dtype), LoopValue(self.dtype)
                place = self._index("x", first + row, term, rows_of("x"))
                body.append(Load(left, self.buffers["x"], place))
                body.append(Let(total, "fma", [left, right, sums[row][term % parts]]))
                sums[row][term % parts] = total
        for row in range(count):
            found, *others = sums[row]
            for other in others:
                total = LoopValue(self.dtype)
                body.append(Let(total, "add", [found, other]))
                found = total
            place = self._index("out", first + row, low, [*rows_of("out"), (column, 1)])
            body.append(Store(self.buffers["out"], place, found))
        return For(column, body, (), lanes)
