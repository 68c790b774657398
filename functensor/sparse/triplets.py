"""Sparse matrices as triplets of values, rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..backends.annotations import Buffer
from ..backends.optional_modules import extra
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import misfit

__all__ = ["Pattern", "Triplets"]


class Pattern:
    """The places at which a matrix may differ from zero.

    Args:
        rows, cols: the places, in any order; what occurs twice counts once.
        shape: the matrix's shape.

    Attributes:
        rows, cols: the places as NumPy's integers, sorted by rows, then by columns.
        shape: the matrix's shape.

    >>> Pattern([1, 0, 1], [0, 2, 0], (2, 3))
    Pattern(2 of 6 elements, shape=(2, 3))
    """

    __slots__ = ("cols", "rows", "shape")

    def __init__(self, rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> None:
        height, width = shape
        rows, cols = np.asarray(rows, np.int64), np.asarray(cols, np.int64)
        if rows.shape != cols.shape or rows.ndim != 1:
            raise misfit(
                f"Pattern: rows of shape {rows.shape} and columns of shape {cols.shape}",
                "give a row and a column for each place, on one axis",
            )
        inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
        if not inside.all():
            raise ValueError(f"Pattern: a place lies outside of the shape {(height, width)}")
        places = np.unique(rows * width + cols)
        self.rows, self.cols = np.divmod(places, max(width, 1))
        self.shape = (height, width)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Pattern
            and self.shape == other.shape
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.cols, other.cols)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.rows.tobytes(), self.cols.tobytes()))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Pattern({len(self)} of {np.prod(self.shape)} elements, shape={self.shape})"

    def todense(self) -> Buffer:
        """Returns the pattern as a NumPy array of booleans."""
        out = np.zeros(self.shape, bool)
        out[self.rows, self.cols] = True
        return out


class Triplets:
    """A sparse matrix: its values, and the places where they stand.

    It is a node of trees with the values as its only child, so that transformations go through it.

    Attributes:
        values: an array with one axis.
        pattern: the places of the values.

    >>> m = Triplets(np.array([2.0, 3.0]), Pattern([0, 1], [1, 2], (2, 3)))
    >>> print(m.todense())
    [[0. 2. 0.]
     [0. 0. 3.]]
    >>> print(m @ np.array([1.0, 10.0, 100.0]))
    [ 20. 300.]
    """

    __slots__ = ("pattern", "values")

    def __init__(self, values: Array, pattern: Pattern) -> None:
        self.values = values
        self.pattern = pattern

    @property
    def rows(self) -> Buffer:
        """The values' rows, sorted."""
        return self.pattern.rows

    @property
    def cols(self) -> Buffer:
        """The values' columns."""
        return self.pattern.cols

    @property
    def shape(self) -> tuple[int, int]:
        """The matrix's shape."""
        return self.pattern.shape

    def __repr__(self) -> str:
        return f"Triplets({len(self.pattern)} values, shape={self.shape})"

    def todense(self) -> Array:
        """Returns the matrix as an array."""
        zeros = beside(self.values, np.zeros(self.shape, self.values.dtype))
        return ops.index_add(zeros, (self.rows, self.cols), self.values)

    def __matmul__(self, other: ArrayLike) -> Array:
        """Multiplies with a vector or a matrix.

        Raises:
            ShapeError: its length is not the number of columns.
        """
        other = asarray(other)
        shape = shape_of(other)
        if not shape or shape[0] != self.shape[1] or len(shape) > 2:
            raise misfit(
                f"a sparse matrix of shape {self.shape} times an array of shape {shape}",
                f"multiply with a vector of {self.shape[1]} elements, or a matrix of as many rows",
            )
        values = ops.reshape(self.values, (-1,) + (1,) * (len(shape) - 1))
        terms = ops.multiply(values, ops.index(other, self.cols))
        zeros = beside(terms, np.zeros((self.shape[0], *shape[1:]), terms.dtype))
        return ops.index_add(zeros, self.rows, terms)

    def toscipy(self) -> Any:
        """Returns the matrix as a ``scipy.sparse.coo_array``.

        Raises:
            MissingExtraError: SciPy is not installed.
        """
        sparse = extra("scipy.sparse", "scipy")
        values = np.asarray(ops.to_device(self.values, "cpu"))
        return sparse.coo_array((values, (self.rows, self.cols)), self.shape)


tree.register(
    Triplets,
    lambda m: ([m.values], m.pattern),
    lambda pattern, children: Triplets(children[0], pattern),
)
