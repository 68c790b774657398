"""Products of matrices and vectors, and what is picked from matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from ...backends.annotations import DTypeLike
from ...primitives.core.annotations import ArrayLike, of_array, of_arrays, of_sequence
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.errors import misfit, refuse_out
from ...primitives.core.shape_dtype import canonical_axis
from ...primitives.linalg import solving
from ..arguments import arrays_together
from ..creation import asarray
from ..differences import cross as cross_of_axes
from ..zeros_ones import eye
from .arguments import as_matrices, with_matrices

__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "trace", "vecdot",
]  # fmt: skip


@of_arrays
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Returns the matrix product, ``x1 @ x2``.

    Args:
        x1, x2: arrays of shapes (..., n, k) and (..., k, m); one with a single axis is a vector.

    Returns:
        An array of shape (..., n, m), without the axes that vectors lack.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import functensor.numpy as np
    >>> np.linalg.matmul(np.ones((2, 3)), np.ones(3))
    Array([3., 3.], dtype=float64, device='cpu')
    """
    return ops.matmul(*arrays_together((x1, x2), "matmul"))


@of_arrays
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Returns the products of vectors along an axis, those of x1 conjugated.

    Args:
        x1, x2: arrays; all axes but that of the vectors broadcast.
        axis: the axis of the vectors.

    Returns:
        An array without the axis.

    Raises:
        ShapeError: the vectors differ in length.

    >>> import functensor.numpy as np
    >>> np.linalg.vecdot(np.ones((2, 3)), np.ones(3))
    Array([3., 3.], dtype=float64, device='cpu')
    """
    return ops.vecdot(x1, x2, axis=axis)


@of_arrays
def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[int | Sequence[int]] = 2
) -> Array:
    """Returns the product of two arrays summed over several axes of each.

    Args:
        x1, x2: arrays of any shapes whose summed axes have the same lengths.
        axes: a number n, for the last n axes of x1 and the first n of x2, or a pair: an axis or
            axes of x1, and those of x2 that belong to them.

    Returns:
        An array with the remaining axes of x1, then those of x2.

    Raises:
        ShapeError: axes that belong together differ in length.

    >>> import functensor.numpy as np
    >>> np.linalg.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    return ops.tensordot(x1, x2, axes)


@of_arrays
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Returns the products of every element of one vector with every element of another.

    Args:
        x1, x2: arrays of one axis, of lengths m and n.

    Returns:
        An array of shape (m, n).

    Raises:
        ShapeError: an argument has not one axis.

    >>> import functensor.numpy as np
    >>> np.linalg.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    x1, x2 = arrays_together((x1, x2), "outer")
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise misfit(
            f"outer: vectors are needed, not shapes {x1.shape} and {x2.shape}",
            "np.outer flattens; x1[..., :, None] * x2[..., None, :] multiplies stacks",
        )
    return ops.outer(x1, x2)


@of_arrays
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Returns the cross products of vectors of three components.

    Args:
        x1, x2: arrays whose other axes broadcast.
        axis: the axis of the components.

    Returns:
        An array of the shape to which the arguments broadcast.

    Raises:
        ValueError: there are not three components.

    >>> import functensor.numpy as np
    >>> np.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]
    """
    x1, x2 = asarray(x1), asarray(x2)
    for x in (x1, x2):
        if x.ndim and x.shape[canonical_axis(axis, x.ndim)] != 3:
            raise misfit(
                f"linalg.cross: three components are needed, not shapes {x1.shape} and {x2.shape}",
                "np.cross(a, b) takes two components too",
            )
    return cross_of_axes(x1, x2, axisa=axis, axisb=axis, axisc=axis)


@of_array
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Returns the diagonals of a stack of matrices.

    Args:
        x: an array of shape (..., m, n).
        offset: which diagonal: 0 the main one, positive ones above it.

    Returns:
        An array of shape (..., k).

    Raises:
        MatrixShapeError: x has fewer than two axes.

    >>> import functensor.numpy as np
    >>> np.linalg.diagonal([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    return ops.diagonal(with_matrices("diagonal", x), offset, -2, -1)


@of_array
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Returns the sums of the diagonals of a stack of matrices.

    Args:
        x: an array of shape (..., m, n).
        offset: which diagonal: 0 the main one, positive ones above it.
        dtype: of the result; None for the sum's own choice.

    Returns:
        An array of shape (...).

    Raises:
        MatrixShapeError: x has fewer than two axes.

    >>> import functensor.numpy as np
    >>> float(np.linalg.trace([[1.0, 2.0], [3.0, 4.0]]))
    5.0
    """
    return ops.trace(with_matrices("trace", x), offset, -2, -1, dtype)


@of_array
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Returns a stack of matrices with rows and columns swapped.

    Args:
        x: an array of shape (..., m, n).

    Returns:
        An array of shape (..., n, m).

    Raises:
        MatrixShapeError: x has fewer than two axes.

    >>> import functensor.numpy as np
    >>> np.linalg.matrix_transpose(np.ones((4, 2, 3))).shape
    (4, 3, 2)
    """
    return with_matrices("matrix_transpose", x).mT


@of_array
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Returns square matrices to an integer power, by repeated squaring.

    Args:
        a: an array of shape (..., m, m).
        n: the power; of a negative one the inverse is taken.

    Returns:
        An array of a's shape; of integers to a power that is not negative an array of integers.

    Raises:
        TypeError: n is not an integer.
        MatrixShapeError: the matrices are not square.
        LinAlgError: n is negative and a matrix is singular.

    >>> import functensor.numpy as np
    >>> np.linalg.matrix_power([[1, 1], [0, 1]], 3).tolist()
    [[1, 3], [0, 1]]
    """
    n = operator.index(n)
    given = asarray(a)
    # Products of halves are halves; LAPACK inverts none.
    half = n >= 0 and given.dtype.kind in "fV" and given.dtype.itemsize == 2
    checked = ops.astype(given, np.float32) if half else given
    checked = as_matrices("matrix_power", checked, square=True)
    if n < 0:
        return matrix_power(solving.inv.bind((checked,), {"strict": True}), -n)
    if n == 0:
        one = eye(given.shape[-1], dtype=given.dtype, device=given.device)
        return ops.broadcast_to(one, given.shape)
    square = given
    while not n % 2:
        n, square = n // 2, ops.matmul(square, square)
    power = square
    while n := n // 2:
        square = ops.matmul(square, square)
        if n % 2:
            power = ops.matmul(power, square)
    return power


@of_sequence
def multi_dot(arrays: Sequence[ArrayLike], *, out: None = None) -> Array:
    """Returns the product of several matrices, in the order that costs least.

    Args:
        arrays: at least two matrices; the first and the last may be vectors.
        out: None; arrays are immutable.

    Returns:
        Their matrix product, without the axes that vectors lack.

    Raises:
        ValueError: there are fewer than two.
        ShapeError: one in the middle is no matrix, or neighbours do not fit.

    T. Cormen et al., "Introduction to Algorithms", section 15.2.

    >>> import functensor.numpy as np
    >>> np.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)]).tolist()
    [12.0, 12.0]
    """
    refuse_out("multi_dot", out, "np.linalg")
    operands = arrays_together(arrays, "multi_dot")
    if len(operands) < 2:
        raise ValueError(f"multi_dot: at least two arrays are needed, not {len(operands)}")
    ends = operands[0], operands[-1]
    if any(len(x.shape) != 2 for x in operands[1:-1]) or any(
        len(x.shape) not in (1, 2) for x in ends
    ):
        raise misfit(
            f"multi_dot: shapes {[x.shape for x in operands]}: all but the first and the last "
            "have to be matrices",
            "np.matmul multiplies stacks of matrices",
        )
    first, last = (len(x.shape) == 1 for x in ends)
    if first:
        operands[0] = ops.reshape(operands[0], (1, -1))
    if last:
        operands[-1] = ops.reshape(operands[-1], (-1, 1))
    product = _product_by_splits(operands, _best_splits(operands), 0, len(operands) - 1)
    shape = product.shape[first : 2 - last]
    return product if len(shape) == 2 else ops.reshape(product, shape)


def _best_splits(operands: Sequence[Array]) -> dict[tuple[int, int], int]:
    """Returns for every run of matrices behind which of them to split it."""
    lengths = [operands[0].shape[0], *(x.shape[1] for x in operands)]
    cost = {(i, i): 0 for i in range(len(operands))}
    split = {}
    for width in range(1, len(operands)):
        for i in range(len(operands) - width):
            j = i + width
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k)
                for k in range(i, j)
            )
    return split


def _product_by_splits(
    operands: Sequence[Array], split: dict[tuple[int, int], int], i: int, j: int
) -> Array:
    if i == j:
        return operands[i]
    k = split[i, j]
    left = _product_by_splits(operands, split, i, k)
    return ops.matmul(left, _product_by_splits(operands, split, k + 1, j))
