"""Transforms to triangular and to positive matrices, to other shapes, and by distributions."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, log, prod
from typing import Any

import numpy as np

from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor
from ...tensors.functions.products import cholesky
from . import constraints
from .distribution import Distribution
from .transform_base import Transform

__all__ = [
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "ReshapeTransform",
]  # fmt: skip


def below_diagonal(mat: Tensor, diag: int = 0) -> Any:
    """Returns the elements on and below a diagonal of matrices, row by row, as vectors."""
    rows, columns = np.tril_indices(mat.shape[-2], diag, mat.shape[-1])
    return ops.index(mat, (Ellipsis, beside(mat, rows), beside(mat, columns)))


def with_below_diagonal(vec: Tensor, diag: int = 0) -> Any:
    """Returns matrices of such elements, with zeros above."""
    count = vec.shape[-1]
    # As many as a triangle has whose last row ends ``diag`` behind the diagonal.
    twice = 1 + 2 * diag
    n = (isqrt(twice**2 + 8 * count + 4 * abs(diag) * (diag + 1)) - twice) // 2
    rows, columns = np.tril_indices(n, diag)
    if len(rows) != count:
        raise ValueError(f"{count} elements fill no triangle up to diagonal {diag}")
    none = ops.zeros_like(ops.broadcast_to(vec[..., :1, None], (*vec.shape[:-1], n, n)))
    return ops.index_set(none, (Ellipsis, beside(vec, rows), beside(vec, columns)), vec)


class LowerCholeskyTransform(Transform):
    """Square matrices as lower triangular ones with a positive diagonal, its exponentials.

    Args:
        cache_size: is kept; nothing is cached.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import LowerCholeskyTransform
    >>> LowerCholeskyTransform()(torch.tensor([[0.0, 5.0], [3.0, 0.0]])).tolist()
    [[1.0, 0.0], [3.0, 1.0]]
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _with_diagonal(self, x: Tensor, change: Any) -> Any:
        unit = beside(x, np.eye(x.shape[-1], dtype=x.dtype))
        return ops.tril(x, -1) + unit * change(ops.diagonal(x, 0, -2, -1))[..., None]

    def _call(self, x: Tensor) -> Any:
        return self._with_diagonal(x, ops.exp)

    def _inverse(self, y: Tensor) -> Any:
        return self._with_diagonal(y, ops.log)


class PositiveDefiniteTransform(Transform):
    """Square matrices as products of those of `LowerCholeskyTransform` with their transposes.

    Args:
        cache_size: is kept; nothing is cached.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        factor = LowerCholeskyTransform()(x)
        return ops.matmul(factor, ops.swapaxes(factor, -1, -2))

    def _inverse(self, y: Tensor) -> Any:
        return LowerCholeskyTransform()._inverse(cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers as the Cholesky factors of correlations of n variables.

    The hyperbolic tangents of the numbers are partial correlations.

    Args:
        cache_size: is kept; nothing is cached.

    D. Lewandowski, D. Kurowicka and H. Joe, "Generating random correlation matrices based on vines
    and extended onion method", 2009.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        nearly = np.finfo(x.dtype).eps
        partial = with_below_diagonal(ops.clip(ops.tanh(x), nearly - 1, 1 - nearly), -1)
        left = ops.cumprod(ops.sqrt(1 - partial**2), -1)
        before = ops.concatenate([ops.ones_like(left[..., :1]), left[..., :-1]], -1)
        return (partial + beside(x, np.eye(partial.shape[-1], dtype=x.dtype))) * before

    def _inverse(self, y: Tensor) -> Any:
        left = 1 - ops.cumsum(y * y, -1)
        before = ops.concatenate([ops.ones_like(left[..., :1]), left[..., :-1]], -1)
        return ops.arctanh(below_diagonal(y, -1) / ops.sqrt(below_diagonal(before, -1)))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative's determinant."""
        left = below_diagonal(1 - ops.cumsum(y * y, -1), -2)
        of_tanh = 2 * (x + ops.logaddexp(-2 * x, ops.zeros_like(x)) - log(2.0))
        return ops.sum(ops.log(left), axis=-1) / 2 - ops.sum(of_tanh, axis=-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        n = (1 + isqrt(1 + 8 * shape[-1])) // 2
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: {shape[-1]} numbers fill no triangle")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class ReshapeTransform(Transform):
    """Values of another shape.

    Args:
        in_shape, out_shape: the shapes of a value before and after.
        cache_size: is kept; nothing is cached.

    Raises:
        ValueError: they have not equally many elements.
    """

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if prod(self.in_shape) != prod(self.out_shape):
            raise ValueError(f"ReshapeTransform: {self.in_shape} and {self.out_shape} differ")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _made_of(self) -> tuple[Any, ...]:
        return (*self.in_shape, -1, *self.out_shape)

    def _call(self, x: Tensor) -> Any:
        return ops.reshape(x, self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Any:
        return ops.reshape(y, self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns zeros."""
        batch = x.shape[: x.ndim - len(self.in_shape)]
        return beside(x, np.zeros(batch, x.dtype))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        return replaced_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        return replaced_end(shape, self.out_shape, self.in_shape)


def replaced_end(
    shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...]:
    """Returns a shape with another end."""
    start = len(shape) - len(old)
    if start < 0 or tuple(shape[start:]) != old:
        raise ValueError(f"ReshapeTransform: the shape {tuple(shape)} does not end in {old}")
    return (*shape[:start], *new)


class CumulativeDistributionTransform(Transform):
    """Numbers as their probabilities to be exceeded by no more, under a distribution.

    Args:
        distribution: has ``cdf`` and ``icdf``.
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the density."""
        return self.distribution.log_prob(x)
