"""Tests of hypotheses about means, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from ...backends.annotations import Axis
from ...backends.restoring import quiet
from ...numpy.quantiles import median
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...tree import register
from .. import special
from ..special_probabilities import in_one_dtype
from .means import trim_mean
from .sample_axes import (
    checked_word,
    mean_of_samples,
    sample_axes,
    samples_along,
    student_pvalue,
)

__all__ = [
    "BartlettResult", "ConfidenceInterval", "F_onewayResult", "LeveneResult", "TtestResult",
    "Ttest_indResult", "bartlett", "f_oneway", "interval_quantile", "levene", "one_sided",
    "ttest_1samp", "ttest_ind", "ttest_ind_from_stats", "ttest_rel",
]  # fmt: skip


class ConfidenceInterval(NamedTuple):
    """The bounds of a parameter, at a level of confidence."""

    low: Array
    high: Array


class F_onewayResult(NamedTuple):
    """The result of `f_oneway`."""

    statistic: Array
    pvalue: Array


class Ttest_indResult(NamedTuple):
    """The result of `ttest_ind_from_stats`."""

    statistic: Array
    pvalue: Array


class TtestResult(tuple):  # type: ignore[type-arg]
    """The result of t-tests: the pair of statistic and p-value, and more by name.

    Attributes:
        statistic, pvalue: the pair.
        df: the degrees of freedom.
        estimate, standard_error: the statistic is their quotient.
        alternative: the hypothesis.
    """

    statistic: Array
    pvalue: Array
    df: Array | float | None
    estimate: Array | None
    standard_error: Array | None
    alternative: str

    def __new__(
        cls,
        statistic: Array,
        pvalue: Array,
        df: Array | float | None = None,
        estimate: Array | None = None,
        standard_error: Array | None = None,
        alternative: str = "two-sided",
    ) -> TtestResult:
        out = super().__new__(cls, (statistic, pvalue))
        out.statistic, out.pvalue, out.df = statistic, pvalue, df
        out.estimate, out.standard_error = estimate, standard_error
        out.alternative = alternative
        return out

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.df, self.estimate, self.standard_error, self.alternative)

    def __repr__(self) -> str:
        return f"TtestResult(statistic={self.statistic}, pvalue={self.pvalue}, df={self.df})"

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Returns the bounds of the mean, or of the difference of the means.

        Args:
            confidence_level: a probability, between 0 and 1.

        Raises:
            ValueError: the level is no probability.
        """
        middle, error = cast("tuple[Array, Array]", (self.estimate, self.standard_error))
        quantile = interval_quantile(confidence_level, self.alternative)
        reach = special.stdtrit(cast("Array", self.df), quantile) * error
        return one_sided(self.alternative, middle - reach, middle + reach, np.inf)


def interval_quantile(level: float, alternative: str) -> float:
    """Returns the probability up to which a confidence interval of a checked level reaches."""
    if not 0 < level < 1:
        raise ValueError("confidence_interval: confidence_level must be between 0 and 1.")
    return 1 - (1 - level) / (2 if alternative == "two-sided" else 1)


def one_sided(alternative: str, low: Array, high: Array, end: float) -> ConfidenceInterval:
    """Returns an interval; for a hypothesis with one side it goes to ``end``, or from ``-end``."""
    if alternative == "less":
        low = ops.full_like(low, -end)
    if alternative == "greater":
        high = ops.full_like(high, end)
    return ConfidenceInterval(low, high)


register(
    TtestResult,
    lambda node: ([*node, node.df, node.estimate, node.standard_error], node.alternative),
    lambda alternative, p: TtestResult(p[0], p[1], p[2], p[3], p[4], alternative),
)


def _variance(x: Array) -> Array:
    return ops.var(x, axis=-1, ddof=1) if x.shape[-1] > 1 else mean_of_samples(x) * np.nan


def _student_result(
    name: str,
    restored: Callable[[Array], Array],
    alternative: str,
    estimate: Array,
    error: Array,
    df: Array | float,
    mean: Array | None = None,
) -> TtestResult:
    """Returns a test's result for an estimate, its standard error and the degrees of freedom.

    The result shows the mean in place of the estimate, if there is one.
    """
    with quiet():
        t = estimate / error
        df = ops.full_like(t, df) if isinstance(df, float) else ops.broadcast_to(df, t.shape)
        p = student_pvalue(name, alternative, t, df)
    shown = estimate if mean is None else mean
    t, p, df, shown, error = (restored(z) for z in (t, p, df, shown, error))
    return TtestResult(t, p, df, shown, error, alternative)


def ttest_1samp(
    a: ArrayLike,
    popmean: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Returns Student's test of whether samples have a mean.

    Args:
        a: an array.
        popmean: the mean: a number, or an array that broadcasts against a with the axis of
            length 1.
        axis: along which axis or axes; None for all.
        nan_policy: "propagate", or "raise" to refuse NaN.
        alternative: "two-sided", "less" or "greater".
        keepdims: whether the axis stays, with length 1.

    Returns:
        The statistic and the p-value, arrays without the axis, with ``df`` and
        ``confidence_interval()``; the estimate is the mean.

    Raises:
        ValueError: a word is none of these, or there is a NaN, and it is refused.
        NotImplementedError: NaN is to be left out.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908).

    >>> from functensor.scipy import stats
    >>> stats.ttest_1samp([1.0, 3.0], 1.0).statistic.round(12).tolist()
    1.0
    """
    (x,), restored = samples_along("ttest_1samp", [a], axis, nan_policy, keepdims)
    n = float(x.shape[-1])
    mean = mean_of_samples(x)
    popmean = ops.astype(ops.asarray(popmean), x.dtype)
    if len(popmean.shape) > len(mean.shape):
        popmean = ops.squeeze(popmean, sample_axes(axis, np.ndim(a)))
    error = (_variance(x) / n) ** 0.5
    gap = mean - popmean
    return _student_result("ttest_1samp", restored, alternative, gap, error, n - 1.0, mean)


def ttest_rel(
    a: ArrayLike,
    b: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Returns Student's test of whether pairs of samples have the same mean.

    Args:
        a, b: arrays of the same shape.
        axis, nan_policy, alternative, keepdims: as for `ttest_1samp`.

    Returns:
        As `ttest_1samp`; the estimate is the mean difference.

    Raises:
        ValueError: the shapes do not fit, or as for `ttest_1samp`.
        NotImplementedError: as for `ttest_1samp`.

    Source: as for `ttest_1samp`.

    >>> from functensor.scipy import stats
    >>> stats.ttest_rel([1.0, 3.0], [0.0, 0.0]).statistic.round(12).tolist()
    2.0
    """
    name = "ttest_rel"
    (x, y), restored = samples_along(name, [a, b], axis, nan_policy, keepdims)
    n = float(x.shape[-1])
    if n != y.shape[-1]:
        raise ValueError(f"{name}: unequal length arrays: {x.shape[-1]} and {y.shape[-1]} samples")
    d = x - y
    error = (_variance(d) / n) ** 0.5
    return _student_result(name, restored, alternative, mean_of_samples(d), error, n - 1.0)


def _error_of_difference(
    v1: Array, n1: Array | float, v2: Array, n2: Array | float, equal_var: bool
) -> tuple[Array, Array | float]:
    """Returns the standard error of the difference of two means, and the degrees of freedom."""
    if equal_var:
        df = n1 + n2 - 2.0
        known = isinstance(n1, float) and isinstance(n2, float)
        if known and (df <= 0 or not n1 or not n2):
            # So few samples have no spread.
            return (v1 + v2) * np.nan, df
        # A single sample has no spread of its own.
        total = sum(
            (n - 1.0) * v for v, n in ((v1, n1), (v2, n2)) if not (isinstance(n, float) and n == 1)
        )
        return (total / df * (1.0 / n1 + 1.0 / n2)) ** 0.5, df
    s1, s2 = v1 / n1, v2 / n2
    total = s1 + s2
    none = ops.equal(total, 0)
    safe = ops.where(none, 1.0, s1), ops.where(none, 1.0, s2)
    df = (safe[0] + safe[1]) ** 2 / (safe[0] ** 2 / (n1 - 1) + safe[1] ** 2 / (n2 - 1))
    return total**0.5, ops.where(none, 1.0, df)


def ttest_ind(
    a: ArrayLike,
    b: ArrayLike,
    *,
    axis: Axis = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: float = 0,
    method: None = None,
    keepdims: bool = False,
) -> TtestResult:
    """Returns Student's test of whether two independent samples have the same mean, or Welch's.

    Args:
        a, b: arrays that broadcast but for the axis.
        equal_var: whether both have the same variance; False for Welch's test.
        axis, nan_policy, alternative, keepdims: as for `ttest_1samp`.
        trim, method: 0 and None; other values are not implemented.

    Returns:
        As `ttest_1samp`; the estimate is the difference of the means.

    Raises:
        ValueError: as for `ttest_1samp`.
        NotImplementedError: ends are to be trimmed, or a method of resampling is given, or as for
            `ttest_1samp`.

    Source: B. L. Welch, "The generalization of Student's problem when several different population
    variances are involved", Biometrika 34 (1947).

    >>> from functensor.scipy import stats
    >>> stats.ttest_ind([1.0, 3.0], [4.0, 6.0]).statistic.round(6).tolist()
    -2.12132
    """
    name = "ttest_ind"
    if trim or method is not None:
        raise NotImplementedError(f"{name}: trim= and method= are not there: leave them out")
    (x, y), restored = samples_along(name, [a, b], axis, nan_policy, keepdims)
    n1, n2 = float(x.shape[-1]), float(y.shape[-1])
    error, df = _error_of_difference(_variance(x), n1, _variance(y), n2, equal_var)
    gap = mean_of_samples(x) - mean_of_samples(y)
    return _student_result(name, restored, alternative, gap, error, df)


def ttest_ind_from_stats(
    mean1: ArrayLike,
    std1: ArrayLike,
    nobs1: ArrayLike,
    mean2: ArrayLike,
    std2: ArrayLike,
    nobs2: ArrayLike,
    equal_var: bool = True,
    alternative: str = "two-sided",
) -> Ttest_indResult:
    """Returns the test of `ttest_ind` for means, standard deviations and numbers of samples.

    Args:
        mean1, std1, nobs1, mean2, std2, nobs2: arrays that broadcast, or numbers.
        equal_var, alternative: as for `ttest_ind`.

    Returns:
        A named tuple of the statistic and the p-value.

    Raises:
        ValueError: the alternative is another word.

    Source: as for `ttest_ind`.

    >>> from functensor.scipy import stats
    >>> stats.ttest_ind_from_stats(2.0, 1.0, 2, 5.0, 1.0, 2).statistic.tolist()
    -3.0
    """
    m1, s1, n1, m2, s2, n2 = in_one_dtype(mean1, std1, nobs1, mean2, std2, nobs2)
    error, df = _error_of_difference(s1**2, n1, s2**2, n2, equal_var)
    with quiet():
        t = (m1 - m2) / error
    return Ttest_indResult(t, student_pvalue("ttest_ind_from_stats", alternative, t, df))


def f_oneway(
    *samples: ArrayLike,
    axis: Axis = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> F_onewayResult:
    """Returns the analysis of variance of whether two or more samples have the same mean.

    Args:
        samples: arrays that broadcast but for the axis.
        axis, nan_policy, keepdims: as for `ttest_1samp`.
        equal_var: whether all have the same variance; False for Welch's analysis.

    Returns:
        A named tuple of the statistic and the p-value.

    Raises:
        ValueError, NotImplementedError: as for `ttest_1samp`.
        TypeError: there are fewer than two samples.

    Source: B. L. Welch, "On the comparison of several mean values", Biometrika 38 (1951), and R. A.
    Fisher, "Statistical Methods for Research Workers", chapter VII.

    >>> from functensor.scipy import stats
    >>> stats.f_oneway([1.0, 3.0], [4.0, 6.0]).statistic.round(12).tolist()
    4.5
    """
    if len(samples) < 2:
        raise TypeError(f"f_oneway: at least two inputs are required; got {len(samples)}.")
    arrays, restored = samples_along("f_oneway", samples, axis, nan_policy, keepdims)
    k = float(len(arrays))
    counts = [float(x.shape[-1]) for x in arrays]
    means = [mean_of_samples(x) for x in arrays]
    if equal_var:
        count = sum(counts)
        grand = sum(n * m for n, m in zip(counts, means)) / count
        between = sum(n * (m - grand) ** 2 for n, m in zip(counts, means))
        within = sum(ops.sum((x - ops.expand_dims(m, -1)) ** 2, -1) for x, m in zip(arrays, means))
        df1 = k - 1.0
        df2: Array | float = count - k
        with quiet():
            f = ops.divide(between / df1, within / df2 if df2 else within * np.nan)
    else:
        weights = [n / _variance(x) for n, x in zip(counts, arrays)]
        total = sum(weights[1:], weights[0])
        grand = sum(w * m for w, m in zip(weights, means)) / total
        spread = sum((1.0 - w / total) ** 2 / (n - 1.0) for w, n in zip(weights, counts))
        df1, df2 = k - 1.0, (k * k - 1.0) / (3.0 * spread)
        f = ops.divide(sum(w * (m - grand) ** 2 for w, m in zip(weights, means)), df1)
        f = f / (1.0 + 2.0 * (k - 2.0) / (k * k - 1.0) * spread)
    return F_onewayResult(restored(f), restored(special.fdtrc(df1, df2, f)))


class BartlettResult(NamedTuple):
    """The result of `bartlett`."""

    statistic: Array
    pvalue: Array


class LeveneResult(NamedTuple):
    """The result of `levene`."""

    statistic: Array
    pvalue: Array


def bartlett(
    *samples: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> BartlettResult:
    """Returns Bartlett's test of whether two or more samples have the same variance.

    Args:
        samples, axis, nan_policy, keepdims: as for `f_oneway`.

    Returns:
        A named tuple of the statistic and the p-value.

    Raises:
        ValueError: there are fewer than two samples, or as for `ttest_1samp`.
        NotImplementedError: as for `ttest_1samp`.

    Source: M. S. Bartlett, "Properties of sufficiency and statistical tests", Proceedings of the
    Royal Society A 160 (1937).

    >>> from functensor.scipy import stats
    >>> stats.bartlett([1.0, 3.0, 5.0], [4.0, 6.0, 8.0]).pvalue.round(12).tolist()
    1.0
    """
    if len(samples) < 2:
        raise ValueError("bartlett: Must enter at least two input sample vectors.")
    arrays, restored = samples_along("bartlett", samples, axis, nan_policy, keepdims)
    counts = [float(x.shape[-1]) for x in arrays]
    spreads = [_variance(x) for x in arrays]
    k, rest = len(counts), sum(counts) - len(counts)
    if min(counts) < 2:
        none = restored(ops.multiply(sum(spreads), np.nan))
        return BartlettResult(none, none)
    pooled = sum((n - 1.0) * v for n, v in zip(counts, spreads)) / rest
    logs = sum((n - 1.0) * ops.log(v) for n, v in zip(counts, spreads))
    scale = 1.0 + (sum(1.0 / (n - 1.0) for n in counts) - 1.0 / rest) / (3.0 * (k - 1))
    value = (rest * ops.log(pooled) - logs) / scale
    return BartlettResult(restored(value), restored(special.chdtrc(k - 1.0, value)))


def levene(
    *samples: ArrayLike,
    center: str = "median",
    proportiontocut: float = 0.05,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> LeveneResult:
    """Returns Levene's test of whether two or more samples have the same variance.

    Args:
        samples, axis, nan_policy, keepdims: as for `f_oneway`.
        center: the origin of distances: "median" (Brown and Forsythe's), "mean" or "trimmed".
        proportiontocut: of "trimmed", as for `trim_mean`.

    Returns:
        A named tuple of the statistic and the p-value.

    Raises:
        ValueError: there are fewer than two samples, the center is another word, or as for
            `ttest_1samp`.
        NotImplementedError: as for `ttest_1samp`.

    Source: M. B. Brown and A. B. Forsythe, "Robust tests for the equality of variances", Journal of
    the American Statistical Association 69 (1974).

    >>> from functensor.scipy import stats
    >>> stats.levene([1.0, 3.0, 5.0], [4.0, 6.0, 8.0]).statistic.tolist()
    0.0
    """
    if len(samples) < 2:
        raise ValueError("levene: Must enter at least two input sample vectors.")
    checked_word("levene", "center", center, ("median", "mean", "trimmed"))
    arrays, restored = samples_along("levene", samples, axis, nan_policy, keepdims)
    gaps = []
    for x in arrays:
        if center == "trimmed":
            middle = trim_mean(x, proportiontocut, axis=-1)
        else:
            middle = median(x, axis=-1) if center == "median" else mean_of_samples(x)
        gaps.append(ops.abs(x - ops.expand_dims(middle, -1)))
    value, p = f_oneway(*gaps, axis=-1)
    return LeveneResult(restored(value), restored(p))
