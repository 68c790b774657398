"""Means of samples, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.annotations import Axis, DTypeLike
from ...backends.restoring import quiet
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ..axis_slices import cut_last
from .sample_axes import mean_of_samples, samples_along

__all__ = ["gmean", "hmean", "pmean", "trim_mean"]


def _weighted_mean(x: Array, weights: Array | None) -> Array:
    if weights is None:
        return mean_of_samples(x)
    return ops.sum(x * weights, axis=-1) / ops.sum(ops.broadcast_to(weights, x.shape), axis=-1)


def _averaged(
    name: str,
    a: ArrayLike,
    weights: ArrayLike | None,
    axis: Axis,
    dtype: DTypeLike | None,
    nan_policy: str,
    keepdims: bool,
) -> tuple[Callable[[Array], Array], Array, Array | None]:
    """Returns how axes are restored, the numbers and the weights."""
    given: list[ArrayLike] = [a] if weights is None else [a, weights]
    if dtype is not None:
        given = [ops.astype(ops.asarray(x), np.dtype(dtype)) for x in given]
    (x, *others), restored = samples_along(name, given, axis, nan_policy, keepdims)
    return restored, x, others[0] if others else None


def gmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    weights: ArrayLike | None = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns geometric means.

    Args:
        a: an array of numbers from 0 up.
        axis: along which axis or axes; None for all.
        dtype: in which dtype to compute; None for a's.
        weights: of a's shape; None for the same weight of all.
        nan_policy: "propagate", or "raise" to refuse NaN.
        keepdims: whether the axis stays, with length 1.

    Returns:
        An array without the axis.

    Raises:
        ValueError: there is a NaN, and it is refused.
        NotImplementedError: NaN is to be left out.

    Source: the exponential of the mean of the logarithms.

    >>> from functensor.scipy import stats
    >>> stats.gmean([1.0, 4.0]).tolist()
    2.0
    """
    restored, x, w = _averaged("gmean", a, weights, axis, dtype, nan_policy, keepdims)
    with quiet():
        return restored(ops.exp(_weighted_mean(ops.log(x), w)))


def hmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    *,
    weights: ArrayLike | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns harmonic means.

    Args:
        a: an array of numbers from 0 up.
        axis, dtype, weights, nan_policy, keepdims: as for `gmean`.

    Returns:
        An array without the axis; NaN where a number is negative.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: one over the mean of the reciprocals.

    >>> from functensor.scipy import stats
    >>> stats.hmean([1.0, 0.5]).round(6).tolist()
    0.666667
    """
    restored, x, w = _averaged("hmean", a, weights, axis, dtype, nan_policy, keepdims)
    with quiet():
        value = 1.0 / _weighted_mean(1.0 / x, w)
    return restored(ops.where(ops.any(ops.less(x, 0), axis=-1), np.nan, value))


def pmean(
    a: ArrayLike,
    p: ArrayLike,
    *,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    weights: ArrayLike | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns power means: the p-th root of the mean of p-th powers.

    Args:
        a: an array of numbers from 0 up.
        p: the power, a number; 0 for the geometric mean.
        axis, dtype, weights, nan_policy, keepdims: as for `gmean`.

    Returns:
        An array without the axis; NaN where a number is negative.

    Raises:
        ValueError: p is no number, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: P. S. Bullen, "Handbook of Means and Their Inequalities", chapter III.

    >>> from functensor.scipy import stats
    >>> stats.pmean([1.0, 7.0], 2).tolist()
    5.0
    """
    if not isinstance(p, int | float | np.number):
        raise ValueError(f"pmean: Power mean only implemented for finite `p`, a number, not {p!r}")
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    restored, x, w = _averaged("pmean", a, weights, axis, dtype, nan_policy, keepdims)
    with quiet():
        value = _weighted_mean(x ** float(p), w) ** (1.0 / float(p))
    return restored(ops.where(ops.any(ops.less(x, 0), axis=-1), np.nan, value))


def trim_mean(
    a: ArrayLike,
    proportiontocut: float,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns means without a part of the samples at both ends.

    Args:
        a: an array.
        proportiontocut: the part, less than a half; a fraction of a sample is not cut off.
        axis, nan_policy, keepdims: as for `gmean`.

    Returns:
        An array without the axis.

    Raises:
        ValueError: the part is a half or more, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: R. R. Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", 3.3.

    >>> from functensor.scipy import stats
    >>> stats.trim_mean([100.0, 1.0, 2.0, 0.0], 0.25).tolist()
    1.5
    """
    (x,), restored = samples_along("trim_mean", [a], axis, nan_policy, keepdims)
    count = x.shape[-1]
    low = int(proportiontocut * count)
    if low >= count - low:
        raise ValueError(f"trim_mean: Proportion too big: {proportiontocut} of both ends")
    ordered = ops.sort(x, axis=-1)
    found = mean_of_samples(cut_last(ordered, low, count - low))
    # NaN is sorted behind all others, where it may be cut off.
    greatest = ordered[..., -1]
    return restored(ops.where(ops.isnan(greatest), greatest, found))
