"""Functions of PyTorch that reduce tensors over axes, or go along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops
from ...primitives.core.shape_dtype import canonical_axis
from .naming import as_floats, as_tensor_result, copied, error_of, first_places, with_words

__all__ = [
    "AMinMax",
    "ValuesIndices",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "bincount",
    "corrcoef",
    "count_nonzero",
    "cov",
                        "dist",
    "histc",
    "kthvalue",
            "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "norm",
    "prod",
    "quantile",
    "renorm",
        "std",
    "std_mean",
    "sum",
            "var",
    "var_mean",
]  # fmt: skip

Dim = int | Sequence[int] | None

# The axes that a tensor without axes is taken to have.
NUMBER_AXES = frozenset((0, -1))


class ValuesIndices(NamedTuple):
    """Elements that were chosen along an axis, and where they stand there."""

    values: Any
    indices: Any


class AMinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Any
    max: Any


def axes_of(input: Array, dim: Dim) -> Any:
    """Returns axes as NumPy's functions take them; an empty list, as in PyTorch, for all.

    A number has an axis 0, as in PyTorch, which is also the last.
    """
    if isinstance(dim, Sequence):
        dim = tuple(dim) or None
    if dim is None or input.shape:
        return dim
    given = dim if isinstance(dim, tuple) else (dim,)
    return None if NUMBER_AXES.issuperset(given) else dim


def total(name: str, what: str) -> Callable[..., Any]:
    """Returns the function that reduces by one of NumPy's, which may take a dtype."""

    def function(
        input: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
    ) -> Any:
        axes = axes_of(input, dim)
        return getattr(ops, name)(input, axes, total_dtype(input, dtype), keepdims=keepdim)

    return with_words(function, name, f"Returns {what} over axes, by default over all.")


def total_dtype(input: Array, dtype: Any) -> Any:
    """Returns the dtype of a sum that was asked for; of unsigned integers int64, as in PyTorch."""
    if dtype is None:
        return np.dtype(np.int64) if input.dtype.kind == "u" else None
    return np.dtype(dtype)


sum = total("sum", "sums")
prod = total("prod", "products")
nansum = total("nansum", "sums of what is not NaN")


def mean(
    input: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Any:
    """Returns means over axes, by default over all.

    Raises:
        RuntimeError: of integers or booleans, without a dtype for the result.
    """
    if dtype is None and input.dtype.kind in "iub":
        raise RuntimeError(f"mean of {input.dtype}: give dtype='float32', or cast by x.float()")
    wanted = None if dtype is None else np.dtype(dtype)
    return ops.mean(input, axes_of(input, dim), wanted, keepdims=keepdim)


def nanmean(
    input: Array, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Any:
    """Returns means of what is not NaN."""
    wanted = None if dtype is None else np.dtype(dtype)
    return ops.nanmean(input, axes_of(input, dim), wanted, keepdims=keepdim)


def over_axes(name: str, what: str) -> Callable[..., Any]:
    """Returns the function that reduces by one of NumPy's, over axes."""

    def function(input: Array, dim: Dim = None, keepdim: bool = False) -> Any:
        found = getattr(ops, name)(input, axes_of(input, dim), keepdims=keepdim)
        small = input.dtype == np.uint8 and found.dtype.kind == "b"
        return ops.astype(found, input.dtype) if small else found

    return with_words(function, name, f"Returns {what} over axes, by default over all.")


all = over_axes("all", "whether all elements are not zero")
any = over_axes("any", "whether one element is not zero")
argmax = over_axes("argmax", "where the first greatest element stands")
argmin = over_axes("argmin", "where the first smallest element stands")


def spread_evenly(chosen: str) -> Callable[..., Any]:
    """Returns `amax` or `amin`: maxima by their values, ties sharing the gradient evenly."""

    def function(input: Array, dim: Dim = (), keepdim: bool = False) -> Any:
        return getattr(ops, chosen)(input, axes_of(input, dim), keepdims=keepdim)

    word = "greatest" if chosen == "max" else "smallest"
    return with_words(
        function, f"a{chosen}", f"Returns the {word} elements over axes; ties share the gradient."
    )


amax = spread_evenly("max")
amin = spread_evenly("min")


def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> AMinMax:
    """Returns the smallest and the greatest elements over an axis, by default over all."""
    axes = () if dim is None else dim
    return AMinMax(amin(input, axes, keepdim), amax(input, axes, keepdim))


def value_or_pair(name: str, word: str, pairs: str) -> Callable[..., Any]:
    """Returns PyTorch's `max` or `min`, which do three things by their arguments."""

    def function(input: Array, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if other is not None or hasattr(dim, "dtype"):
            return getattr(ops, pairs)(input, dim if other is None else other)
        if dim is None:
            return getattr(ops, name)(input)
        places = getattr(ops, f"arg{name}")(input, axes_of(input, dim))
        return at_places(input, places, dim, keepdim)

    return with_words(
        function,
        name,
        f"Returns the {word} element; along ``dim`` a pair of values and indices.\n\n"
        "With another tensor, as the second argument or ``other``, that of each pair.",
    )


def at_places(input: Array, places: Any, dim: int, keepdim: bool) -> ValuesIndices:
    """Returns the elements that stand at one place each along an axis, and the places."""
    if not input.shape:
        return ValuesIndices(input, places)
    rows = ops.expand_dims(places, dim)
    values = ops.take_along_axis(input, rows, dim)
    if keepdim:
        return ValuesIndices(values, rows)
    return ValuesIndices(ops.squeeze(values, dim), places)


max = value_or_pair("max", "greatest", "maximum")
min = value_or_pair("min", "smallest", "minimum")


def logsumexp(input: Array, dim: Dim, keepdim: bool = False) -> Any:
    """Returns the logarithm of sums of exponentials over axes."""
    if dim is None and input.ndim > 1:
        dim = tuple(range(input.ndim))
    if input.dtype.kind == "c":
        from ...scipy import special  # which few programs need

        return special.logsumexp(input, axes_of(input, dim), keepdims=keepdim)
    return ops.logsumexp(as_floats(input), axes_of(input, dim), keepdims=keepdim)


def count_nonzero(input: Array, dim: Dim = None) -> Any:
    """Returns how many elements are not zero."""
    return ops.sum(ops.not_equal(input, 0), axes_of(input, dim))


# -- moments


def corrected(input: Array, dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """Returns the axes, and what is taken off the number of elements.

    PyTorch takes ``std(x, False)`` for one without correction.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return axes_of(input, dim), correction


def spread_function(name: str, what: str) -> Callable[..., Any]:
    """Returns `var` or `std`."""

    def function(
        input: Array,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        axes, ddof = corrected(input, dim, unbiased, correction)
        return getattr(ops, name)(input, axes, ddof=ddof, keepdims=keepdim)

    return with_words(
        function,
        name,
        f"Returns {what} over axes.\n\nSums of squares are divided by the number of elements "
        "minus ``correction``, 1 by default.",
    )


var = spread_function("var", "variances")
std = spread_function("std", "standard deviations")


def spread_and_mean(spread: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Returns `std_mean` or `var_mean`."""

    def function(
        input: Array,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Array, Array]:
        axes, _ = corrected(input, dim, unbiased, correction)
        found = spread(input, dim, unbiased, keepdim, correction=correction)
        return found, ops.mean(input, axes, keepdims=keepdim)

    return with_words(function, f"{spread.__name__}_mean", f"Returns {what} and means over axes.")


std_mean = spread_and_mean(std, "standard deviations")
var_mean = spread_and_mean(var, "variances")


def norm(
    input: Array,
    p: float | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> Any:
    """Returns vector norms of order ``p`` over axes, by default over all.

    >>> import functensor.torch as torch
    >>> torch.norm(torch.tensor([3.0, 4.0])).item()
    5.0
    """
    x = input if dtype is None else ops.astype(input, np.dtype(dtype))
    order = 2.0 if p in ("fro", None) else p
    from ...numpy import linalg  # which few programs need

    if order == "nuc":
        return linalg.norm(x, "nuc", (0, 1) if dim is None else axes_of(input, dim), keepdim)
    if not isinstance(order, int | float):
        raise ValueError(f"norm: p is a number, 'fro' or 'nuc', not {p!r}")
    return linalg.vector_norm(x, axis=axes_of(input, dim), ord=order, keepdims=keepdim)


def dist(input: Array, other: Any, p: float = 2) -> Any:
    """Returns the norm of order ``p`` of a difference."""
    return norm(error_of(input, other), p)


def renorm(input: Array, p: float, dim: int, maxnorm: float) -> Any:
    """Returns the slices along an axis, none of a norm above a limit."""
    if input.ndim < 2 or p <= 0 or maxnorm < 0:
        given = f"{input.ndim}, {p} and {maxnorm}"
        raise RuntimeError(f"renorm: two axes at least, p > 0 and maxnorm >= 0, not {given}")
    axes = tuple([i for i in range(input.ndim) if i != canonical_axis(dim, input.ndim)])
    lengths = norm(input, p, axes, keepdim=True)
    return ops.where(ops.greater(lengths, maxnorm), input * (maxnorm / (lengths + 1e-7)), input)


def cov(input: Array, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Returns the covariance matrix of variables, the rows, over observations, the columns."""
    found = ops.cov(input, ddof=correction, fweights=fweights, aweights=aweights)
    return ops.astype(found, as_floats(input).dtype)


def corrcoef(input: Array) -> Any:
    """Returns the matrix of correlations of variables, the rows."""
    return ops.astype(ops.corrcoef(input), as_floats(input).dtype)


# -- by order


def median(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the lower of the middle elements; along ``dim`` a pair of values and indices.

    >>> import functensor.torch as torch
    >>> torch.median(torch.tensor([3.0, 1.0, 2.0, 4.0])).item()
    2.0
    """
    if dim is None:
        if not input.size and input.dtype.kind in "fV":
            return ops.sum(input) + np.nan
        flat = ops.sort(ops.reshape(input, -1))
        found = flat[(flat.shape[0] - 1) // 2]
        if input.dtype.kind != "f":
            return found
        # NaN is sorted behind all, and the median of what has one is NaN.
        found = ops.stop_gradient(ops.where(ops.isnan(flat[-1]), flat[-1], found))
        return found + shared_evenly(input, found)
    k = (input.shape[dim] + 1) // 2 if input.shape else 1
    if input.dtype.kind not in "fV" or not input.shape:
        return kthvalue(input, k, dim, keepdim)
    missing = ops.isnan(input)
    middle = ops.take(ops.argsort(input, dim, stable=True), k - 1, dim)
    places = ops.where(ops.any(missing, dim), ops.argmax(missing, dim), middle)
    return at_places(input, places, dim, keepdim)


def shared_evenly(input: Array, chosen: Any) -> Any:
    """Returns 0, whose gradient goes in equal parts to the elements that equal a chosen one."""
    ties = ops.logical_and(ops.equal(input, chosen), ops.isfinite(input))
    kept = ops.where(ties, input, 0)
    return ops.sum(kept - ops.stop_gradient(kept)) / ops.maximum(ops.sum(ties), 1)


def nanmedian(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the median of what is not NaN; along ``dim`` a pair of values and indices."""
    if not input.shape and dim is not None:
        return ValuesIndices(copied(input), first_places(input))
    x, axis = (ops.reshape(input, -1), 0) if dim is None else (input, dim)
    if dim is None and not input.size:
        return median(input)
    order = ops.argsort(x, axis, stable=True)
    present = ops.sum(ops.logical_not(ops.isnan(x)), axis, keepdims=True)
    middle = ops.maximum((present - 1) // 2, 0)
    places = ops.squeeze(ops.take_along_axis(order, middle, axis), axis)
    found = at_places(x, places, axis, keepdim)
    if dim is not None:
        return found
    if input.dtype.kind != "f":
        return found.values
    middle = ops.stop_gradient(found.values)
    return middle + shared_evenly(input, middle)


def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Returns the k-th smallest elements along an axis, counted from 1, and their indices."""
    length = input.shape[dim] if input.shape else 1
    if not 1 <= k <= length:
        raise ValueError(f"kthvalue: k is from 1 to {length}, the length of axis {dim}, not {k}")
    if not input.shape:
        return ValuesIndices(copied(input), first_places(input))
    order = ops.argsort(input, dim, stable=True)
    return at_places(input, ops.take(order, k - 1, dim), dim, keepdim)


def mode(input: Array, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Returns the most frequent elements along an axis, and where one of each stands.

    Of several the smallest is taken.
    """
    if not input.shape:
        return ValuesIndices(copied(input), first_places(input))
    rows = ops.moveaxis(input, dim, -1)
    equal = ops.equal(ops.expand_dims(rows, -1), ops.expand_dims(rows, -2))
    counts = ops.moveaxis(ops.sum(equal, -1), -1, dim)
    most = ops.equal(counts, ops.max(counts, dim, keepdims=True))
    order = ops.argsort(input, dim, stable=True)
    ordered = ops.take_along_axis(most, order, dim)
    # Behind the first of the smallest stand the others: the last of them is taken, as in PyTorch.
    first = ops.argmax(ordered, dim, keepdims=True)
    last = first + ops.max(counts, dim, keepdims=True) - 1
    places = ops.squeeze(ops.take_along_axis(order, last, dim), dim)
    return at_places(input, places, dim, keepdim)


def check_is_some(name: str, input: Array) -> None:
    """Raises a ``RuntimeError`` for a tensor without elements."""
    if not input.size:
        raise RuntimeError(f"{name}: a tensor without elements, of shape {tuple(input.shape)}")


def quantile(
    input: Array,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """Returns quantiles along an axis, by default of all elements.

    Args:
        input: a tensor.
        q: a number from 0 to 1, or a tensor of some, whose axis the result has first.
        dim: the axis.
        keepdim: whether the axis stays, of length 1.
        interpolation: ``"linear"``, ``"lower"``, ``"higher"``, ``"midpoint"`` or ``"nearest"``.
    """
    check_is_some("quantile", input)
    return ops.quantile(input, q, axes_of(input, dim), method=interpolation, keepdims=keepdim)


def nanquantile(
    input: Array,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """Returns quantiles of what is not NaN; arguments as for `quantile`."""
    check_is_some("nanquantile", input)
    return ops.nanquantile(input, q, axes_of(input, dim), method=interpolation, keepdims=keepdim)


# -- counts


def bincount(input: Array, weights: Any = None, minlength: int = 0) -> Any:
    """Returns how often each integer is there, or the sums of its weights."""
    if weights is not None and weights.dtype.kind in "iubfV" and weights.dtype != np.float32:
        weights = ops.astype(weights, np.dtype(np.float64))
    return as_tensor_result(ops.bincount(input, weights, minlength))


def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Returns how many elements fall into each of equal bins from ``min`` to ``max``.

    Elements outside are left out. Equal limits stand for those of the elements.
    """
    x = ops.reshape(input, -1)
    if bins < 1 or not min <= max or not np.isfinite([min, max]).all():
        raise RuntimeError(f"histc: {bins} bins from {min} to {max}")
    low, high = (min, max)
    if low == high and x.size:
        low, high = ops.min(x).item(), ops.max(x).item()
    low, high = (low - 1, high + 1) if low == high else (low, high)
    places = ops.astype(ops.floor((x - low) * (bins / (high - low))), np.dtype(np.int64))
    places = ops.where(ops.equal(x, high), bins - 1, places)
    inside = ops.logical_and(ops.greater_equal(x, low), ops.less_equal(x, high))
    counts = ops.bincount(ops.where(inside, places, bins), minlength=bins + 1)[:bins]
    return ops.astype(counts, input.dtype)
