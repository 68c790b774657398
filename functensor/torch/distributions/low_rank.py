"""The normal distribution of vectors whose covariance is of low rank, and a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from typing import Any

import numpy as np

from ... import random
from ...numpy import linalg
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor
from . import constraints
from .constraints import unchanging
from .distribution import Centred, Distribution, noise

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Centred, Distribution):
    """The normal distribution of vectors with the covariance ``W @ W.mT + diag(d)``.

    Densities take the inverse of a matrix of the rank of W, by Woodbury's formula.

    Args:
        loc: means, along the last axis.
        cov_factor: W, of shape (..., size, rank).
        cov_diag: d, positive numbers.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import LowRankMultivariateNormal
    >>> law = LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
    >>> law.variance.tolist()
    [2.0, 2.0]
    """

    arg_constraints = unchanging({
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    })
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        size = loc.shape[-1] if loc.ndim else 0
        if not size or cov_factor.ndim < 2 or cov_factor.shape[-2] != size:
            raise ValueError(
                "LowRankMultivariateNormal: a vector of means and a factor with as many rows, not "
                f"the shapes {tuple(loc.shape)} and {tuple(cov_factor.shape)}"
            )
        if not cov_diag.ndim or cov_diag.shape[-1] != size:
            raise ValueError(
                f"LowRankMultivariateNormal: a diagonal of length {size}, not the shape "
                f"{tuple(cov_diag.shape)}"
            )
        batch = np.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = ops.broadcast_to(loc, (*batch, size))
        self.cov_factor = ops.broadcast_to(cov_factor, (*batch, *cov_factor.shape[-2:]))
        self.cov_diag = ops.broadcast_to(cov_diag, (*batch, size))
        super().__init__(batch, (size,), validate_args)

    def _capacitance_factor(self) -> Any:
        """Returns Cholesky's factor of ``1 + W.mT @ diag(1 / d) @ W``."""
        weighed = self.cov_factor / self.cov_diag[..., None]
        found = ops.matmul(ops.swapaxes(self.cov_factor, -1, -2), weighed)
        return linalg.cholesky(found + np.eye(found.shape[-1], dtype=found.dtype))

    def _log_det(self, factor: Any) -> Any:
        """Returns the logarithm of the covariance's determinant."""
        logs = ops.sum(ops.log(ops.diagonal(factor, 0, -2, -1)), axis=-1)
        return 2 * logs + ops.sum(ops.log(self.cov_diag), axis=-1)

    @property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        size = self._event_shape[0]
        product = ops.matmul(self.cov_factor, ops.swapaxes(self.cov_factor, -1, -2))
        return product + self.cov_diag[..., None] * np.eye(size, dtype=product.dtype)

    @property
    def scale_tril(self) -> Any:
        """The covariance's lower triangular factor."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Any:
        """The covariance's inverse."""
        return linalg.inv(self.covariance_matrix)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        few = noise(random.normal, self.loc, (*shape[:-1], rank))
        many = noise(random.normal, self.loc, shape)
        spread = ops.matmul(self.cov_factor, few[..., None])[..., 0]
        return self.loc + spread + ops.sqrt(self.cov_diag) * many

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        difference = self._validate_sample(value) - self.loc
        factor = self._capacitance_factor()
        weighed = difference / self.cov_diag
        inner = ops.matmul(ops.swapaxes(self.cov_factor, -1, -2), weighed[..., None])
        inner = ops.broadcast_to(inner, (*difference.shape[:-1], *inner.shape[-2:]))
        wide = ops.broadcast_to(factor, (*difference.shape[:-1], *factor.shape[-2:]))
        away = ops.sum(linalg.solve(wide, inner) ** 2, axis=(-2, -1))
        distance = ops.sum(difference * weighed, axis=-1) - away
        size = self._event_shape[0]
        return -0.5 * (size * log(2 * pi) + self._log_det(factor) + distance)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        size = self._event_shape[0]
        return 0.5 * (size * (1 + log(2 * pi)) + self._log_det(self._capacitance_factor()))

    @property
    def variance(self) -> Any:
        """The variance of every element."""
        return ops.sum(self.cov_factor**2, axis=-1) + self.cov_diag
