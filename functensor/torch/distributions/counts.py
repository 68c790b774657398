"""Distributions of counts: successes, trials and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import random
from ...primitives.core.errors import failure
from ...primitives.core.registry import registry as ops
from ...scipy import special
from ...tensors import Tensor, no_grad
from ...tensors.functions.naming import on_host
from ..creation import zeros_like
from . import constraints
from .constraints import Constraint, unchanging
from .distribution import Distribution, ExponentialFamily, Parameter, draw_with, together

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson", "only_one"]


def only_one(name: str, probs: Any, logits: Any) -> None:
    """Raises unless probabilities are given either themselves or as logits."""
    if (probs is None) == (logits is None):
        raise failure(
            ValueError, f"{name}: pass either probs or logits, not both", fix=f"{name}(probs=p)"
        )


class Trials(Distribution):
    """A distribution of trials, whose probability of success is given as such or as a logit."""

    arg_constraints = unchanging({
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    })
    support: Any = constraints.nonnegative_integer

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keeps the probability, and returns other parameters broadcast to its shape."""
        only_one(type(self).__name__, probs, logits)
        given, *rest = together(logits if probs is None else probs, *others)
        # Only the one that was given is an attribute, and is checked.
        vars(self)["logits" if probs is None else "probs"] = given
        return tuple(rest)

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        if name == "probs" and "logits" in held:
            return ops.sigmoid(held["logits"])
        if name == "logits" and "probs" in held:
            p = held["probs"]
            tiny = np.finfo(p.dtype).eps
            p = ops.clip(p, tiny, 1 - tiny)
            return ops.log(p) - ops.log1p(-p)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the probability."""
        return self._batch_shape

    def _cross_entropy(self, p: Any) -> Any:
        """Returns the cross entropy of one trial with another one of probability p."""
        return -(p * self.logits + special.log_expit(-self.logits))


class Bernoulli(Trials, ExponentialFamily):
    """The distribution of one trial: 1 with a probability, otherwise 0.

    Args:
        probs: the probability of 1.
        logits: its log-odds, if the probability is not given.
        validate_args: whether parameters and values are checked.

    >>> from functensor.torch.distributions import Bernoulli
    >>> Bernoulli(0.25).variance.item()
    0.1875
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self.probs.shape, (), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, ones and zeros."""
        with no_grad():
            p = self.probs.detach()
            shape = self._extended_shape(sample_shape)
            return ops.astype(draw_with(random.bernoulli, p, shape=shape), p.dtype)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of values."""
        return -self._cross_entropy(self._validate_sample(value))

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return self._cross_entropy(self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all values, along a new axis in front."""
        return self._enumerated(2, self.probs, expand)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The more probable value, NaN where both are equally probable."""
        p = self.probs
        return ops.where(p == 0.5, np.nan, ops.astype(p >= 0.5, p.dtype))

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)


class Binomial(Trials):
    """The distribution of the number of successes in several trials.

    Args:
        total_count: how many trials.
        probs, logits, validate_args: as for `Bernoulli`.
    """

    arg_constraints = unchanging({
        "total_count": constraints.nonnegative_integer,
        **Trials.arg_constraints,
    })
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Parameter = 1,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = ops.astype(count, self.probs.dtype)
        super().__init__(self.probs.shape, (), validate_args)

    @property
    def support(self) -> Constraint:
        """The counts up to that of the trials."""
        return constraints.integer_interval(0, self.total_count)

    @support.setter
    def support(self, value: Any) -> None:
        raise AttributeError("support of Binomial follows from its total_count")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, which are whole numbers."""
        with no_grad():
            n, p = self.total_count.detach(), self.probs.detach()
            shape = self._extended_shape(sample_shape)
            counts = draw_with(random.binomial, ops.astype(n, np.dtype(np.int64)), p, shape=shape)
            return ops.astype(counts, p.dtype)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of values."""
        k, n = self._validate_sample(value), self.total_count
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return ways + k * self.logits + n * special.log_expit(-self.logits)

    def entropy(self) -> Any:
        """Returns the entropy, in nats, of equal numbers of trials."""
        logs = self.log_prob(self.enumerate_support(False))
        return -ops.sum(ops.exp(logs) * logs, axis=0)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all values, along a new axis in front."""
        counts = on_host(self.total_count)
        most = int(counts.max(initial=0))
        if not (counts == most).all():
            raise NotImplementedError("Binomial: values of different total_count have no list")
        return self._enumerated(most + 1, self.probs, expand)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ops.clip(ops.floor((self.total_count + 1) * self.probs), 0, self.total_count)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)


class Geometric(Trials):
    """The distribution of the number of failures before the first success.

    Args:
        probs, logits, validate_args: as for `Bernoulli`; the probability is above 0.
    """

    def __init__(
        self,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self.probs.shape, (), validate_args)
        if self._validate_args and probs is not None:
            self._refuse("parameter probs", self.probs, constraints.positive)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, which are whole numbers."""
        with no_grad():
            p, shape = self.probs.detach(), self._extended_shape(sample_shape)
            return ops.astype(draw_with(random.geometric, p, shape=shape), p.dtype) - 1

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of values."""
        p = self.probs
        return special.xlog1py(self._validate_sample(value), -p) + ops.log(p)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return self._cross_entropy(self.probs) / self.probs

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        """Zero, the most probable value."""
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """The variance."""
        return (1 / self.probs - 1) / self.probs


class NegativeBinomial(Trials):
    """The distribution of the number of successes before several failures.

    Args:
        total_count: how many failures; any number that is not negative.
        probs, logits, validate_args: as for `Bernoulli`, of a success.
    """

    arg_constraints = unchanging({
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0, 1),
        "logits": constraints.real,
    })

    def __init__(
        self,
        total_count: Parameter,
        probs: Parameter | None = None,
        logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = ops.astype(count, self.probs.dtype)
        super().__init__(self.probs.shape, (), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, which are whole numbers: Poisson numbers of gamma-distributed means."""
        with no_grad():
            n, shape = self.total_count.detach(), self._extended_shape(sample_shape)
            rates = draw_with(random.gamma, n, shape=shape, dtype=n.dtype)
            rates = rates * ops.exp(self.logits.detach())
            return ops.astype(draw_with(random.poisson, rates), n.dtype)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of values."""
        k, n = self._validate_sample(value), self.total_count
        ways = special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n)
        ways = ops.where(n + k == 0, 0.0, ways)
        return ways + n * special.log_expit(-self.logits) + k * special.log_expit(self.logits)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ops.floor(ops.maximum((self.total_count - 1) * ops.exp(self.logits), 0))

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.mean / ops.sigmoid(-self.logits)


class Poisson(ExponentialFamily):
    """The distribution of the number of events that happen independently of each other.

    Args:
        rate: its mean.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"rate": constraints.nonnegative})
    support = constraints.nonnegative_integer

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = together(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, which are whole numbers."""
        with no_grad():
            rate, shape = self.rate.detach(), self._extended_shape(sample_shape)
            return ops.astype(draw_with(random.poisson, rate, shape=shape), rate.dtype)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of values."""
        k = self._validate_sample(value)
        return special.xlogy(k, self.rate) - self.rate - special.gammaln(k + 1)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Any:
        """The most probable value."""
        return ops.floor(self.rate)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate
