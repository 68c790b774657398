"""Rarer distributions of numbers: on the unit interval, of quotients, and of correlations."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, nan, pi
from typing import Any

import numpy as np

from ... import random
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...scipy import special
from ...tensors import Tensor, no_grad
from . import constraints
from .constraints import unchanging
from .counts import Trials
from .distribution import Distribution, ExponentialFamily, Parameter, noise, together
from .gammas import Beta, Gamma
from .real_line import EULERS_CONSTANT

__all__ = ["ContinuousBernoulli", "FisherSnedecor", "Kumaraswamy", "LKJCholesky"]

OVER_ZERO = constraints.positive


class Kumaraswamy(Distribution):
    """Kumaraswamy's distribution, of density proportional to x**(a - 1) (1 - x**a)**(b - 1).

    Args:
        concentration1, concentration0: a and b.
        validate_args: whether parameters and values are checked.

    >>> from functensor.torch.distributions import Kumaraswamy
    >>> Kumaraswamy(1.0, 1.0).mean.item()
    0.5
    """

    arg_constraints = unchanging({"concentration1": OVER_ZERO, "concentration0": OVER_ZERO})
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Parameter, concentration0: Parameter,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.concentration1, self.concentration0 = together(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        a = self.concentration1
        return self.icdf(noise(random.uniform, a, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        x, a, b = self._validate_sample(value), self.concentration1, self.concentration0
        return ops.log(a * b) + special.xlogy(a - 1, x) + special.xlog1py(b - 1, -(x**a))

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        x = self._validate_sample(value)
        return 1 - (1 - x**self.concentration1) ** self.concentration0

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities."""
        return (1 - (1 - value) ** (1 / self.concentration0)) ** (1 / self.concentration1)

    def _moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        return ops.exp(ops.log(b) + special.betaln(1 + n / a, b))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """The value of greatest density; NaN where it is at an end."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        part = ops.where(inside, (a - 1) / ops.where(inside, a * b - 1, 1), 1)
        return ops.where(inside, part ** (1 / a), nan)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._moment(2) - self.mean**2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        a, b = self.concentration1, self.concentration0
        harmonic = special.digamma(b + 1) + EULERS_CONSTANT
        return 1 - 1 / b + (1 - 1 / a) * harmonic - ops.log(a * b)


class FisherSnedecor(Distribution):
    """The distribution of quotients of means of squares of standard normal numbers.

    Args:
        df1, df2: of how many squares the means are.
        validate_args: whether parameters and values are checked.

    >>> from functensor.torch.distributions import FisherSnedecor
    >>> FisherSnedecor(3.0, 4.0).mean.item()
    2.0
    """

    arg_constraints = unchanging({"df1": OVER_ZERO, "df2": OVER_ZERO})
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, df1: Parameter, df2: Parameter, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = together(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        above, below = (
            ops.broadcast_to(Gamma(n / 2, n / 2).rsample(sample_shape), shape)
            for shape in [self._extended_shape(sample_shape)]
            for n in (self.df1, self.df2)
        )
        return above / ops.maximum(below, np.finfo(self.df1.dtype).tiny)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        x, m, n = self._validate_sample(value), self.df1, self.df2
        ratio = m / n
        whole = special.betaln(m / 2, n / 2)
        start = m / 2 * ops.log(ratio) + special.xlogy(m / 2 - 1, x)
        return start - (m + n) / 2 * ops.log1p(ratio * x) - whole

    def _above(self, n: int, value: Any) -> Any:
        """Returns values, NaN where there are no more than n squares below."""
        return ops.where(self.df2 > n, value(ops.where(self.df2 > n, self.df2, n + 1)), nan)

    @property
    def mean(self) -> Any:
        """The mean; NaN for two squares below, and fewer."""
        return self._above(2, lambda n: n / (n - 2))

    @property
    def mode(self) -> Any:
        """The value of greatest density; NaN for two squares above, and fewer."""
        m, n = self.df1, self.df2
        return ops.where(m > 2, (m - 2) / m * n / (n + 2), nan)

    @property
    def variance(self) -> Any:
        """The variance; NaN for four squares below, and fewer."""
        m = self.df1
        return self._above(
            4, lambda n: 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4))
        )


class ContinuousBernoulli(Trials, ExponentialFamily):
    """The distribution of density proportional to p**x (1 - p)**(1 - x) on the unit interval.

    Args:
        probs: p.
        logits: its log-odds, if it is not given.
        lims: between these, near 1/2, functions of p are computed by series.
        validate_args: whether parameters and values are checked.

    G. Loaiza-Ganem and J. Cunningham, "The continuous Bernoulli: fixing a pervasive error in
    variational autoencoders", 2019.

    >>> from functensor.torch.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(0.5).mean.item()
    0.5
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None,
        lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._take(probs, logits)
        self._lims = lims
        super().__init__(self.probs.shape, (), validate_args)

    def _chosen(self, exact: Any, series: Any) -> Any:
        """Returns a function of p, and near 1/2 its series in p - 1/2."""
        nearly = np.finfo(self.probs.dtype).eps
        p = ops.clip(self.probs, nearly, 1 - nearly)
        far = (p < self._lims[0]) | (p > self._lims[1])
        found = exact(ops.where(far, p, self._lims[0]))
        return ops.where(far, found, series(ops.where(far, 0.0, p - 0.5)))

    def _log_norm(self) -> Any:
        return self._chosen(
            lambda p: ops.log(ops.abs(ops.log1p(-p) - ops.log(p)) / ops.abs(1 - 2 * p)),
            lambda d: log(2.0) + (4 / 3 + 104 / 45 * d**2) * d**2,
        )

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        return self._log_norm() - self._cross_entropy(self._validate_sample(value))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        return self.icdf(noise(random.uniform, self.probs, self._extended_shape(sample_shape)))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which no derivative flows."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        x = self._validate_sample(value)
        found = self._chosen(
            lambda p: (p**x * (1 - p) ** (1 - x) + p - 1) / (2 * p - 1), lambda d: x + 0 * d
        )
        return ops.where(x <= 0, 0.0, ops.where(x >= 1, 1.0, found))

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities."""
        u = value
        return self._chosen(
            lambda p: (ops.log1p(-p + u * (2 * p - 1)) - ops.log1p(-p))
            / (ops.log(p) - ops.log1p(-p)),
            lambda d: u + 0 * d,
        )

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._chosen(
            lambda p: p / (2 * p - 1) + 1 / (ops.log1p(-p) - ops.log(p)),
            lambda d: 0.5 + (1 / 3 + 16 / 45 * d**2) * d,
        )

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._chosen(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / (ops.log1p(-p) - ops.log(p)) ** 2,
            lambda d: 1 / 12 - (1 / 15 - 128 / 945 * d**2) * d**2,
        )

    @property
    def mode(self) -> Any:
        """There is none that is the law's.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("ContinuousBernoulli has no mode")

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return self._cross_entropy(self.mean) - self._log_norm()


class LKJCholesky(Distribution):
    """The distribution of Cholesky factors of correlations C, of density proportional to
    det(C)**(concentration - 1).

    Args:
        dim: how many variables there are.
        concentration: 1 for all correlations alike; more for weaker ones.
        validate_args: whether parameters and values are checked.

    Raises:
        ValueError: there are fewer than two variables.

    D. Lewandowski, D. Kurowicka and H. Joe, "Generating random correlation matrices based on vines
    and extended onion method", 2009.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import LKJCholesky
    >>> factor = LKJCholesky(3, 0.5).sample()
    >>> torch.allclose((factor @ factor.T).diagonal(), torch.ones(3))
    True
    """

    arg_constraints = unchanging({"concentration": OVER_ZERO})
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim is {dim}, it must be at least 2")
        self.dim = dim
        (self.concentration,) = together(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, row by row: a length, and a direction."""
        with no_grad():
            c = self.concentration.detach()[..., None]
            before: Any = beside(c, np.maximum(np.arange(self.dim) - 1, 0).astype(c.dtype))
            rest = c + (self.dim - 2 - before) / 2
            shares = Beta((before + 1) / 2, rest).sample(sample_shape)
            normal = noise(random.normal, c, self._extended_shape(sample_shape))
            directions = ops.tril(normal, -1)
            lengths = ops.sqrt(ops.sum(directions**2, axis=-1, keepdims=True))
            below = ops.sqrt(shares)[..., None] * directions / ops.where(lengths == 0, 1, lengths)
            left = ops.maximum(1 - ops.sum(below**2, axis=-1), np.finfo(c.dtype).tiny)
            unit = beside(c, np.eye(self.dim, dtype=c.dtype))
            return below + unit * ops.sqrt(left)[..., None]

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of factors."""
        factor, c, n = self._validate_sample(value), self.concentration, self.dim - 1
        powers = beside(c, np.arange(self.dim - 2, -1, -1).astype(c.dtype))
        powers = powers + 2 * (c[..., None] - 1)
        shape = ops.sum(powers * ops.log(ops.diagonal(factor, 0, -2, -1)[..., 1:]), axis=-1)
        a = c + n / 2
        whole = n / 2 * log(pi) + special.multigammaln(a - 0.5, n) - special.gammaln(a) * n
        return shape - whole

    def __repr__(self) -> str:
        return f"LKJCholesky(dim: {self.dim}, concentration: {self.concentration.tolist()})"
