"""Arguments of linear algebra: matrices of real or complex numbers, and what to say of others."""

from __future__ import annotations

import numpy as np

from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside, operands_together
from ...primitives.core.errors import ShapeError, failure, misfit
from ...primitives.core.shape_dtype import result_type
from ...primitives.linalg.stacks import adjoint
from ..arguments import as_inexact
from ..creation import asarray

__all__ = [
    "MatrixShapeError", "as_matrices", "in_common_dtype", "inexact", "mirrored", "right_hand_side",
    "with_matrices",
]  # fmt: skip

LAPACK_DTYPES = "fdFD"


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An array is no matrix, or no square one; NumPy raises LinAlgError."""


def inexact(name: str, x: ArrayLike) -> Array:
    """Returns an argument as an array of numbers that LAPACK computes with.

    Raises:
        TypeError: it has half or extended precision.
    """
    x = as_inexact(x)
    if x.dtype.char not in LAPACK_DTYPES:
        raise TypeError(
            f"{name} computes in single and double precision, not in {x.dtype}: x.astype('float32')"
        )
    return x


def with_matrices(name: str, x: ArrayLike) -> Array:
    """Returns an argument as an array of at least two axes, of any dtype.

    Raises:
        MatrixShapeError: it has fewer.
    """
    x = asarray(x)
    if len(x.shape) < 2:
        raise failure(
            MatrixShapeError,
            f"{name}: an array of shape {x.shape} is no matrix: two axes are needed",
            fix="x[:, None] makes a column of a vector, x[None, :] a row",
            number=16,
        )
    return x


def as_matrices(name: str, x: ArrayLike, *, square: bool = False) -> Array:
    """Returns an argument as a stack of real or complex matrices.

    Raises:
        MatrixShapeError: it has fewer than two axes, or its matrices have to be square and are not.
    """
    x = with_matrices(name, inexact(name, x))
    if square and x.shape[-1] != x.shape[-2]:
        raise failure(
            MatrixShapeError,
            f"{name}: matrices of shape {x.shape[-2:]} are not square",
            fix="lstsq and pinv take any shape; x @ x.mT and x.mT @ x are square",
            number=16,
        )
    return x


def in_common_dtype(*arrays: Array) -> list[Array]:
    """Returns arrays in the dtype to which theirs promote."""
    common = result_type(*(x.dtype for x in arrays))
    return [x if x.dtype == common else ops.astype(x, common) for x in arrays]


def right_hand_side(name: str, a: Array, b: ArrayLike) -> tuple[Array, Array, bool]:
    """Returns matrices and the columns that go with them, alike, and whether b was a vector.

    Raises:
        ShapeError: b has not as many rows.
    """
    b = inexact(name, operands_together(name, a, b)[1])
    vector = len(b.shape) == 1
    if vector:
        b = ops.expand_dims(b, -1)
    if len(b.shape) < 2 or b.shape[-2] != a.shape[-2]:
        shape = b.shape[:1] if vector else b.shape
        raise misfit(
            f"{name}: b of shape {shape} for matrices of shape {a.shape[-2:]}: "
            f"{a.shape[-2]} rows are needed",
            "b is one vector (n,) or a stack (..., n, k): b[..., None] stacks vectors",
        )
    a, b = in_common_dtype(a, b)
    return a, b, vector


def mirrored(a: Array, *, lower: bool, hermitian: bool = True) -> Array:
    """Returns Hermitian or symmetric matrices of which one triangle counts, as LAPACK reads them.

    Values in the other one, be they NaN, have no influence, and their derivative is 0. That by an
    element that is read is that by both of the places where it counts.
    """
    ones = np.ones(a.shape[-2:], bool)
    unread = beside(a, np.triu(ones, 1) if lower else np.tril(ones, -1))
    return ops.where(unread, adjoint(a) if hermitian else a.mT, a)
