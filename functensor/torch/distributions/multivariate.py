"""The normal distribution of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from typing import Any

import numpy as np

from ... import random
from ...numpy import linalg
from ...primitives.core.errors import failure
from ...primitives.core.registry import registry as ops
from ...scipy.linalg import solve_triangular
from ...tensors import Tensor
from ...tensors.functions.products import cholesky
from . import constraints
from .constraints import unchanging
from .distribution import Centred, Distribution, noise

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Centred, Distribution):
    """The normal distribution of vectors.

    Args:
        loc: means, along the last axis.
        covariance_matrix, precision_matrix, scale_tril: one of these: the covariance, its inverse,
            or its lower triangular factor.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import MultivariateNormal
    >>> MultivariateNormal(torch.zeros(2), torch.eye(2)).event_shape
    (2,)
    """

    arg_constraints = unchanging({
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    })
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        passed = [(name, x) for name, x in given.items() if x is not None]
        if len(passed) != 1:
            raise failure(
                ValueError,
                f"MultivariateNormal: pass one matrix, not {len(passed)}: covariance_matrix, "
                "precision_matrix or scale_tril",
                fix="MultivariateNormal(loc, covariance_matrix=c)",
            )
        ((name, matrix),) = passed
        size = matrix.shape[-1]
        batch = np.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = ops.broadcast_to(loc, (*batch, size))
        vars(self)[name] = ops.broadcast_to(matrix, (*batch, size, size))
        super().__init__(batch, (size,), validate_args)
        self._factor = self._factor_of(name, vars(self)[name])

    @staticmethod
    def _factor_of(name: str, matrix: Any) -> Any:
        if name == "scale_tril":
            return matrix
        return cholesky(matrix if name == "covariance_matrix" else linalg.inv(matrix))

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        if "_factor" in held:
            factor = held["_factor"]
            if name == "scale_tril":
                return factor
            if name == "covariance_matrix":
                return ops.matmul(factor, ops.swapaxes(factor, -1, -2))
            if name == "precision_matrix":
                return linalg.inv(self.covariance_matrix)
        raise AttributeError(f"MultivariateNormal has no attribute {name!r}")

    def _log_root_det(self) -> Any:
        return ops.sum(ops.log(ops.diagonal(self._factor, 0, -2, -1)), axis=-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        standard = noise(random.normal, self.loc, self._extended_shape(sample_shape))
        return self.loc + ops.matmul(self._factor, standard[..., None])[..., 0]

    def _standardized(self, difference: Any) -> Any:
        """Returns the solutions of the factor times them equal to vectors."""
        factor = ops.broadcast_to(self._factor, (*difference.shape, difference.shape[-1]))
        return solve_triangular(factor, difference[..., None], lower=True)[..., 0]

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        difference = self._validate_sample(value) - self.loc
        shape = np.broadcast_shapes(difference.shape, self._extended_shape())
        z = self._standardized(ops.broadcast_to(difference, shape))
        size = self._event_shape[0]
        return -0.5 * (size * log(2 * pi) + ops.sum(z**2, axis=-1)) - self._log_root_det()

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 0.5 * self._event_shape[0] * (1 + log(2 * pi)) + self._log_root_det()

    @property
    def variance(self) -> Any:
        """The variance of every element."""
        return ops.sum(self._factor**2, axis=-1)
