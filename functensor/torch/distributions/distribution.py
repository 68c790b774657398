"""The base of all distributions: shapes, checks of values, and what follows from other methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from ...primitives.core.errors import ConcretizationError, TracerConversionError, failure
from ...primitives.core.registry import registry as ops
from ...random.generator import default_generator
from ...tensors import Tensor, no_grad
from ...tensors.default_dtypes import TENSOR_DTYPES
from ...tensors.functions.naming import as_tensor_result, on_host
from ..creation import made
from ..random_tensors import drawn
from .constraints import Constraint, Dependent, unchanging

__all__ = [
    "Centred", "Distribution", "ExponentialFamily", "draw_with", "noise", "sum_last", "together",
]  # fmt: skip

Parameter = Tensor | float


def together(*values: Any) -> tuple[Any, ...]:
    """Returns tensors and numbers as tensors of one shape; numbers have the tensors' dtype."""
    tensors = [x for x in values if isinstance(x, Tensor)]
    dtype = next((x.dtype for x in tensors if x.dtype.kind in "fV"), TENSOR_DTYPES["f"])
    device = tensors[0].device if tensors else None
    found = [x if isinstance(x, Tensor) else made(x, dtype, device, False) for x in values]
    shape = np.broadcast_shapes(*[x.shape for x in found])
    return tuple([x if x.shape == shape else ops.broadcast_to(x, shape) for x in found])


def noise(draw: Callable[..., Any], like: Tensor, shape: Sequence[int]) -> Any:
    """Returns what a function of `functensor.random` draws, of a shape, as beside a tensor."""
    return drawn(lambda key, dt: draw(key, tuple(shape), dt), None, like.dtype, like.device)


def draw_with(draw: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """Returns what a function of `functensor.random` draws with parameters."""
    return as_tensor_result(draw(default_generator.next_key(), *operands, **options))


def sum_last(x: Any, count: int) -> Any:
    """Returns sums over the last axes."""
    return ops.sum(x, axis=tuple(range(-count, 0))) if count else x


class Distribution:
    """A distribution, or a batch of independent ones.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one value.
        validate_args: whether parameters and values are checked; by default they are.
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = unchanging({})
    support: Any = None
    has_rsample = False
    has_enumerate_support = False
    _validate_args = True

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if name in vars(self) and not isinstance(constraint, Dependent):
                    self._refuse(f"parameter {name}", getattr(self, name), constraint)

    def _refuse(self, what: str, value: Any, constraint: Constraint) -> None:
        """Raises where known values lie outside of a set."""
        try:
            fits = bool(np.all(on_host(constraint.check(ops.stop_gradient(value)))))
        except (ConcretizationError, TracerConversionError):
            # The values are not known while a program is staged.
            return
        if not fits:
            raise failure(
                ValueError,
                f"{type(self).__name__}: {what} lies outside of its domain, {constraint!r}: "
                f"{value}",
                fix=f"pass other values, or validate_args=False to {type(self).__name__}",
            )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether parameters and values are checked by default."""
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one value."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Any) -> Any:
        """Returns a value as a tensor, checked if that is wanted."""
        if self._validate_args and not isinstance(value, Tensor):
            raise failure(
                ValueError,
                f"{type(self).__name__}: the value is a {type(value).__name__}, no tensor",
                fix="pass torch.tensor(value)",
            )
        if self._validate_args and self.support is not None:
            self._refuse("the value", value, self.support)
        return value

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Returns the same distribution for a larger batch, to which this one broadcasts."""
        wider = copy(self)
        wider._batch_shape = tuple(batch_shape)
        for name, value in vars(self).items():
            if isinstance(value, Distribution):
                own = value.batch_shape[len(self._batch_shape) :]
                setattr(wider, name, value.expand((*batch_shape, *own)))
            elif isinstance(value, Tensor):
                own = value.shape[len(self._batch_shape) :]
                setattr(wider, name, ops.broadcast_to(value, (*batch_shape, *own)))
        return wider

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Returns values, through which no derivative flows.

        Args:
            sample_shape: how many, in front of the shapes of the batch and of a value.
        """
        with no_grad():
            return self.rsample(sample_shape).detach()  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample")

    def sample_n(self, n: int) -> Tensor:
        """Returns n values."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Any:
        """Returns the logarithm of the density, or probability, of values."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Any:
        """Returns the probability of at most these values."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Any:
        """Returns the quantiles of probabilities."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """Returns the exponential of the entropy."""
        return ops.exp(self.entropy())

    def enumerate_support(self, expand: bool = True) -> Any:
        """Returns all values, along a new axis in front."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def _enumerated(self, count: int, like: Tensor, expand: bool) -> Any:
        """Returns the numbers below a count, along a new axis in front of the batch's."""
        ones = (1,) * len(self._batch_shape)
        values = made(np.arange(count).reshape(-1, *ones), like.dtype, like.device, False)
        return ops.broadcast_to(values, (count, *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Any:
        """The value of greatest density, or probability."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return ops.sqrt(self.variance)

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in vars(self)]
        values = [(name, getattr(self, name)) for name in names]
        shown = [f"{k}: {v.item() if v.ndim == 0 else v.shape}" for k, v in values]
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """A distribution whose density is the exponential of a product of parameters and statistics."""


class Centred:
    """The part of a law that is symmetric about ``loc``, where its density is greatest."""

    loc: Any

    @property
    def mean(self) -> Any:
        """The mean; of angles the mean direction."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The value of greatest density."""
        return self.loc
