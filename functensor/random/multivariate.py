"""Random vectors and matrices."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DTypeLike, ShapeLike
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import misfit
from .continuous import normal
from .keys import RandomKey, beside_draws, check_fit, real_dtype, shape_for, shape_of_draws

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: RandomKey,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    method: str = "cholesky",
) -> Array:
    """Returns vectors of a normal distribution with a covariance.

    Args:
        key: a key.
        mean: the means, of shape ``(..., n)``; derivatives flow to them.
        cov: the covariance, symmetric and positive, of shape ``(..., n, n)``; derivatives flow to
            it where the method has them.
        shape: the result's shape without the last axis; None stands for that to which mean and
            cov broadcast.
        dtype: a real dtype.
        method: how cov is taken apart: "cholesky", or "eigh" or "svd", which take a singular cov.

    Returns:
        An array of shape ``(*shape, n)`` and that dtype.

    Raises:
        ValueError: there is no such method.
        ShapeError: the shapes do not fit.

    >>> from functensor import random
    >>> x = random.multivariate_normal(random.key(0), [0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], (5,))
    >>> x.shape
    (5, 2)
    """
    from ..numpy import linalg  # imported when it is first used

    dtype = real_dtype(dtype, "multivariate_normal")
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"multivariate_normal: method={method!r}; cholesky, eigh or svd")
    given = beside_draws("multivariate_normal", mean, cov)
    mean, cov = (ops.astype(asarray(x), dtype) for x in given)
    n = mean.shape[-1] if mean.shape else -1
    if n < 0 or cov.shape[-2:] != (n, n):
        raise misfit(
            f"multivariate_normal: mean of shape {mean.shape}, cov of shape {cov.shape}",
            "mean of shape (..., n) goes with cov of shape (..., n, n)",
        )
    batches = np.empty(mean.shape[:-1]), np.empty(cov.shape[:-2])
    shape = shape_for("multivariate_normal", shape, *batches)
    if method == "cholesky":
        factor = linalg.cholesky(cov)
    else:
        if method == "eigh":
            values, vectors = linalg.eigh(cov)
        else:
            vectors, values, _ = linalg.svd(cov)
        factor = ops.multiply(vectors, ops.expand_dims(_roots_of_variances(values), -2))
    drawn = ops.expand_dims(normal(key, (*shape, n), dtype), -1)
    return ops.add(ops.squeeze(ops.matmul(factor, drawn), axis=-1), mean)


def _roots_of_variances(values: Array) -> Array:
    """Returns square roots: of what rounding has made negative, zero without a derivative."""
    positive = ops.greater(values, 0.0)
    return ops.where(positive, ops.sqrt(ops.where(positive, values, 1.0)), 0.0)


def orthogonal(
    key: RandomKey,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    m: int | None = None,
) -> Array:
    """Returns orthogonal matrices, each as likely as every other.

    Args:
        key: a key.
        n: the number of rows.
        shape: of how many matrices.
        dtype: a real or complex dtype; complex matrices are unitary.
        m: the number of columns; None stands for n. The longer of rows and columns are
            orthonormal.

    Returns:
        An array of shape ``(*shape, n, m)`` and that dtype. Source: F. Mezzadri, "How to generate
        random matrices from the classical compact groups", 2007.

    >>> import functensor.numpy as np
    >>> from functensor import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> np.allclose(q @ q.T, np.eye(3))
    Array(True, dtype=bool, device='cpu')
    """
    from ..numpy import linalg  # imported when it is first used

    m = n if m is None else m
    if n < 0 or m < 0:
        raise ValueError(f"orthogonal: a matrix of {n} rows and {m} columns")
    shape = shape_of_draws(shape)
    check_fit("orthogonal", shape)
    drawn = normal(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = linalg.qr(drawn)
    diagonal = ops.diagonal(r, axis1=-2, axis2=-1)
    # The signs, or phases, that QR leaves open.
    size = ops.abs(diagonal)
    phases = ops.divide(diagonal, ops.where(ops.equal(size, 0.0), 1.0, size))
    q = ops.multiply(q, ops.expand_dims(phases, -2))
    return ops.swapaxes(q, -1, -2) if n < m else q
