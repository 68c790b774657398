"""Distributions of categories: indices, one-hot vectors, counts and their relaxations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import random
from ...primitives.core.registry import registry as ops
from ...scipy import special
from ...tensors import Tensor, no_grad
from ..creation import eye, full_like
from . import constraints
from .constraints import Constraint, unchanging
from .counts import only_one
from .distribution import Distribution, draw_with, together

__all__ = [
    "Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "RelaxedOneHotCategorical",
]  # fmt: skip


class Categories(Distribution):
    """A distribution of categories, whose weights lie along the last axis."""

    arg_constraints = unchanging({
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    })

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        only_one(type(self).__name__, probs, logits)
        if logits is None:
            (p,) = together(probs)
            self._check_axes("probs", p)
            self.probs = p / ops.sum(p, axis=-1, keepdims=True)
        else:
            self._check_axes("logits", logits)
            self.logits = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
        shape = (self.probs if logits is None else self.logits).shape
        self._num_events = shape[-1]
        super().__init__(shape[:-1], self._shape_of_events(), validate_args)

    def _check_axes(self, name: str, weights: Any) -> None:
        if weights.ndim < 1:
            raise ValueError(f"{type(self).__name__}: {name} has at least one axis, not none")

    def _shape_of_events(self) -> tuple[int, ...]:
        return (self._num_events,)

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        if name == "probs" and "logits" in held:
            return ops.softmax(held["logits"], axis=-1)
        if name == "logits" and "probs" in held:
            tiny = np.finfo(held["probs"].dtype).eps
            return ops.log(ops.clip(held["probs"], tiny, 1 - tiny))
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the weights."""
        return (*self._batch_shape, self._num_events)

    def _drawn_indices(self, shape: Sequence[int]) -> Any:
        with no_grad():
            logits = self.logits.detach()
            return draw_with(random.categorical, logits, shape=(*shape, *self._batch_shape))

    def _one_hot(self, indices: Any) -> Any:
        return eye(self._num_events, dtype=self.probs.dtype, device=indices.device)[indices]

    def _entropy_of_one(self) -> Any:
        lowest = np.finfo(self.logits.dtype).min
        logits = ops.maximum(self.logits, lowest)
        return -ops.sum(logits * self.probs, axis=-1)


class Categorical(Categories):
    """The distribution of indices with weights.

    Args:
        probs: weights along the last axis, which are divided by their sum.
        logits: their logarithms, if the weights are not given.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import Categorical
    >>> Categorical(torch.tensor([1.0, 3.0])).probs.tolist()
    [0.25, 0.75]
    """

    has_enumerate_support = True

    def _shape_of_events(self) -> tuple[int, ...]:
        return ()

    @property
    def support(self) -> Constraint:
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    @support.setter
    def support(self, value: Any) -> None:
        raise AttributeError("support of Categorical follows from its weights")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns indices, of dtype int64."""
        return ops.astype(self._drawn_indices(sample_shape), np.dtype(np.int64))

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of indices."""
        indices = ops.astype(self._validate_sample(value), np.dtype(np.int64))
        shape = np.broadcast_shapes(indices.shape, self._batch_shape)
        indices = ops.broadcast_to(indices, shape)[..., None]
        logits = ops.broadcast_to(self.logits, (*shape, self._num_events))
        return ops.take_along_axis(logits, indices, -1)[..., 0]

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return self._entropy_of_one()

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all indices, along a new axis in front."""
        found = self._enumerated(self._num_events, self.probs, expand)
        return ops.astype(found, np.dtype(np.int64))

    @property
    def mean(self) -> Any:
        """NaN: indices have no mean."""
        return full_like(self.probs[..., 0], np.nan)

    @property
    def mode(self) -> Any:
        """The most probable index."""
        return ops.argmax(self.probs, axis=-1)

    @property
    def variance(self) -> Any:
        """NaN: indices have no variance."""
        return full_like(self.probs[..., 0], np.nan)


class OneHotCategorical(Categories):
    """The distribution of vectors with a single one, and zeros.

    Args:
        probs, logits, validate_args: as for `Categorical`.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns vectors."""
        return self._one_hot(self._drawn_indices(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of vectors."""
        return ops.sum(self._validate_sample(value) * self.logits, axis=-1)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return self._entropy_of_one()

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all vectors, along a new axis in front."""
        return self._one_hot(Categorical(probs=self.probs).enumerate_support(expand))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The most probable vector."""
        return self._one_hot(ops.argmax(self.probs, axis=-1))

    @property
    def variance(self) -> Any:
        """The variance of every element."""
        return self.probs * (1 - self.probs)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws have the probabilities' derivatives.

    Args:
        probs, logits, validate_args: as for `Categorical`.
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns vectors, through which derivatives flow as through the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Categories):
    """The distribution of how often each category comes in several draws.

    Args:
        total_count: how many draws.
        probs, logits, validate_args: as for `Categorical`.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Constraint:
        """The counts that add up to that of the draws."""
        return constraints.multinomial(self.total_count)

    @support.setter
    def support(self, value: Any) -> None:
        raise AttributeError("support of Multinomial follows from its total_count")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns vectors of counts."""
        indices = self._drawn_indices((self.total_count, *sample_shape))
        return ops.sum(self._one_hot(indices), axis=0)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the probability of vectors of counts."""
        k = self._validate_sample(value)
        ways = special.gammaln(ops.sum(k, axis=-1) + 1) - ops.sum(special.gammaln(k + 1), axis=-1)
        logits = ops.where((k == 0) & (self.logits == -np.inf), 0.0, self.logits)
        return ways + ops.sum(k * logits, axis=-1)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """The variance of every element."""
        return self.total_count * self.probs * (1 - self.probs)


class RelaxedOneHotCategorical(Categories):
    """The softmax of logits with Gumbel noise, divided by a temperature.

    Args:
        temperature: near zero the vectors are nearly one-hot.
        probs, logits, validate_args: as for `Categorical`.

    Source: C. Maddison, A. Mnih and Y. Teh, "The concrete distribution", 2017.
    """

    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._temperature = (temperature,)
        super().__init__(probs, logits, validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._temperature[0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns vectors, through which derivatives flow to the parameters."""
        logits, shape = self.logits, self._extended_shape(sample_shape)
        noisy = logits + draw_with(random.gumbel, shape=shape, dtype=logits.dtype)
        return ops.softmax(noisy / self.temperature, axis=-1)

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density of vectors."""
        (t,) = together(self.temperature)
        logs = ops.log(self._validate_sample(value))
        score = self.logits - t * logs
        score = score - ops.logsumexp(score, axis=-1, keepdims=True)
        k = self._num_events
        scale = special.gammaln(full_like(t, k)) + (k - 1) * ops.log(t)
        return ops.sum(score - logs, axis=-1) + scale
