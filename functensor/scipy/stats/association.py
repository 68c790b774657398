"""Correlation, regression and ranks of samples, under SciPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.annotations import Axis
from ...backends.restoring import quiet
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...transforms.vmap import vmap
from ...tree import register
from .. import special
from .hypotheses import ConfidenceInterval, interval_quantile, one_sided
from .normality import SignificanceResult
from .sample_axes import (
    ALTERNATIVES,
    POLICIES,
    checked_policy,
    checked_word,
    samples_along,
    student_pvalue,
    symmetric_pvalue,
)

__all__ = [
    "LinregressResult", "PearsonRResult", "linregress", "pearsonr", "rankdata", "spearmanr",
]  # fmt: skip

RANKING_METHODS = ("average", "min", "max", "dense", "ordinal")


class PearsonRResult(tuple):  # type: ignore[type-arg]
    """The result of `pearsonr`: the pair of the correlation and its p-value.

    Attributes:
        statistic, correlation, pvalue: the pair.
        alternative: the hypothesis.
        nobs: the number of samples.
    """

    statistic: Array
    correlation: Array
    pvalue: Array
    alternative: str
    nobs: int

    def __new__(
        cls, statistic: Array, pvalue: Array, alternative: str = "two-sided", nobs: int = 0
    ) -> PearsonRResult:
        out = super().__new__(cls, (statistic, pvalue))
        out.statistic = out.correlation = statistic
        out.pvalue, out.alternative, out.nobs = pvalue, alternative, nobs
        return out

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.alternative, self.nobs)

    def __repr__(self) -> str:
        return f"PearsonRResult(statistic={self.statistic}, pvalue={self.pvalue})"

    def confidence_interval(
        self, confidence_level: float = 0.95, method: None = None
    ) -> ConfidenceInterval:
        """Returns the bounds of the correlation, by Fisher's transformation.

        Args:
            confidence_level: a probability, between 0 and 1.
            method: None; resampling is not there.

        Raises:
            ValueError: the level is no probability.
            NotImplementedError: a method is given.
        """
        if method is not None:
            raise NotImplementedError("confidence_interval: method= is not there: leave it out")
        quantile = interval_quantile(confidence_level, self.alternative)
        if self.nobs < 4:
            ones = ops.ones_like(self.statistic)
            return ConfidenceInterval(-ones, ones)
        reach = special.ndtri(quantile) / (self.nobs - 3) ** 0.5
        z = ops.arctanh(self.statistic)
        return one_sided(self.alternative, ops.tanh(z - reach), ops.tanh(z + reach), 1.0)


register(
    PearsonRResult,
    lambda node: ([*node], (node.alternative, node.nobs)),
    lambda static, children: PearsonRResult(*children, *static),
)


def _minus_mean(x: Array) -> Array:
    return x - ops.mean(x, axis=-1, keepdims=True)


def _correlation(x: Array, y: Array) -> Array:
    """Returns the correlation of samples that are about their means."""
    parts = []
    for z in (x, y):
        # Scaling keeps squares from vanishing and overflowing.
        top = ops.max(ops.abs(ops.stop_gradient(z)), axis=-1, keepdims=True)
        z = z / top
        parts.append(z / ops.sum(z * z, axis=-1, keepdims=True) ** 0.5)
    r = ops.sum(parts[0] * parts[1], axis=-1)
    return ops.clip(r, -1.0, 1.0)


def pearsonr(
    x: ArrayLike,
    y: ArrayLike,
    *,
    alternative: str = "two-sided",
    method: None = None,
    axis: Axis = 0,
) -> PearsonRResult:
    """Returns Pearson's coefficient of correlation, and its p-value.

    Args:
        x, y: arrays that broadcast, of the same length along the axis.
        alternative: "two-sided", "less" or "greater".
        method: None; resampling is not there.
        axis: along which axis; None for all.

    Returns:
        The correlation and the p-value, arrays without the axis, with ``confidence_interval()``;
        NaN where all samples of one array are the same.

    Raises:
        ValueError: there are fewer than two samples, the lengths differ, or a word is none of
            these.
        NotImplementedError: a method is given.

    Source: Student, "Probable error of a correlation coefficient", Biometrika 6 (1908).

    >>> from functensor.scipy import stats
    >>> stats.pearsonr([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]).statistic.round(12).tolist()
    0.5
    """
    name = "pearsonr"
    if method is not None:
        raise NotImplementedError(f"{name}: method= is not there: leave it out")
    checked_word(name, "alternative", alternative, ALTERNATIVES)
    (a, b), _ = samples_along(name, [x, y], axis)
    n = a.shape[-1]
    if n != b.shape[-1] or n < 2:
        raise ValueError(
            f"{name}: `x` and `y` must have the same length along `axis`, at least 2: they have "
            f"{n} and {b.shape[-1]}"
        )

    def below(x: Array) -> Array:
        # (1 + r) / 2 has a beta distribution.
        return special.betainc(n / 2 - 1, n / 2 - 1, (1 + x) / 2)

    with quiet():
        if n == 2:
            a, b = (ops.index(z, (Ellipsis, 1)) - ops.index(z, (Ellipsis, 0)) for z in (a, b))
            r = ops.sign(a) * ops.sign(b)
            r = ops.where(ops.equal(r, 0), np.nan, r)
            return PearsonRResult(r, ops.where(ops.isnan(r), r, 1.0), alternative, n)
        r = _correlation(_minus_mean(a), _minus_mean(b))
        return PearsonRResult(r, symmetric_pvalue(name, alternative, r, below), alternative, n)


def _ranks_of_row(x: Array, method: str) -> Array:
    ordered = ops.sort(x)
    if method == "dense":
        new = ops.not_equal(ordered[1:], ordered[:-1])
        new = ops.concatenate([ops.ones_like(new[:1]) if len(new) else np.ones(1, bool), new])
        return ops.take(ops.cumsum(new, 0), ops.searchsorted(ordered, x), axis=0)
    first = ops.searchsorted(ordered, x) + 1
    if method == "min":
        return first
    last = ops.searchsorted(ordered, x, side="right")
    return last if method == "max" else (first + last) / 2


def _ranks(x: Array, method: str) -> Array:
    """Returns the ranks along the last axis, which have no derivative."""
    x = ops.stop_gradient(x)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    if not x.size:
        return ops.zeros_like(x, dtype=dtype)
    if method == "ordinal":
        ranks = ops.argsort(ops.argsort(x, axis=-1, stable=True), axis=-1) + 1
    elif len(x.shape) < 2:
        ranks = _ranks_of_row(x, method)
    else:
        rows = ops.reshape(x, (-1, x.shape[-1]))
        ranks = ops.reshape(vmap(lambda row: _ranks_of_row(row, method))(rows), x.shape)
    return ops.astype(ranks, dtype)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: Axis = None, nan_policy: str = "propagate"
) -> Array:
    """Returns the ranks of samples, from 1 on.

    Args:
        a: an array.
        method: the rank of ties: the "average" of their ranks, the "min", the "max", "dense" for
            ranks without gaps, "ordinal" for their order in a.
        axis: along which axis; None for all, flat.
        nan_policy: "propagate": a row with NaN has ranks of NaN alone; "omit": NaN have the rank
            NaN, and the others are ranked without them; "raise" refuses NaN.

    Returns:
        An array of a's shape, or flat, of a's floating dtype or of float64 by every method, as in
        SciPy from 1.18 on; before that it has integers by methods other than "average". There is
        no derivative.

    Raises:
        ValueError: the method is another word, or there is a NaN, and it is refused.

    Source: W. H. Kruskal and W. A. Wallis, "Use of ranks in one-criterion variance analysis",
    Journal of the American Statistical Association 47 (1952).

    >>> from functensor.scipy import stats
    >>> stats.rankdata([0.0, 2.0, 3.0, 2.0]).tolist()
    [1.0, 2.5, 4.0, 2.5]
    """
    checked_word("rankdata", "method", method, RANKING_METHODS)
    x = ops.asarray(a)
    checked_word("rankdata", "nan_policy", nan_policy, POLICIES)
    if nan_policy == "raise":
        checked_policy("rankdata", nan_policy, x)
    if axis is None:
        x, axis = ops.ravel(x), -1
    x = ops.moveaxis(x, axis, -1)
    ranks = _ranks(x, method)
    if x.dtype.kind == "f":
        # NaN are sorted behind all numbers, and do not change their ranks.
        bad = ops.isnan(x)
        if nan_policy == "propagate":
            bad = ops.any(bad, axis=-1, keepdims=True)
        ranks = ops.where(bad, np.nan, ranks)
    return ops.moveaxis(ranks, -1, axis)


def spearmanr(
    a: ArrayLike,
    b: ArrayLike | None = None,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
) -> SignificanceResult:
    """Returns Spearman's coefficient of rank correlation, and its p-value.

    Args:
        a, b: samples on one axis each, or with several variables beside the axis; b may be None.
        axis: the samples' axis, 0 or 1; None for all samples in one.
        nan_policy: "propagate", or "raise" to refuse NaN.
        alternative: "two-sided", "less" or "greater".

    Returns:
        A named tuple: numbers for two variables, else matrices over all of them. There is no
        derivative, since ranks have none.

    Raises:
        ValueError: there are more than two axes, fewer than two variables, or a word is none of
            these.
        NotImplementedError: NaN is to be left out.

    Source: C. Spearman, "The proof and measurement of association between two things", The American
    Journal of Psychology 15 (1904).

    >>> from functensor.scipy import stats
    >>> stats.spearmanr([1.0, 2.0, 3.0], [1.0, 9.0, 4.0]).statistic.round(12).tolist()
    0.5
    """
    name = "spearmanr"
    checked_word(name, "alternative", alternative, ALTERNATIVES)
    parts = []
    for x in (a, b):
        if x is None:
            continue
        x = ops.asarray(x)
        x = ops.ravel(x) if axis is None else x
        if len(x.shape) > 2:
            raise ValueError(f"{name}: only handles 1-D or 2-D arrays, not of shape {x.shape}")
        x = ops.astype(x, np.float64) if x.dtype.kind != "f" else x
        parts.append(ops.expand_dims(x, 0) if len(x.shape) == 1 else ops.moveaxis(x, axis, -1))
    checked_policy(name, nan_policy, *parts)
    rows = ops.concatenate(parts, axis=0)
    if rows.shape[0] < 2:
        raise ValueError(f"{name}: needs at least 2 variables to compare")
    n = rows.shape[-1]
    if not n:
        none = np.nan if rows.shape[0] == 2 else np.full((rows.shape[0],) * 2, np.nan)
        return SignificanceResult(ops.asarray(none), ops.asarray(none))
    bad = ops.any(ops.isnan(rows))
    ranks = _minus_mean(ops.astype(_ranks(rows, "average"), rows.dtype))
    if rows.shape[0] == 2:
        pairs = ops.index(ranks, 0), ops.index(ranks, 1)
    else:
        pairs = ops.expand_dims(ranks, 1), ops.expand_dims(ranks, 0)
    with quiet():
        r = ops.where(bad, np.nan, _correlation(*pairs))
        df = n - 2.0
        t = r * (df / ((r + 1.0) * (1.0 - r))) ** 0.5
        p = student_pvalue(name, alternative, t, ops.full_like(t, df))
    return SignificanceResult(r, p)


class LinregressResult(tuple):  # type: ignore[type-arg]
    """The result of `linregress`: slope, intercept, rvalue, pvalue and stderr, five by place.

    Attributes:
        slope, intercept, rvalue, pvalue, stderr: by name.
        intercept_stderr: the standard error of the intercept.
    """

    slope: Array
    intercept: Array
    rvalue: Array
    pvalue: Array
    stderr: Array
    intercept_stderr: Array

    def __new__(cls, *parts: Array) -> LinregressResult:
        out = super().__new__(cls, parts[:5])
        out.slope, out.intercept, out.rvalue, out.pvalue, out.stderr = parts[:5]
        out.intercept_stderr = parts[5]
        return out

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.intercept_stderr)

    def __repr__(self) -> str:
        names = ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr")
        return f"LinregressResult({', '.join(f'{n}={getattr(self, n)}' for n in names)})"


register(
    LinregressResult,
    lambda node: ([*node, node.intercept_stderr], None),
    lambda _, children: LinregressResult(*children),
)


def linregress(
    x: ArrayLike,
    y: ArrayLike,
    alternative: str = "two-sided",
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> LinregressResult:
    """Returns the line that fits samples best, by least squares.

    Args:
        x, y: arrays of the same length along the axis.
        alternative: "two-sided", "less" or "greater": the hypothesis about the slope.
        axis, nan_policy, keepdims: as for `ttest_1samp`.

    Returns:
        The slope, the intercept, the correlation, the p-value of a slope of 0 and the standard
        error of the slope; ``intercept_stderr`` is the sixth, by name alone.

    Raises:
        ValueError: the lengths differ, there are fewer than two samples, or as for `ttest_1samp`.
        NotImplementedError: as for `ttest_1samp`.

    Source: R. A. Fisher, "Statistical Methods for Research Workers", chapter V.

    >>> from functensor.scipy import stats
    >>> stats.linregress([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]).slope.round(12).tolist()
    2.0
    """
    name = "linregress"
    (a, b), restored = samples_along(name, [x, y], axis, nan_policy, keepdims)
    n = a.shape[-1]
    if n != b.shape[-1] or n < 2:
        raise ValueError(
            f"{name}: x and y have {n} and {b.shape[-1]} samples: give as many, at least two"
        )
    u, v = _minus_mean(a), _minus_mean(b)
    mean = ops.mean(a, axis=-1)
    sxx, sxy, syy = (ops.mean(p * q, axis=-1) for p, q in ((u, u), (u, v), (v, v)))
    with quiet():
        slope = sxy / sxx
        r = ops.clip(sxy / (sxx * syy) ** 0.5, -1.0, 1.0)
        if n == 2:
            p = ops.where(ops.equal(sxy, 0), 1.0, 0.0 * r)
            error = intercept_error = 0.0 * slope
        else:
            df = n - 2.0
            error = ((1.0 - r * r) * syy / sxx / df) ** 0.5
            t = r * (df / ((1.0 - r) * (1.0 + r))) ** 0.5
            p = student_pvalue(name, alternative, t, ops.full_like(t, df))
            intercept_error = error * (sxx + mean * mean) ** 0.5
    intercept = ops.mean(b, axis=-1) - slope * mean
    parts = (slope, intercept, r, p, error, intercept_error)
    return LinregressResult(*(restored(z) for z in parts))


