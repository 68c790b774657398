"""Distributions made of others: independent batches, mixtures, and transformed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import random
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor, no_grad
from . import constraints
from .categories import Categorical
from .counts import Trials
from .distribution import Distribution, draw_with, sum_last, together
from .transforms import ComposeTransform, Transform

__all__ = ["Independent", "MixtureSameFamily", "RelaxedBernoulli", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution whose last batch axes are taken as those of one value.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many axes.
        validate_args: whether values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import Independent, Normal
    >>> Independent(Normal(torch.zeros(3), 1.0), 1).event_shape
    (3,)
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        shape, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if count > len(shape):
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims={count} is more than the "
                f"{len(shape)} axes of the batch {shape}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        cut = len(shape) - count
        super().__init__(shape[:cut], shape[cut:] + base_distribution.event_shape, validate_args)
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = not count and base_distribution.has_enumerate_support
        self.support = base_distribution.support

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which no derivative flows."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the sum over the axes of the logarithms of densities."""
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all values, along a new axis in front."""
        return self.base_dist.enumerate_support(expand)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """The value of greatest density."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.base_dist.variance

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last axis of a batch.

    Args:
        mixture_distribution: a Categorical, of the weights.
        component_distribution: the batch.
        validate_args: whether values are checked.
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        shape = component_distribution.batch_shape[:-1]
        count = component_distribution.batch_shape[-1]
        if mixture_distribution.param_shape[-1] != count:
            raise ValueError(
                f"MixtureSameFamily: {mixture_distribution.param_shape[-1]} weights for {count} "
                "components"
            )
        self.mixture_distribution = mixture_distribution.expand(shape)
        self.component_distribution = component_distribution
        super().__init__(shape, component_distribution.event_shape, validate_args)
        self.support = component_distribution.support
        if not isinstance(self.support, constraints.independent | constraints.Vectors):
            # A support that parameters decide has the components' shape.
            self.support = None

    def _behind(self, x: Any) -> Any:
        return ops.expand_dims(x, -1 - len(self._event_shape))

    def _weighed(self, x: Any) -> Any:
        """Returns a sum over the components, weighed."""
        axis = -1 - len(self._event_shape)
        p = self.mixture_distribution.probs
        return ops.sum(x * p.reshape(p.shape + (1,) * len(self._event_shape)), axis=axis)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, each of one component."""
        with no_grad():
            axis = -1 - len(self._event_shape)
            which = self.mixture_distribution.sample(sample_shape)
            which = which.reshape(which.shape + (1,) * (1 + len(self._event_shape)))
            values = self.component_distribution.sample(sample_shape)
            shape = list(values.shape)
            shape[axis] = 1
            which = ops.broadcast_to(which, tuple(shape))
            return ops.take_along_axis(values, which, axis).squeeze(axis)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        logs = self.component_distribution.log_prob(self._behind(self._validate_sample(value)))
        weights = ops.log_softmax(self.mixture_distribution.logits, axis=-1)
        return ops.logsumexp(logs + weights, axis=-1)

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        each = self.component_distribution.cdf(self._behind(value))
        return ops.sum(each * self.mixture_distribution.probs, axis=-1)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._weighed(self.component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The variance: the mean of the variances, and the variance of the means."""
        means = self.component_distribution.mean
        away = (means - self._behind(self.mean)) ** 2
        return self._weighed(self.component_distribution.variance + away)

    def __repr__(self) -> str:
        parts = f"{self.mixture_distribution!r}, {self.component_distribution!r}"
        return f"MixtureSameFamily({parts})"


class TransformedDistribution(Distribution):
    """The distribution of transformed values of another one.

    Args:
        base_distribution: the other one.
        transforms: a transform, or several, the first one applied first.
        validate_args: whether values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch import distributions as law
    >>> base = law.Normal(0.0, 1.0)
    >>> log_normal = law.TransformedDistribution(base, law.ExpTransform())
    >>> round(log_normal.log_prob(torch.tensor(1.0)).item(), 4)
    -0.9189
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self._whole = ComposeTransform(self.transforms)
        ends = [(part.domain.event_dim, part.codomain.event_dim) for part in self.transforms]
        own = len(base_distribution.event_shape)
        wanted = max([own, *[start for start, _ in ends]])
        if wanted > own:
            base_distribution = Independent(base_distribution, wanted - own)
        self.base_dist, self._own = base_distribution, wanted
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        shape = self._whole.forward_shape(shape)
        cut = len(shape) - wanted
        super().__init__(shape[:cut], shape[cut:], validate_args)
        self.has_rsample = base_distribution.has_rsample
        self.support = self.transforms[-1].codomain if ends else base_distribution.support

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which no derivative flows."""
        with no_grad():
            return self._whole(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        return self._whole(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        y = self._validate_sample(value)
        found: Any = 0.0
        for part in reversed(self.transforms):
            x = part.inv(y)
            dims = max(part.domain.event_dim, part.codomain.event_dim)
            found = found - sum_last(part.log_abs_det_jacobian(x, y), self._own - dims)
            y = x
        return found + self.base_dist.log_prob(y)

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values, of monotonic transforms."""
        chance = self.base_dist.cdf(self._whole.inv(self._validate_sample(value)))
        sign = self._whole.sign
        return chance if isinstance(sign, int) else sign * (chance - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities, of monotonic transforms."""
        sign = self._whole.sign
        chance = value if isinstance(sign, int) else sign * (value - 0.5) + 0.5
        return self._whole(self.base_dist.icdf(chance))

    def __repr__(self) -> str:
        return f"TransformedDistribution({self.base_dist!r}, {self.transforms!r})"


class RelaxedBernoulli(Trials):
    """The logistic function of a logit with logistic noise, divided by a temperature.

    Args:
        temperature: near zero the values are near 0 and 1.
        probs, logits: the probability of a value near 1, or its log-odds.
        validate_args: whether parameters and values are checked.
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        self._temperature = (temperature,)
        super().__init__(self.probs.shape, (), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._temperature[0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        logits, shape = self.logits, self._extended_shape(sample_shape)
        standard = draw_with(random.logistic, shape=shape, dtype=logits.dtype)
        info = np.finfo(logits.dtype)
        values = ops.sigmoid((logits + standard) / self.temperature)
        return ops.clip(values, info.tiny, 1 - info.eps)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of values."""
        (t,) = together(self.temperature)
        y = self._validate_sample(value)
        info = np.finfo(y.dtype)
        y = ops.clip(y, info.tiny, 1 - info.eps)
        x = ops.log(y) - ops.log1p(-y)
        away = self.logits - t * x
        density = ops.log(t) + away - 2 * ops.logaddexp(away, 0.0)
        return density - ops.log(y) - ops.log1p(-y)
