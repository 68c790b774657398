"""Functions of PyTorch that go along an axis, which stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import canonical_axis
from .naming import copied, first_places, with_words
from .pointwise import logaddexp
from .reductions import ValuesIndices, total_dtype
from .shapes import in_dtype_of_sum

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "diff", "log_softmax", "logcumsumexp", "softmax",
    "trapezoid", "trapz",
]  # fmt: skip


def softmax(input: Array, dim: int, dtype: DTypeLike | None = None) -> Any:
    """Returns exponentials divided by their sum along an axis.

    >>> import functensor.torch as torch
    >>> torch.softmax(torch.zeros(2), dim=0).tolist()
    [0.5, 0.5]
    """
    x = input if dtype is None else ops.astype(input, np.dtype(dtype))
    return ops.softmax(x, axis=dim)


def log_softmax(input: Array, dim: int, dtype: DTypeLike | None = None) -> Any:
    """Returns the logarithm of `softmax`."""
    x = input if dtype is None else ops.astype(input, np.dtype(dtype))
    return ops.log_softmax(x, axis=dim)


def cumulative(name: str, what: str) -> Callable[..., Any]:
    """Returns `cumsum` or `cumprod`."""

    def function(input: Array, dim: int, *, dtype: DTypeLike | None = None) -> Any:
        x = ops.reshape(input, -1) if not input.shape else input
        out = getattr(ops, name)(x, dim, total_dtype(x, dtype))
        return out if input.shape else ops.reshape(out, ())

    return with_words(function, name, f"Returns {what} of the elements up to each along an axis.")


cumsum = cumulative("cumsum", "sums")
cumprod = cumulative("cumprod", "products")


def logcumsumexp(input: Array, dim: int) -> Any:
    """Returns logarithms of sums of exponentials of the elements up to each along an axis."""
    if not input.shape and dim in (0, -1):
        return input
    return best_so_far(input, dim, logaddexp)


def best_so_far(x: Any, dim: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Returns an associative function of the elements up to each, in log2(length) steps."""
    axis = canonical_axis(dim, x.ndim)
    step, length = 1, x.shape[axis]
    while step < length:
        head = (slice(None),) * axis
        later = combine(x[(*head, slice(step, None))], x[(*head, slice(None, -step))])
        x = ops.concatenate([x[(*head, slice(None, step))], later], axis)
        step *= 2
    return x


def running(name: str, word: str, combine: str) -> Callable[..., Any]:
    """Returns `cummax` or `cummin`."""

    def function(input: Array, dim: int) -> ValuesIndices:
        if not input.shape:
            return ValuesIndices(copied(input), first_places(input))
        axis = canonical_axis(dim, input.ndim)
        best = best_so_far(input, dim, getattr(ops, combine))
        shape = tuple([-1 if i == axis else 1 for i in range(input.ndim)])
        numbers = beside(input, np.arange(input.shape[axis]).reshape(shape))
        # The last of equal elements counts, as in PyTorch.
        own = ops.logical_or(ops.equal(input, best), ops.not_equal(input, input))
        indices = best_so_far(ops.where(own, numbers, 0), dim, ops.maximum)
        return ValuesIndices(ops.take_along_axis(input, indices, axis), indices)

    return with_words(
        function, name, f"Returns the {word} elements up to each along an axis, and their indices."
    )


cummax = running("cummax", "greatest", "maximum")
cummin = running("cummin", "smallest", "minimum")


def diff(input: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Returns differences of neighbours along an axis, taken n times."""
    parts = [x for x in (prepend, input, append) if x is not None]
    whole = ops.concatenate(in_dtype_of_sum(parts), dim) if len(parts) > 1 else input
    return ops.diff(whole, n, dim) if n else copied(whole)


def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Returns integrals along an axis by the trapezoidal rule."""
    return ops.trapezoid(y, x, dx, dim)


trapz = trapezoid
