"""Distributions of numbers with a location and a scale, and those of positive numbers like them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, nan, pi
from typing import Any, ClassVar

from ... import random
from ...primitives.core.registry import registry as ops
from ...scipy import special, stats
from ...tensors import Tensor
from ..creation import full_like
from . import constraints
from .constraints import Constraint, unchanging
from .distribution import (
    Centred,
    Distribution,
    ExponentialFamily,
    Parameter,
    draw_with,
    noise,
    together,
)

__all__ = [
    "Cauchy", "Exponential", "Gumbel", "HalfCauchy", "HalfNormal", "Laplace", "LogNormal",
    "Normal", "OfLaw", "StudentT", "Uniform",
]  # fmt: skip

EULERS_CONSTANT = 0.5772156649015329
PLACED_PARAMETERS: dict[str, Constraint] = {
    "loc": constraints.real,
    "scale": constraints.positive,
}


class OfLaw(Distribution):
    """A distribution of numbers whose functions are those of one of `functensor.scipy.stats`."""

    _law: ClassVar[Any]

    def _of_law(self) -> dict[str, Any]:
        """Returns the parameters by their names there."""
        return {"loc": self.loc, "scale": self.scale}  # type: ignore[attr-defined]

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density, or probability, of values."""
        law = self._law
        function = law.logpdf if hasattr(law, "logpdf") else law.logpmf
        return function(self._validate_sample(value), **self._of_law())

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        return self._law.cdf(self._validate_sample(value), **self._of_law())

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities."""
        return self._law.ppf(value, **self._of_law())


class LocationScale(Centred, OfLaw):
    """A distribution whose values are drawn with location 0 and scale 1, and then moved."""

    arg_constraints = unchanging(PLACED_PARAMETERS)
    support: Any = constraints.real
    has_rsample = True
    _standard: ClassVar[Any]

    def __init__(
        self, loc: Parameter, scale: Parameter, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = together(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        standard = noise(type(self)._standard, self.loc, self._extended_shape(sample_shape))
        return self.loc + self.scale * standard


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import Normal
    >>> round(Normal(0.0, 1.0).log_prob(torch.tensor(0.0)).item(), 4)
    -0.9189
    """

    _law, _standard = stats.norm, staticmethod(random.normal)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 0.5 + 0.5 * log(2 * pi) + ops.log(self.scale)


class Laplace(LocationScale):
    """The Laplace distribution, of density exp(-abs(x - loc) / scale) / (2 scale).

    Args:
        loc, scale, validate_args: as for `Normal`.
    """

    _law, _standard = stats.laplace, staticmethod(random.laplace)

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale**2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 1 + ops.log(2 * self.scale)


class Cauchy(LocationScale):
    """The Cauchy distribution, which has no mean.

    Args:
        loc: the median.
        scale: half of the distance of the quartiles.
        validate_args: whether parameters and values are checked.
    """

    _law, _standard = stats.cauchy, staticmethod(random.cauchy)

    @property
    def mean(self) -> Any:
        """NaN: there is none."""
        return full_like(self.loc, nan)

    @property
    def variance(self) -> Any:
        """Infinity: there is no finite one."""
        return full_like(self.loc, inf)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return log(4 * pi) + ops.log(self.scale)


class Gumbel(LocationScale):
    """Gumbel's distribution of the greatest of many numbers.

    Args:
        loc, scale, validate_args: as for `Normal`; loc is the mode.
    """

    _law, _standard = stats.gumbel_r, staticmethod(random.gumbel)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc + self.scale * EULERS_CONSTANT

    @property
    def variance(self) -> Any:
        """The variance."""
        return (pi**2 / 6) * self.scale**2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return ops.log(self.scale) + (1 + EULERS_CONSTANT)


class LogNormal(LocationScale):
    """The distribution of the exponentials of normal numbers.

    Args:
        loc, scale: the mean and the standard deviation of the logarithm.
        validate_args: whether parameters and values are checked.
    """

    support = constraints.positive
    _law, _standard = stats.lognorm, staticmethod(random.normal)

    def _of_law(self) -> dict[str, Any]:
        return {"s": self.scale, "scale": ops.exp(self.loc)}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        return ops.exp(super().rsample(sample_shape))

    @property
    def mean(self) -> Any:
        """The mean."""
        return ops.exp(self.loc + self.scale**2 / 2)

    @property
    def mode(self) -> Any:
        """The value of greatest density."""
        return ops.exp(self.loc - self.scale**2)

    @property
    def variance(self) -> Any:
        """The variance."""
        square = self.scale**2
        return ops.expm1(square) * ops.exp(2 * self.loc + square)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 0.5 + 0.5 * log(2 * pi) + ops.log(self.scale) + self.loc


class StudentT(LocationScale):
    """Student's t distribution.

    Args:
        df: degrees of freedom.
        loc, scale: the location and the scale.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"df": constraints.positive, **PLACED_PARAMETERS})
    _law = stats.t

    def __init__(
        self,
        df: Parameter,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, loc, scale = together(df, loc, scale)
        super().__init__(loc, scale, validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"df": self.df, "loc": self.loc, "scale": self.scale}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        shape = self._extended_shape(sample_shape)
        standard = draw_with(random.student_t, self.df, shape=shape, dtype=self.df.dtype)
        return self.loc + self.scale * standard

    @property
    def mean(self) -> Any:
        """The mean, NaN for one degree of freedom or less."""
        return ops.where(self.df <= 1, nan, self.loc)

    @property
    def variance(self) -> Any:
        """The variance, infinite for two degrees of freedom or less, NaN for one or less."""
        df = self.df
        finite = self.scale**2 * df / (ops.where(df > 2, df, 3.0) - 2)
        return ops.where(df > 2, finite, ops.where(df > 1, full_like(df, inf), nan))

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        df = self.df
        half = 0.5 * (df + 1)
        spread = special.betaln(0.5 * df, full_like(df, 0.5)) + 0.5 * ops.log(df)
        turn = half * (special.digamma(half) - special.digamma(0.5 * df))
        return ops.log(self.scale) + turn + spread


class Uniform(OfLaw):
    """The distribution of equal density between two bounds.

    Args:
        low, high: the bounds.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"low": constraints.dependent, "high": constraints.dependent})
    has_rsample = True
    _law = stats.uniform

    def __init__(
        self, low: Parameter, high: Parameter, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = together(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if self._validate_args:
            self._refuse("parameter low", self.low, constraints.less_than(self.high))

    @property
    def support(self) -> Constraint:
        """The numbers between the bounds."""
        return constraints.interval(self.low, self.high)

    @support.setter
    def support(self, value: Any) -> None:
        raise AttributeError("support of Uniform follows from its bounds")

    def _of_law(self) -> dict[str, Any]:
        return {"loc": self.low, "scale": self.high - self.low}

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values; the upper bound has none."""
        value = self._validate_sample(value)
        within = ops.logical_and(self.low <= value, value < self.high)
        return ops.where(within, -ops.log(self.high - self.low), -inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        standard = noise(random.uniform, self.low, self._extended_shape(sample_shape))
        return self.low + (self.high - self.low) * standard

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Any:
        """NaN: all densities are equal."""
        return full_like(self.low, nan)

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return ops.log(self.high - self.low)


class Scaled(OfLaw):
    """A distribution of numbers from 0 up, drawn with scale 1."""

    arg_constraints = unchanging({"scale": constraints.positive})
    support: Any = constraints.nonnegative
    has_rsample = True
    _standard: ClassVar[Any]

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        (self.scale,) = together(scale)
        super().__init__(self.scale.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"scale": self.scale}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.scale * ops.abs(noise(type(self)._standard, self.scale, shape))

    @property
    def mode(self) -> Any:
        """Zero, the value of greatest density."""
        return full_like(self.scale, 0.0)


class HalfNormal(Scaled):
    """The distribution of the absolute values of normal numbers of mean 0.

    Args:
        scale: the normal numbers' standard deviation.
        validate_args: whether parameters and values are checked.
    """

    _law, _standard = stats.halfnorm, staticmethod(random.normal)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.scale * (2 / pi) ** 0.5

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2 * (1 - 2 / pi)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 0.5 + 0.5 * log(pi / 2) + ops.log(self.scale)


class HalfCauchy(Scaled):
    """The distribution of the absolute values of Cauchy numbers around 0.

    Args:
        scale: the median.
        validate_args: whether parameters and values are checked.
    """

    _standard = staticmethod(random.cauchy)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        value = self._validate_sample(value)
        density = log(2 / pi) - ops.log(self.scale) - ops.log1p((value / self.scale) ** 2)
        return ops.where(value >= 0, density, -inf)

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        return (2 / pi) * ops.arctan(self._validate_sample(value) / self.scale)

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities."""
        return self.scale * ops.tan((pi / 2) * value)

    @property
    def mean(self) -> Any:
        """Infinity: there is no finite one."""
        return full_like(self.scale, inf)

    @property
    def variance(self) -> Any:
        """Infinity: there is no finite one."""
        return full_like(self.scale, inf)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return log(2 * pi) + ops.log(self.scale)


class Exponential(OfLaw, ExponentialFamily):
    """The distribution of the time to an event that happens at a constant rate.

    Args:
        rate: how often it happens.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"rate": constraints.positive})
    support = constraints.nonnegative
    has_rsample = True
    _law = stats.expon

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = together(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"scale": 1 / self.rate}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        return noise(random.exponential, self.rate, self._extended_shape(sample_shape)) / self.rate

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1 / self.rate

    @property
    def mode(self) -> Any:
        """Zero, the value of greatest density."""
        return full_like(self.rate, 0.0)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate**-2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return 1 - ops.log(self.rate)
