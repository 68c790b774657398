"""The gamma distribution and its kin; derivatives of draws are those of `functensor.random`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np

from ... import random
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...scipy import special, stats
from ...tensors import Tensor
from . import constraints
from .constraints import unchanging
from .distribution import ExponentialFamily, Parameter, draw_with, together
from .real_line import OfLaw

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "InverseGamma"]

ABOVE_ZERO = constraints.positive


class Gamma(OfLaw, ExponentialFamily):
    """The gamma distribution, of density proportional to x**(concentration - 1) exp(-rate x).

    Args:
        concentration: the shape parameter.
        rate: one divided by the scale.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import Gamma
    >>> Gamma(torch.tensor([2.0, 3.0]), 2.0).mean.tolist()
    [1.0, 1.5]
    """

    arg_constraints = unchanging({"concentration": ABOVE_ZERO, "rate": ABOVE_ZERO})
    support: Any = constraints.nonnegative
    has_rsample = True
    _law = stats.gamma

    def __init__(
        self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = together(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"a": self.concentration, "scale": 1 / self.rate}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        a, shape = self.concentration, self._extended_shape(sample_shape)
        return draw_with(random.gamma, a, shape=shape, dtype=a.dtype) / self.rate

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        """The value of greatest density."""
        return ops.maximum(self.concentration - 1, 0) / self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.concentration / self.rate**2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        a = self.concentration
        return a - ops.log(self.rate) + special.gammaln(a) + (1 - a) * special.digamma(a)


class Chi2(Gamma):
    """The distribution of sums of squares of standard normal numbers.

    Args:
        df: how many numbers.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"df": ABOVE_ZERO})

    def __init__(self, df: Parameter, validate_args: bool | None = None) -> None:
        (self.df,) = together(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)


class InverseGamma(OfLaw):
    """The distribution of one divided by gamma numbers.

    Args:
        concentration, rate: the parameters of the gamma numbers.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"concentration": ABOVE_ZERO, "rate": ABOVE_ZERO})
    support = constraints.positive
    has_rsample = True
    _law = stats.invgamma

    def __init__(
        self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = together(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"a": self.concentration, "scale": self.rate}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        a, shape = self.concentration, self._extended_shape(sample_shape)
        return self.rate / draw_with(random.gamma, a, shape=shape, dtype=a.dtype)

    @property
    def mean(self) -> Any:
        """The mean, infinite for a concentration of 1 or less."""
        a = self.concentration
        return ops.where(a > 1, self.rate / (ops.where(a > 1, a, 2.0) - 1), inf)

    @property
    def mode(self) -> Any:
        """The value of greatest density."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """The variance, infinite for a concentration of 2 or less."""
        large = self.concentration > 2
        a = ops.where(large, self.concentration, 3.0)
        return ops.where(large, self.rate**2 / ((a - 1) ** 2 * (a - 2)), inf)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        a = self.concentration
        return a + ops.log(self.rate) + special.gammaln(a) - (1 + a) * special.digamma(a)


class Beta(OfLaw, ExponentialFamily):
    """The beta distribution, of density proportional to x**(a - 1) (1 - x)**(b - 1).

    Args:
        concentration1, concentration0: a and b.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"concentration1": ABOVE_ZERO, "concentration0": ABOVE_ZERO})
    support = constraints.unit_interval
    has_rsample = True
    _law = stats.beta

    def __init__(
        self,
        concentration1: Parameter,
        concentration0: Parameter,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = together(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"a": self.concentration1, "b": self.concentration0}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        a, b = self.concentration1, self.concentration0
        shape = self._extended_shape(sample_shape)
        return draw_with(random.beta, a, b, shape=shape, dtype=a.dtype)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        """The value of greatest density, 1 where both ends have an infinite one."""
        a, b = self.concentration1, self.concentration0
        above, below = ops.maximum(a - 1, 0), ops.maximum(b - 1, 0)
        flat = above + below == 0
        inner = ops.where(flat, nan, above / ops.where(flat, 1.0, above + below))
        return ops.where((a < 1) & (b < 1), 1.0, inner)

    @property
    def variance(self) -> Any:
        """The variance."""
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        a, b = self.concentration1, self.concentration0
        own = (a - 1) * special.digamma(a) + (b - 1) * special.digamma(b)
        return special.betaln(a, b) - own + (a + b - 2) * special.digamma(a + b)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of vectors of positive numbers whose sum is 1.

    Args:
        concentration: positive parameters along the last axis.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"concentration": constraints.independent(ABOVE_ZERO, 1)})
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("Dirichlet: concentration has at least one axis, not none")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        a, shape = self.concentration, (*sample_shape, *self._batch_shape)
        return draw_with(random.dirichlet, a, shape=shape, dtype=a.dtype)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        a = self.concentration
        powers = ops.sum(special.xlogy(a - 1, self._validate_sample(value)), axis=-1)
        return powers - self._log_norm()

    def _log_norm(self) -> Any:
        a = self.concentration
        return ops.sum(special.gammaln(a), axis=-1) - special.gammaln(ops.sum(a, axis=-1))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / ops.sum(self.concentration, axis=-1, keepdims=True)

    @property
    def mode(self) -> Any:
        """The vector of greatest density; the first corner where all are infinite."""
        a = self.concentration
        above = ops.maximum(a - 1, 0)
        corner = beside(a, np.eye(a.shape[-1])[0].astype(a.dtype))
        total = ops.sum(above, axis=-1, keepdims=True)
        inner = ops.where(total == 0, nan, above / ops.where(total == 0, 1.0, total))
        low = ops.all(a < 1, axis=-1, keepdims=True)
        return ops.where(low, corner, inner)

    @property
    def variance(self) -> Any:
        """The variance of every element."""
        total = ops.sum(self.concentration, axis=-1, keepdims=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        a = self.concentration
        total = ops.sum(a, axis=-1)
        whole = (total - a.shape[-1]) * special.digamma(total)
        return self._log_norm() + whole - ops.sum((a - 1) * special.digamma(a), axis=-1)
