"""Arguments of linear algebra: matrices of real or complex numbers, and what to say of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...primitives.errors import ShapeError, message
from ...primitives.matrices import adjoint
from ...primitives.registry import registry as ops
from ..creation import asarray

__all__ = [
    "MatrixShapeError",
    "alike",
    "inexact",
    "matrices",
    "mirrored",
    "right_hand_side",
]

LAPACK_DTYPES = "fdFD"


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An array is no matrix, or no square one; NumPy raises LinAlgError."""


def inexact(name: str, x: Any) -> Any:
    """Returns an argument as an array of numbers that LAPACK computes with.

    Raises:
        TypeError: it has half or extended precision.
    """
    x = asarray(x)
    if x.dtype.kind in "biu":
        return ops.astype(x, np.float64)
    if x.dtype.char not in LAPACK_DTYPES:
        raise TypeError(
            f"{name} computes in single and double precision, not in {x.dtype}: "
            "x.astype('float32')"
        )
    return x


def matrices(name: str, x: Any, *, square: bool = False) -> Any:
    """Returns an argument as a stack of real or complex matrices.

    Raises:
        MatrixShapeError: it has fewer than two axes, or its matrices have to be square and are not.
    """
    x = inexact(name, x)
    if len(x.shape) < 2:
        raise MatrixShapeError(
            message(
                f"{name}: an array of shape {x.shape} is no matrix: two axes are needed",
                fix="x[:, None] makes a column of a vector, x[None, :] a row",
                number=16,
            )
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise MatrixShapeError(
            message(
                f"{name}: matrices of shape {x.shape[-2:]} are not square",
                fix="lstsq and pinv take any shape; x @ x.mT and x.mT @ x are square",
                number=16,
            )
        )
    return x


def alike(*arrays: Any) -> list[Any]:
    """Returns arrays in the dtype to which theirs promote."""
    common = np.result_type(*(x.dtype for x in arrays))
    return [x if x.dtype == common else ops.astype(x, common) for x in arrays]


def right_hand_side(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Returns matrices and the columns that go with them, alike, and whether b was a vector.

    Raises:
        ShapeError: b has not as many rows.
    """
    b = inexact(name, b)
    vector = len(b.shape) == 1
    if vector:
        b = ops.expand_dims(b, -1)
    if len(b.shape) < 2 or b.shape[-2] != a.shape[-2]:
        shape = b.shape[:1] if vector else b.shape
        raise ShapeError(
            message(
                f"{name}: b of shape {shape} for matrices of shape {a.shape[-2:]}: "
                f"{a.shape[-2]} rows are needed",
                fix="b is one vector (n,) or a stack (..., n, k): b[..., None] stacks vectors",
                number=16,
            )
        )
    a, b = alike(a, b)
    return a, b, vector


def mirrored(a: Any, *, lower: bool) -> Any:
    """Returns Hermitian matrices of which one triangle counts, as LAPACK reads them.

    The derivative is by the matrix as a whole, so that gradients are Hermitian too.
    """
    triangle, strict = (ops.tril(a), ops.tril(a, -1)) if lower else (ops.triu(a), ops.triu(a, 1))
    return a + ops.stop_gradient(triangle + adjoint(strict) - a)
