"""Moments of samples, under SciPy's names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...backends.annotations import Axis
from ...backends.restoring import quiet
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.shape_dtype import finfo
from .sample_axes import mean_of_samples, samples_along

__all__ = [
    "DescribeResult", "central", "describe", "kstat", "kstatvar", "kurtosis", "moment", "skew",
]  # fmt: skip


class DescribeResult(NamedTuple):
    """The result of `describe`; ``minmax`` is a pair."""

    nobs: int
    minmax: tuple[Array, Array]
    mean: Array
    variance: Array
    skewness: Array
    kurtosis: Array


def central(x: Array, order: int) -> Array:
    """Returns the central moment of samples along the last axis, of an order from 2 up."""
    return mean_of_samples((x - ops.mean(x, axis=-1, keepdims=True)) ** order)


def moment(
    a: ArrayLike,
    order: int | Sequence[int] = 1,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    *,
    center: ArrayLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Returns moments of samples about their mean, or about a number.

    Args:
        a: an array.
        order: a whole number from 0 up, or several.
        axis, nan_policy, keepdims: as for `gmean`.
        center: the number; None for the mean.

    Returns:
        An array without the axis; of several orders, behind an axis of them.

    Raises:
        ValueError: an order is no whole number from 0 up, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: the mean of powers of the differences from the center.

    >>> from functensor.scipy import stats
    >>> stats.moment([1.0, 3.0], [1, 2]).tolist()
    [0.0, 1.0]
    """
    (x,), restored = samples_along("moment", [a], axis, nan_policy, keepdims)
    orders = np.asarray(order)
    if orders.ndim > 1 or (orders != np.floor(orders)).any() or (orders < 0).any():
        raise ValueError(f"moment: All elements of `order` must be integral, from 0 up: {order!r}")
    middle = ops.mean(x, axis=-1, keepdims=True) if center is None else center

    def one(k: int) -> Array:
        if k == 1 and center is None:
            first = mean_of_samples(x)
            return ops.where(ops.isnan(first), first, ops.zeros_like(first))
        return mean_of_samples((x - middle) ** k)

    if not orders.ndim:
        return restored(one(int(orders)))
    return ops.stack([restored(one(int(k))) for k in orders], axis=0)


def _shape_of_samples(x: Array, order: int) -> tuple[Array, Array]:
    """Returns a standardised moment, and where it is NaN since all samples are the same."""
    m2 = central(x, 2)
    eps = float(finfo(x.dtype).resolution)
    same = ops.less_equal(m2, (eps * mean_of_samples(x)) ** 2)
    safe = ops.where(same, 1.0, m2)
    return central(x, order) / safe ** (order / 2), same


def skew(
    a: ArrayLike,
    axis: Axis = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the skewness of samples.

    Args:
        a: an array.
        axis, nan_policy, keepdims: as for `gmean`.
        bias: False to correct for the number of samples, if there are three or more.

    Returns:
        An array without the axis; NaN where all samples are the same.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: D. Zwillinger and S. Kokoska, "CRC Standard Probability and Statistics Tables and
    Formulae", 2.2.24.1.

    >>> from functensor.scipy import stats
    >>> stats.skew([0.0, 0.0, 3.0]).round(6).tolist()
    0.707107
    """
    (x,), restored = samples_along("skew", [a], axis, nan_policy, keepdims)
    value, same = _shape_of_samples(x, 3)
    n = x.shape[-1]
    if not bias and n > 2:
        value = value * (((n - 1.0) * n) ** 0.5 / (n - 2.0))
    return restored(ops.where(same, np.nan, value))


def kurtosis(
    a: ArrayLike,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the kurtosis of samples.

    Args:
        a: an array.
        axis, nan_policy, keepdims: as for `gmean`.
        fisher: whether to subtract 3, the kurtosis of the normal distribution.
        bias: False to correct for the number of samples, if there are four or more.

    Returns:
        An array without the axis; NaN where all samples are the same.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: as for `skew`.

    >>> from functensor.scipy import stats
    >>> stats.kurtosis([-1.0, 1.0]).tolist()
    -2.0
    """
    (x,), restored = samples_along("kurtosis", [a], axis, nan_policy, keepdims)
    value, same = _shape_of_samples(x, 4)
    n = x.shape[-1]
    if not bias and n > 3:
        value = ((n**2 - 1.0) * value - 3.0 * (n - 1) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    value = ops.where(same, np.nan, value - 3.0 if fisher else value)
    return restored(value)


def kstat(
    data: ArrayLike,
    n: int = 2,
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns the k-statistic of samples, which estimates a cumulant without bias.

    Args:
        data: an array.
        n: the order, 1 to 4.
        axis: as for `gmean`; None for all.
        nan_policy, keepdims: as for `gmean`.

    Returns:
        An array without the axis.

    Raises:
        ValueError: the order is another number, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: D. E. Knuth's notation of E. W. Weisstein, "k-Statistic", MathWorld, about the mean.

    >>> from functensor.scipy import stats
    >>> stats.kstat([1.0, 3.0]).tolist()
    2.0
    """
    if n not in (1, 2, 3, 4):
        raise ValueError(f"kstat: k-statistics only supported for 1<=n<=4, not {n!r}")
    (x,), restored = samples_along("kstat", [data], axis, nan_policy, keepdims)
    count = float(x.shape[-1])
    if n == 1:
        return restored(mean_of_samples(x))
    m2 = central(x, 2)
    with quiet():
        if n == 2:
            value = m2 * _quotient_or_nan(count, count - 1)
        elif n == 3:
            value = central(x, 3) * _quotient_or_nan(count**2, (count - 1) * (count - 2))
        else:
            top = (count + 1) * central(x, 4) - 3 * (count - 1) * m2 * m2
            value = top * _quotient_or_nan(count**2, (count - 1) * (count - 2) * (count - 3))
    return restored(value)


def _quotient_or_nan(a: float, b: float) -> float:
    return a / b if b else float("nan")


def kstatvar(
    data: ArrayLike,
    n: int = 2,
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns estimates of the variance of k-statistics, without bias.

    Args:
        data: an array.
        n: the order, 1 or 2.
        axis, nan_policy, keepdims: as for `kstat`.

    Returns:
        An array without the axis.

    Raises:
        ValueError: the order is another number, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: as for `kstat`.

    >>> from functensor.scipy import stats
    >>> stats.kstatvar([1.0, 3.0], 1).tolist()
    1.0
    """
    if n not in (1, 2):
        raise ValueError(f"kstatvar: Only n=1 or n=2 supported, not {n!r}")
    (x,), restored = samples_along("kstatvar", [data], axis, nan_policy, keepdims)
    count = float(x.shape[-1])
    k2 = kstat(x, 2, axis=-1)
    if n == 1:
        return restored(k2 / count)
    k4 = kstat(x, 4, axis=-1)
    value = (2 * count * k2**2 + (count - 1) * k4) / (count * (count + 1))
    return restored(value)


def describe(
    a: ArrayLike, axis: Axis = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate"
) -> DescribeResult:
    """Returns the number of samples, their range and their first four moments.

    Args:
        a: an array.
        axis: as for `gmean`.
        ddof: as for `sem`, for the variance.
        bias: as for `skew` and `kurtosis`.
        nan_policy: as for `gmean`.

    Returns:
        A named tuple: the number of samples, the pair of the least and the greatest, the mean, the
        variance, the skewness and the kurtosis, arrays without the axis.

    Raises:
        ValueError: there are no samples, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: as for `skew`.

    >>> from functensor.scipy import stats
    >>> stats.describe([1.0, 3.0]).variance.tolist()
    2.0
    """
    (x,), _ = samples_along("describe", [a], axis, nan_policy)
    if not x.size:
        raise ValueError("describe: The input must not be empty.")
    return DescribeResult(
        operator.index(x.shape[-1]),
        (ops.min(x, axis=-1), ops.max(x, axis=-1)),
        mean_of_samples(x),
        ops.var(x, axis=-1, ddof=ddof),
        skew(x, -1, bias),
        kurtosis(x, -1, True, bias),
    )
