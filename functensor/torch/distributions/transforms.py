"""Invertible functions that make distributions of others, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

from ...faces.publish import publish
from ...primitives.core.registry import registry as ops
from ...scipy import special
from ...tensors import Tensor
from ..creation import zeros_like
from . import constraints
from .distribution import sum_last, together
from .matrix_transforms import (
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
)
from .transform_base import Transform

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform",
    "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class ExpTransform(Transform):
    """The exponential.

    Args:
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.positive

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        return ops.exp(x)

    def _inverse(self, y: Tensor) -> Any:
        return ops.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative."""
        return x


class PowerTransform(Transform):
    """A power of positive numbers.

    Args:
        exponent: the exponent.
        cache_size: is kept; nothing is cached.
    """

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = together(exponent)

    @property
    def sign(self) -> Any:
        """The exponent's sign."""
        return ops.sign(self.exponent)

    def _made_of(self) -> tuple[Any, ...]:
        return (self.exponent,)

    def _call(self, x: Tensor) -> Any:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative's absolute value."""
        return ops.log(ops.abs(self.exponent * y / x))


class SigmoidTransform(Transform):
    """The logistic function.

    Args:
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.unit_interval

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        info = np.finfo(x.dtype)
        return ops.clip(ops.sigmoid(x), info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Any:
        info = np.finfo(y.dtype)
        y = ops.clip(y, info.tiny, 1 - info.eps)
        return ops.log(y) - ops.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative."""
        return special.log_expit(x) + special.log_expit(-x)


class SoftplusTransform(Transform):
    """log(1 + exp(x)).

    Args:
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.positive

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        return special.softplus(x)

    def _inverse(self, y: Tensor) -> Any:
        return ops.log(-ops.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative."""
        return special.log_expit(x)


class TanhTransform(Transform):
    """The hyperbolic tangent.

    Args:
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.interval(-1, 1)

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        return ops.tanh(x)

    def _inverse(self, y: Tensor) -> Any:
        return ops.arctanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative."""
        return 2 * (log(2) - x + special.log_expit(2 * x))


class AbsTransform(Transform):
    """The absolute value; its inverse is the positive one.

    Args:
        cache_size: is kept; nothing is cached.
    """

    codomain = constraints.positive
    bijective = False

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        return ops.abs(x)

    def _inverse(self, y: Tensor) -> Any:
        return y


class AffineTransform(Transform):
    """loc + scale * x.

    Args:
        loc, scale: numbers or tensors.
        event_dim: how many last axes are those of one value.
        cache_size: is kept; nothing is cached.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions.transforms import AffineTransform
    >>> AffineTransform(1.0, 2.0).inv(torch.tensor(5.0)).item()
    2.0
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        """The scale's sign."""
        return ops.sign(*together(self.scale))

    def _made_of(self) -> tuple[Any, ...]:
        return (self.loc, self.scale, self.event_dim)

    def _call(self, x: Tensor) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative's absolute value."""
        (scale,) = together(self.scale)
        found = ops.astype(ops.log(ops.abs(scale)), x.dtype)
        return sum_last(ops.broadcast_to(found, x.shape), self.event_dim)


class SoftmaxTransform(Transform):
    """The softmax along the last axis; its inverse is the logarithm.

    Args:
        cache_size: is kept; nothing is cached.
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = False

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        return ops.softmax(x, axis=-1)

    def _inverse(self, y: Tensor) -> Any:
        return ops.log(y)


class StickBreakingTransform(Transform):
    """Vectors of n numbers as n + 1 positive ones whose sum is 1.

    Args:
        cache_size: is kept; nothing is cached.
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x: Tensor) -> Any:
        return ops.log(ops.cumsum(ops.ones_like(x), -1)[..., ::-1])

    def _made_of(self) -> tuple[Any, ...]:
        return ()

    def _call(self, x: Tensor) -> Any:
        z = ops.sigmoid(x - self._offset(x))
        rest = ops.cumprod(1 - z, -1)
        ones = ops.ones_like(x[..., :1])
        return ops.concatenate([z, ones], -1) * ops.concatenate([ones, rest], -1)

    def _inverse(self, y: Tensor) -> Any:
        head = y[..., :-1]
        rest = ops.maximum(1 - ops.cumsum(head, -1), np.finfo(y.dtype).tiny)
        return ops.log(head) - ops.log(rest) + self._offset(head)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the logarithm of the derivative's determinant."""
        x = x - self._offset(x)
        return ops.sum(special.log_expit(x) - x + ops.log(y[..., :-1]), axis=-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        return (*shape[:-1], shape[-1] - 1)


class IndependentTransform(Transform):
    """A transform whose last batch axes are taken as those of one value.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many axes.
        cache_size: is kept; nothing is cached.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        count = reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, count)
        self.codomain = constraints.independent(base_transform.codomain, count)

    def _made_of(self) -> tuple[Any, ...]:
        return (self.base_transform, self.reinterpreted_batch_ndims)

    def _call(self, x: Tensor) -> Any:
        return self.base_transform._call(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the sum of the transform's over the axes."""
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_last(found, self.reinterpreted_batch_ndims)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the transforms, the first one applied first.
        cache_size: is kept; nothing is cached.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            ways = [(part.domain, part.codomain) for part in self.parts]
            self.domain = joined_set(ways[::-1])
            self.codomain = joined_set([(after, before) for before, after in ways])

    def _made_of(self) -> tuple[Any, ...]:
        return tuple(self.parts)

    def _call(self, x: Tensor) -> Any:
        for part in self.parts:
            x = part._call(x)
        return x

    def _inverse(self, y: Tensor) -> Any:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    @property
    def sign(self) -> Any:
        """The product of the signs."""
        product: Any = 1
        for part in self.parts:
            product = product * part.sign
        return product

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        """Returns the sum of the transforms'."""
        dims = [max(part.domain.event_dim, part.codomain.event_dim) for part in self.parts]
        most, total = max(dims, default=0), zeros_like(x) if not dims else 0
        for part, dim in zip(self.parts, dims):
            after = part._call(x)
            total = total + sum_last(part.log_abs_det_jacobian(x, after), most - dim)
            x = after
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the value of a tensor of this shape."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the tensor whose value has this shape."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


def joined_set(ways: Sequence[tuple[Any, Any]]) -> Any:
    """Returns the set at one end of transforms, whose values have axes enough for all of them.

    Args:
        ways: the sets of each at this end and at the other one; the last has this end.
    """
    dims = ways[0][1].event_dim
    for here, other in ways:
        dims = max(dims + here.event_dim - other.event_dim, here.event_dim)
    end = ways[-1][0]
    more = dims - end.event_dim
    return constraints.independent(end, more) if more else end


identity_transform = ComposeTransform([])

publish(globals())
