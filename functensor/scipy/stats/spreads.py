"""Spreads of samples and scores by them, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...backends.annotations import Axis
from ...numpy.quantiles import median, percentile
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from .sample_axes import mean_of_samples, samples_along

__all__ = [
    "gzscore", "iqr", "median_abs_deviation", "sem", "variation", "zmap", "zscore",
]  # fmt: skip


def _std(x: Array, ddof: Array | float) -> Array:
    return ops.std(x, axis=-1, ddof=ddof)


def sem(
    a: ArrayLike,
    axis: Axis = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the standard errors of means.

    Args:
        a: an array.
        axis, nan_policy, keepdims: as for `gmean`.
        ddof: the number subtracted from that of the samples in the variance.

    Returns:
        An array without the axis.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: the standard deviation over the root of the number of samples.

    >>> from functensor.scipy import stats
    >>> stats.sem([1.0, 3.0]).round(12).tolist()
    1.0
    """
    (x,), restored = samples_along("sem", [a], axis, nan_policy, keepdims)
    return restored(_std(x, ddof) / float(x.shape[-1]) ** 0.5)


def variation(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    ddof: int = 0,
    *,
    keepdims: bool = False,
) -> Array:
    """Returns coefficients of variation: standard deviations over means.

    Args:
        a: an array.
        axis, nan_policy, keepdims: as for `gmean`.
        ddof: as for `sem`.

    Returns:
        An array without the axis.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: as for `skew`.

    >>> from functensor.scipy import stats
    >>> stats.variation([1.0, 3.0]).tolist()
    0.5
    """
    (x,), restored = samples_along("variation", [a], axis, nan_policy, keepdims)
    return restored(_std(x, ddof) / mean_of_samples(x))


def zmap(
    scores: ArrayLike,
    compare: ArrayLike,
    axis: Axis = 0,
    ddof: int = 0,
    nan_policy: str = "propagate",
) -> Array:
    """Returns the distances of scores from the mean of other samples, in standard deviations.

    Args:
        scores: an array.
        compare: the samples, of as many axes.
        axis: along which axis; None for all.
        ddof: as for `sem`.
        nan_policy: as for `gmean`.

    Returns:
        An array of the shape to which scores and means broadcast.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: the difference over the standard deviation.

    >>> from functensor.scipy import stats
    >>> stats.zmap([4.0], [1.0, 3.0]).tolist()
    [2.0]
    """
    return _standard_scores("zmap", scores, compare, axis, ddof, nan_policy)


def _standard_scores(
    name: str, scores: ArrayLike, compare: ArrayLike, axis: Axis, ddof: int, nan_policy: str
) -> Array:
    (x, _), restored = samples_along(name, [compare, scores], axis, nan_policy, keepdims=True)
    mean, std = restored(mean_of_samples(x)), restored(_std(x, ddof))
    return (ops.astype(ops.asarray(scores), x.dtype) - mean) / std


def zscore(a: ArrayLike, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Array:
    """Returns the distances of samples from their mean, in standard deviations.

    Args:
        a: an array.
        axis, ddof, nan_policy: as for `zmap`.

    Returns:
        An array of a's shape.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: as for `zmap`.

    >>> from functensor.scipy import stats
    >>> stats.zscore([1.0, 3.0]).tolist()
    [-1.0, 1.0]
    """
    return _standard_scores("zscore", a, a, axis, ddof, nan_policy)


def gzscore(a: ArrayLike, *, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Array:
    """Returns the scores of logarithms.

    Args:
        a: an array of positive numbers.
        axis, ddof, nan_policy: as for `zmap`.

    Returns:
        An array of a's shape.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: as for `zmap`.

    >>> from functensor.scipy import stats
    >>> stats.gzscore([1.0, 9.0]).tolist()
    [-1.0, 1.0]
    """
    logs = ops.log(a)
    return _standard_scores("gzscore", logs, logs, axis, ddof, nan_policy)


NORMAL_QUARTILE = 0.6744897501960817


def iqr(
    x: ArrayLike,
    axis: Axis = None,
    rng: Sequence[float] = (25, 75),
    scale: Array | float | str = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Returns the distances of two percentiles, by default the quartiles.

    Args:
        x: an array.
        axis: as for `gmean`; None for all.
        rng: both percentiles, from 0 to 100.
        scale: the divisor, "normal" for the distance in the standard normal distribution.
        nan_policy, keepdims: as for `gmean`.
        interpolation: a method of `functensor.numpy.percentile`.

    Returns:
        An array without the axis.

    Raises:
        ValueError: ``rng`` is no pair, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: `functensor.numpy.percentile`.

    >>> from functensor.scipy import stats
    >>> stats.iqr([0.0, 1.0, 2.0, 3.0, 4.0]).tolist()
    2.0
    """
    (z,), restored = samples_along("iqr", [x], axis, nan_policy, keepdims)
    if len(rng) != 2:
        raise ValueError(f"iqr: quantile range must be two element sequence, not {rng!r}")
    if isinstance(scale, str):
        if scale != "normal":
            raise ValueError(f"iqr: {scale!r} not a valid scale for `iqr`")
        scale = 2 * NORMAL_QUARTILE
    low, high = (percentile(z, end, axis=-1, method=interpolation) for end in sorted(rng))
    return restored((high - low) / scale)


def median_abs_deviation(
    x: ArrayLike,
    axis: Axis = 0,
    center: Callable[..., Array] | None = None,
    scale: Array | float | str = 1.0,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the medians of distances to the median.

    Args:
        x: an array.
        axis, nan_policy, keepdims: as for `gmean`.
        center: a function of an array and an axis in place of the median; None for that.
        scale: the divisor, "normal" for the deviation of the standard normal distribution.

    Returns:
        An array without the axis.

    Raises:
        ValueError: the scale is another word, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: P. J. Rousseeuw and C. Croux, "Alternatives to the median absolute deviation", Journal
    of the American Statistical Association 88 (1993).

    >>> from functensor.scipy import stats
    >>> stats.median_abs_deviation([0.0, 1.0, 5.0]).tolist()
    1.0
    """
    (z,), restored = samples_along("median_abs_deviation", [x], axis, nan_policy, keepdims)
    if isinstance(scale, str):
        if scale != "normal":
            raise ValueError(f"median_abs_deviation: {scale} is not a valid scale value.")
        scale = NORMAL_QUARTILE
    middle = median(z, axis=-1) if center is None else center(z, axis=-1)
    gaps = ops.abs(z - ops.expand_dims(middle, -1))
    return restored(median(gaps, axis=-1) / scale)
