"""Transforms to sets: which one leads from all numbers to the elements of a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...faces.publish import publish
from . import constraints
from .constraints import Bounded, Constraint
from .transforms import (
    AffineTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]
Sets = tuple[tuple[Constraint, Callable[[], Transform]], ...]
# Sets of vectors and matrices, and what makes their transforms: of invertible ones, and of all.
ONE_TO_ONE: Sets = (
    (constraints.simplex, StickBreakingTransform),
    (constraints.corr_cholesky, CorrCholeskyTransform),
)
OTHER_WAYS: Sets = (
    (constraints.simplex, SoftmaxTransform),
    (constraints.corr_cholesky, CorrCholeskyTransform),
    (constraints.lower_cholesky, LowerCholeskyTransform),
    (constraints.positive_definite, PositiveDefiniteTransform),
    (constraints.positive_semidefinite, PositiveDefiniteTransform),
)


class ConstraintRegistry:
    """The transforms to sets; called with one, it returns its transform.

    Args:
        sets: sets of vectors and matrices, each with what makes its transform.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import biject_to, constraints
    >>> biject_to(constraints.greater_than(1.0))(torch.tensor(0.0)).item()
    2.0
    """

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._factories: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enters what makes the transform to sets of a class.

        Args:
            constraint: the class, or a set of it.
            factory: takes a set, and returns its transform; without it a decorator is returned.

        Raises:
            TypeError: it is no constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, Constraint):
            raise TypeError(f"register: {constraint!r} is no constraint")
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Returns the transform from all numbers to a set.

        Raises:
            NotImplementedError: there is none.
        """
        if type(constraint) in self._factories:
            return self._factories[type(constraint)](constraint)
        if isinstance(constraint, constraints.independent):
            inner, count = constraint.base_constraint, constraint.reinterpreted_batch_ndims
            return IndependentTransform(self(inner), count)
        if isinstance(constraint, Bounded) and not constraint.is_discrete:
            return to_interval(constraint.lower_bound, constraint.upper_bound)
        for known, make in self._sets:
            if constraint is known:
                return make()
        raise NotImplementedError(f"no transform leads to {constraint!r}")


def to_interval(low: Any, high: Any) -> Transform:
    """Returns the transform from all numbers to those between bounds."""
    if low is None and high is None:
        return identity_transform
    if low is None or high is None:
        end, way = (low, 1) if high is None else (high, -1)
        if way == 1 and is_bound_of(end, 0):
            return ExpTransform()
        return ComposeTransform([ExpTransform(), AffineTransform(end, way)])
    if is_bound_of(low, 0) and is_bound_of(high, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def is_bound_of(x: Any, wanted: int) -> bool:
    """Says whether a bound is a number of Python's with this value."""
    return isinstance(x, int | float) and x == wanted


ALL_ONE_TO_ONE, ALL_OTHERS = ConstraintRegistry(ONE_TO_ONE), ConstraintRegistry(OTHER_WAYS)


def biject_to(constraint: Constraint) -> Transform:
    """Returns the transform from all numbers to a set, with an inverse and a derivative.

    ``biject_to.register`` enters what makes such transforms; see `ConstraintRegistry`.

    Raises:
        NotImplementedError: there is none.
    """
    return ALL_ONE_TO_ONE(constraint)


def transform_to(constraint: Constraint) -> Transform:
    """Returns a transform from all numbers to a set, which may have many arguments for a value.

    ``transform_to.register`` enters what makes such transforms; see `ConstraintRegistry`.

    Raises:
        NotImplementedError: there is none.
    """
    return ALL_OTHERS(constraint)


biject_to.register = ALL_ONE_TO_ONE.register  # type: ignore[attr-defined]
transform_to.register = ALL_OTHERS.register  # type: ignore[attr-defined]

publish(globals())
