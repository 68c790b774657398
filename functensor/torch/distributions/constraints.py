"""Sets in which parameters and values of distributions lie, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor

__all__ = [
    "Constraint", "boolean", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "symmetric", "unit_interval",
]  # fmt: skip

# A sum of probabilities may differ from 1 by so much.
SUM_TOLERANCE = 1e-6


def unchanging(sets: dict[str, Constraint]) -> Mapping[str, Constraint]:
    """Returns the sets of parameters, by their names, as a mapping that stays as it is."""
    return MappingProxyType(sets)


class Constraint:
    """A set of numbers, vectors or matrices."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Returns where a tensor's elements, or vectors, lie in the set."""
        raise NotImplementedError(f"{self!r} has no method check")

    def __repr__(self) -> str:
        return type(self).__name__.strip("_")


class Dependent(Constraint):
    """A set that other parameters decide, which is not checked."""


class dependent_property(property, Dependent):
    """A property that returns a set, which other parameters decide.

    Args:
        fn: the method; without it, with words, it is a decorator.
        is_discrete: whether the set is one of whole numbers.
        event_dim: how many axes a value has.

    >>> from functensor.torch.distributions import constraints
    >>> class Below:
    ...     top = 3
    ...     @constraints.dependent_property(is_discrete=True, event_dim=0)
    ...     def support(self):
    ...         return constraints.integer_interval(0, self.top)
    >>> Below().support.upper_bound, constraints.is_dependent(Below.support)
    (3, True)
    """

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:  # fmt: skip
        if fn is not None:
            check_function("dependent_property", fn, "fn")
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:
        """Returns the property of a method."""
        return type(self)(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Constraint) -> bool:
    """Says whether other parameters decide a set."""
    return isinstance(constraint, Dependent)


class Bounded(Constraint):
    """The numbers between bounds."""

    def __init__(
        self, low: Any = None, high: Any = None, ends: str = "[]", whole: bool = False
    ) -> None:
        self.lower_bound, self.upper_bound = low, high
        self._ends, self.is_discrete = ends, whole

    def check(self, value: Tensor) -> Tensor:
        """Returns where a tensor's elements lie between the bounds."""
        inside: Any = value == value
        if self.lower_bound is not None:
            low = self.lower_bound
            inside = inside & (value >= low if self._ends[0] == "[" else value > low)
        if self.upper_bound is not None:
            high = self.upper_bound
            inside = inside & (value <= high if self._ends[1] == "]" else value < high)
        return inside & (value % 1 == 0) if self.is_discrete else inside  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        kind = "whole numbers" if self.is_discrete else "numbers"
        low, high = self.lower_bound, self.upper_bound
        left = "(-inf" if low is None else f"{self._ends[0]}{low}"
        right = "inf)" if high is None else f"{high}{self._ends[1]}"
        return f"{kind} in {left}, {right}"


class Vectors(Constraint):
    """The vectors, or matrices, of which a function says whether they belong to the set."""

    def __init__(self, name: str, test: Any, event_dim: int, is_discrete: bool = False) -> None:
        self._name, self._test = name, test
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Returns which vectors, or matrices, lie in the set."""
        return self._test(value)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self._name


class independent(Constraint):
    """The tensors whose elements along the last axes all lie in a set.

    Args:
        base_constraint: the set.
        reinterpreted_batch_ndims: how many last axes are meant.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Returns which parts of a tensor lie in the set."""
        inside: Any = self.base_constraint.check(value)
        axes = tuple(range(-self.reinterpreted_batch_ndims, 0))
        return ops.all(inside, axis=axes) if axes else inside  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the set of the numbers between two bounds, which belong to it.

    >>> from functensor.torch import tensor
    >>> from functensor.torch.distributions import constraints
    >>> constraints.interval(0, 1).check(tensor([0.5, 2.0])).tolist()
    [True, False]
    """
    return Bounded(lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the set of the numbers from a bound to before another one."""
    return Bounded(lower_bound, upper_bound, "[)")


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Returns the set of the whole numbers between two bounds, which belong to it."""
    return Bounded(lower_bound, upper_bound, whole=True)


def greater_than(lower_bound: Any) -> Constraint:
    """Returns the set of the numbers above a bound."""
    return Bounded(lower_bound, None, "()")


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Returns the set of the numbers that are at least a bound."""
    return Bounded(lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Returns the set of the numbers below a bound."""
    return Bounded(None, upper_bound, "()")


def multinomial(upper_bound: Any) -> Constraint:
    """Returns the set of the vectors of counts that add up to at most a number."""
    return Vectors(
        "multinomial",
        lambda x: ops.all(x >= 0, axis=-1) & (ops.sum(x, axis=-1) <= upper_bound), 1, True,
    )  # fmt: skip


def _is_simplex(x: Any) -> Any:
    return ops.all(x >= 0, axis=-1) & (ops.abs(ops.sum(x, axis=-1) - 1) < SUM_TOLERANCE)


def _is_one_hot(x: Any) -> Any:
    return ops.all((x == 0) | (x == 1), axis=-1) & (ops.sum(x, axis=-1) == 1)


def _is_symmetric(x: Any) -> Any:
    return ops.all(ops.abs(x - ops.swapaxes(x, -1, -2)) < SUM_TOLERANCE, axis=(-2, -1))


def _is_positive_definite(x: Any) -> Any:
    from ...numpy import linalg  # which only matrices need

    least = ops.min(linalg.eigvalsh(ops.stop_gradient(x)), axis=-1)
    return _is_symmetric(x) & (least > 0)


def _is_positive_semidefinite(x: Any) -> Any:
    from ...numpy import linalg  # which only matrices need

    least = ops.min(linalg.eigvalsh(ops.stop_gradient(x)), axis=-1)
    return _is_symmetric(x) & (least >= 0)


def _is_corr_cholesky(x: Any) -> Any:
    lengths = ops.sqrt(ops.sum(x * x, axis=-1))
    tolerance = np.finfo(x.dtype).eps * x.shape[-1] * 10
    return ops.all(ops.abs(lengths - 1) < tolerance, axis=-1) & _is_lower_cholesky(x)


def _is_lower_cholesky(x: Any) -> Any:
    triangular = ops.all(ops.tril(x) == x, axis=(-2, -1))
    return triangular & ops.all(ops.diagonal(x, 0, -2, -1) > 0, axis=-1)


dependent = Dependent()
boolean = integer_interval(0, 1)
real = Bounded()
positive, nonnegative, unit_interval = greater_than(0), greater_than_eq(0), interval(0, 1)
nonnegative_integer, positive_integer = Bounded(0, whole=True), Bounded(1, whole=True)
real_vector = independent(real, 1)
simplex = Vectors("simplex", _is_simplex, 1)
one_hot = Vectors("one_hot", _is_one_hot, 1, True)
square = Vectors("square", lambda x: ops.all(x == x, axis=(-2, -1)), 2)
symmetric = Vectors("symmetric", _is_symmetric, 2)
positive_definite = Vectors("positive_definite", _is_positive_definite, 2)
positive_semidefinite = Vectors("positive_semidefinite", _is_positive_semidefinite, 2)
lower_triangular = Vectors(
    "lower_triangular", lambda x: ops.all(ops.tril(x) == x, axis=(-2, -1)), 2
)
corr_cholesky = Vectors("corr_cholesky", _is_corr_cholesky, 2)
lower_cholesky = Vectors("lower_cholesky", _is_lower_cholesky, 2)

publish(globals())
