"""Transforms of the parts of a tensor, one for each, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...primitives.core.registry import registry as ops
from ...tensors import Tensor
from .constraints import Constraint
from .distribution import sum_last
from .transforms import Transform

__all__ = ["CatTransform", "StackTransform"]


class SetOfParts(Constraint):
    """The tensors each of whose parts lies in a set of its own.

    Args:
        sets: one set for each part.
        apart, together: take a tensor apart, and put what is said of its parts together.
    """

    def __init__(
        self,
        sets: Sequence[Constraint],
        apart: Callable[[Any], Sequence[Any]],
        together: Callable[[Sequence[Any]], Any],
    ) -> None:
        self.sets, self._apart, self._together = list(sets), apart, together
        self.event_dim = max(each.event_dim for each in self.sets)

    def check(self, value: Tensor) -> Tensor:
        """Returns where the parts lie in their sets."""
        parts = self._apart(value)
        return self._together([a.check(x) for a, x in zip(self.sets, parts)])  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"parts({self.sets!r})"


class TransformOfParts(Transform):
    """A transform that takes a tensor apart, and puts the values of its parts together.

    Args:
        tseq: the parts' transforms.
        dim: the axis that is divided.
        cache_size: is kept; nothing is cached.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not tseq or not all(isinstance(t, Transform) for t in tseq):
            raise ValueError(f"{type(self).__name__} takes transforms, one at least, not {tseq!r}")
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)  # type: ignore[misc]
        self.domain, self.codomain = (
            SetOfParts(sets, self._apart, self._together)
            for sets in ([t.domain for t in tseq], [t.codomain for t in tseq])
        )

    def _apart(self, x: Tensor) -> Sequence[Any]:
        raise NotImplementedError

    def _together(self, parts: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _made_of(self) -> tuple[Any, ...]:
        return (*self.transforms, self.dim)

    def _call(self, x: Tensor) -> Any:
        return self._together([t(part) for t, part in zip(self.transforms, self._apart(x))])

    def _inverse(self, y: Tensor) -> Any:
        return self._together([t.inv(part) for t, part in zip(self.transforms, self._apart(y))])

    def _logarithms(self, x: Tensor, y: Tensor) -> list[Any]:
        """Returns the logarithms of the parts' derivatives."""
        parts = zip(self.transforms, self._apart(x), self._apart(y))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in parts]


class StackTransform(TransformOfParts):
    """Transforms of the places along an axis, one for each.

    Args:
        tseq: the transforms.
        dim: the axis.
        cache_size: is kept; nothing is cached.

    >>> import functensor.torch as torch
    >>> from functensor.torch import distributions as law
    >>> both = law.StackTransform([law.ExpTransform(), law.AffineTransform(1.0, 2.0)])
    >>> both(torch.tensor([0.0, 3.0])).tolist()
    [1.0, 7.0]
    """

    def _apart(self, x: Tensor) -> Sequence[Any]:
        if x.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: {len(self.transforms)} transforms for an axis of length "
                f"{x.shape[self.dim]}"
            )
        return [x.select(self.dim, i) for i in range(len(self.transforms))]

    def _together(self, parts: Sequence[Any]) -> Any:
        return ops.stack(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithms of the places' derivatives, along the axis."""
        return ops.stack(self._logarithms(x, y), self.dim)


class CatTransform(TransformOfParts):
    """Transforms of the pieces of an axis, one for each.

    Args:
        tseq: the transforms.
        dim: the axis.
        lengths: those of the pieces, 1 by default.
        cache_size: is kept; nothing is cached.

    >>> import functensor.torch as torch
    >>> from functensor.torch import distributions as law
    >>> both = law.CatTransform([law.ExpTransform(), law.AffineTransform(0.0, 2.0)], lengths=[1, 2])
    >>> both(torch.tensor([0.0, 3.0, 4.0])).tolist()
    [1.0, 6.0, 8.0]
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        self.lengths = [1] * len(tseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(tseq):
            count = len(self.lengths)
            raise ValueError(f"CatTransform: {count} lengths for {len(tseq)} transforms")
        super().__init__(tseq, dim, cache_size)

    def _made_of(self) -> tuple[Any, ...]:
        return (*super()._made_of(), *self.lengths)

    def _apart(self, x: Tensor) -> Sequence[Any]:
        if x.shape[self.dim] != sum(self.lengths):
            raise ValueError(
                f"CatTransform: pieces of {self.lengths} for an axis of length {x.shape[self.dim]}"
            )
        return x.split(self.lengths, self.dim)

    def _together(self, parts: Sequence[Any]) -> Any:
        return ops.concatenate(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithms of the pieces' derivatives, along the axis if it is left."""
        most = max(t.domain.event_dim for t in self.transforms)
        found = [
            sum_last(logs, most - t.domain.event_dim)
            for t, logs in zip(self.transforms, self._logarithms(x, y))
        ]
        axis = (self.dim - x.ndim if self.dim >= 0 else self.dim) + most
        return ops.concatenate(found, axis) if axis < 0 else sum(found)
