"""Invertible functions that make distributions of others, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, ClassVar

import numpy as np

from ...faces.publish import publish
from ...primitives.core.errors import ConcretizationError, TracerConversionError
from ...primitives.core.registry import registry as ops
from ...scipy import special
from ...tensors import Tensor
from ...tensors.functions.naming import on_host
from . import constraints
from .constraints import Constraint
from .distribution import sum_last, together

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform",
    "PowerTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


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
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
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
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

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
        most, total = max(dims, default=0), ops.zeros_like(x) if not dims else 0
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


identity_transform = ComposeTransform([])

publish(globals())
