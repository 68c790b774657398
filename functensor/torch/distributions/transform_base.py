"""The base of transforms, and their inverses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...primitives.core.errors import ConcretizationError, TracerConversionError
from ...tensors import Tensor
from ...tensors.functions.naming import on_host
from . import constraints
from .constraints import Constraint
from .distribution import together

__all__ = ["Transform"]


class Transform:
    """A function with an inverse, and the logarithm of its derivative.

    Args:
        cache_size: is kept; nothing is cached.
    """

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    bijective: ClassVar[bool] = True

    def __init__(self, cache_size: int = 0) -> None:
        self.cache_size = cache_size

    def __call__(self, x: Tensor) -> Any:
        """Returns the function's value."""
        return self._call(x)

    def _call(self, x: Tensor) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return Inverse(self)

    @property
    def sign(self) -> Any:
        """1 for an increasing function of numbers, -1 for a decreasing one."""
        return 1

    @property
    def event_dim(self) -> int:
        """The number of axes of a value.

        Raises:
            ValueError: values have another number before than after.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{self!r}: domain and codomain have not the same event_dim")
        return self.domain.event_dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Returns the transform: nothing is cached."""
        return self

    def _made_of(self) -> tuple[Any, ...] | None:
        """Returns what decides on the function; None where only itself is known to equal it."""
        return None

    def __eq__(self, other: object) -> bool:
        if self is other or type(self) is not type(other):
            return self is other
        assert isinstance(other, Transform)
        mine, others = self._made_of(), other._made_of()
        if mine is None or others is None:
            return False
        return len(mine) == len(others) and all(map(alike, mine, others))

    def __hash__(self) -> int:
        return hash(type(self))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the absolute value of the derivative's determinant.

        Args:
            x: where.
            y: the value there.
        """
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def alike(a: Any, b: Any) -> bool:
    """Says whether two transforms, numbers or tensors are equal, as far as that is known."""
    if a is b or isinstance(a, Transform):
        return a is b or bool(a == b)
    a, b = together(a)[0], together(b)[0]
    try:
        return a.shape == b.shape and bool(np.array_equal(on_host(a), on_host(b)))
    except (ConcretizationError, TracerConversionError):
        # The values are not known while a program is staged.
        return False


class Inverse(Transform):
    """The inverse of a transform."""

    def __init__(self, inverted: Transform) -> None:
        super().__init__()
        self._of = inverted
        self.domain, self.codomain = inverted.codomain, inverted.domain

    def _made_of(self) -> tuple[Any, ...]:
        return (self._of,)

    def _call(self, x: Tensor) -> Any:
        return self._of._inverse(x)

    def _inverse(self, y: Tensor) -> Any:
        return self._of._call(y)

    @property
    def inv(self) -> Transform:
        """The transform itself."""
        return self._of

    @property
    def sign(self) -> Any:
        """The transform's sign."""
        return self._of.sign

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the negative of the transform's."""
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        return self._of.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._of!r}.inv"
