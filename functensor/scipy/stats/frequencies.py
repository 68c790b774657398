"""Entropies, likelihoods and tests of frequencies, under SciPy's names."""

from __future__ import annotations

from math import floor, log, sqrt
from typing import NamedTuple

import numpy as np

from ...backends.annotations import Axis
from ...backends.restoring import quiet
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.shape_dtype import finfo
from .. import special
from ..axis_slices import cut_last, padded_last
from .sample_axes import as_if_known, checked_word, samples_along

__all__ = [
    "Power_divergenceResult", "boxcox_llf", "chisquare", "differential_entropy", "entropy",
    "power_divergence",
]  # fmt: skip

# The powers of named statistics.
POWERS = {
    "pearson": 1.0, "log-likelihood": 0.0, "freeman-tukey": -0.5, "mod-log-likelihood": -1.0,
    "neyman": -2.0, "cressie-read": 2 / 3,
}  # fmt: skip


class Power_divergenceResult(NamedTuple):
    """The result of `power_divergence` and `chisquare`."""

    statistic: Array
    pvalue: Array


def entropy(
    pk: ArrayLike,
    qk: ArrayLike | None = None,
    base: float | None = None,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns the entropies of distributions, or how far they are from others.

    Args:
        pk: an array of weights, which are divided by their sum.
        qk: the others, of a shape that broadcasts; None for the entropy alone.
        base: of the logarithm; None for e.
        axis, nan_policy, keepdims: as for `gmean`.

    Returns:
        An array without the axis: ``-sum(pk * log(pk))`` or ``sum(pk * log(pk / qk))``.

    Raises:
        ValueError: the base is not positive, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: C. E. Shannon, "A mathematical theory of communication", Bell System Technical Journal
    27 (1948); S. Kullback and R. A. Leibler, "On information and sufficiency", 1951.

    >>> from functensor.scipy import stats
    >>> stats.entropy([1.0, 1.0], base=2).tolist()
    1.0
    """
    if base is not None and base <= 0:
        raise ValueError(f"entropy: `base` must be a positive number or `None`, not {base!r}")
    given = [pk] if qk is None else [pk, qk]
    arrays, restored = samples_along("entropy", given, axis, nan_policy, keepdims)
    parts = [x / ops.sum(x, axis=-1, keepdims=True) for x in arrays]
    terms = special.entr(parts[0]) if qk is None else special.rel_entr(*parts)
    out = ops.sum(terms, axis=-1)
    return restored(out if base is None else out / log(base))


def _by_windows(x: Array, m: int) -> Array:
    """Returns the distances of sorted samples m before and m after each, the ends repeated."""
    wide = padded_last(x, m, m, mode="edge")
    return cut_last(wide, 2 * m) - cut_last(wide, None, -2 * m)


def _vasicek(x: Array, m: int) -> Array:
    n = x.shape[-1]
    return ops.mean(ops.log(_by_windows(x, m) * (n / (2 * m))), axis=-1)


def _van_es(x: Array, m: int) -> Array:
    n = x.shape[-1]
    gaps = cut_last(x, m) - cut_last(x, None, -m)
    total = ops.mean(ops.log(gaps * ((n + 1) / m)), axis=-1)
    return total + (float(np.sum(1 / np.arange(m, n + 1))) + log(m) - log(n + 1))


def _ebrahimi(x: Array, m: int) -> Array:
    n = x.shape[-1]
    i = np.arange(1, n + 1)
    weights = np.where(i <= m, 1 + (i - 1) / m, np.where(i >= n - m + 1, 1 + (n - i) / m, 2.0))
    scale = (n / (m * weights)).astype(x.dtype)
    return ops.mean(ops.log(_by_windows(x, m) * beside(x, scale)), axis=-1)


def _correa(x: Array, m: int) -> Array:
    n = x.shape[-1]
    wide = padded_last(x, m, m, mode="edge")
    shifts = np.arange(-m, m + 1)[:, None]
    windows = ops.take(wide, beside(x, np.arange(n) + shifts + m), axis=-1)
    off = windows - ops.mean(windows, axis=-2, keepdims=True)
    top = ops.sum(off * beside(x, shifts.astype(x.dtype)), axis=-2)
    return -ops.mean(ops.log(top / (n * ops.sum(off * off, axis=-2))), axis=-1)


ESTIMATORS = {"vasicek": _vasicek, "van es": _van_es, "ebrahimi": _ebrahimi, "correa": _correa}


def differential_entropy(
    values: ArrayLike,
    *,
    window_length: int | None = None,
    base: float | None = None,
    axis: Axis = 0,
    method: str = "auto",
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Array:
    """Returns estimates of the entropy of the distribution from which samples are drawn.

    Args:
        values: an array.
        window_length: m, for the distances of samples m before and after each; None for the root
            of the number of samples, rounded.
        base: as for `entropy`.
        axis, nan_policy, keepdims: as for `gmean`.
        method: "vasicek", "van es", "ebrahimi", "correa", or "auto": by the number of samples.

    Returns:
        An array without the axis.

    Raises:
        ValueError: the window is not positive and less than half of the samples, a word is none of
            these, the base is not positive, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: O. Vasicek, "A test for normality based on sample entropy", Journal of the Royal
    Statistical Society B 38 (1976); H. A. Noughabi, "Entropy estimation using numerical methods",
    Annals of Data Science 2 (2015).

    >>> from functensor.scipy import stats
    >>> stats.differential_entropy([0.0, 1.0, 3.0, 6.0, 9.0], window_length=1).round(6).tolist()
    3.005926
    """
    name = "differential_entropy"
    checked_word(name, "method", method, ("auto", *ESTIMATORS))
    (x,), restored = samples_along(name, [values], axis, nan_policy, keepdims)
    n = x.shape[-1]
    m = floor(sqrt(n) + 0.5) if window_length is None else window_length
    if not 2 <= 2 * m < n:
        raise ValueError(
            f"{name}: Window length ({m}) must be positive and less than half the sample size "
            f"({n})."
        )
    if base is not None and base <= 0:
        raise ValueError(f"{name}: `base` must be a positive number or `None`, not {base!r}")
    if method == "auto":
        method = "van es" if n <= 10 else "ebrahimi" if n <= 1000 else "vasicek"
    with quiet():
        out = ESTIMATORS[method](ops.sort(x, axis=-1), m)
    return restored(out if base is None else out / log(base))


def boxcox_llf(
    lmb: Array | float,
    data: ArrayLike,
    *,
    axis: Axis = 0,
    keepdims: bool = False,
    nan_policy: str = "propagate",
) -> Array:
    """Returns the logarithm of the likelihood of a power of Box and Cox's transformation.

    Args:
        lmb: the power, a number.
        data: an array of positive numbers.
        axis, keepdims, nan_policy: as for `gmean`.

    Returns:
        An array without the axis, NaN where there are no data.

    Raises:
        ValueError, NotImplementedError: as for `gmean`.

    Source: G. E. P. Box and D. R. Cox, "An analysis of transformations", Journal of the Royal
    Statistical Society B 26 (1964), equation 8.

    >>> from functensor.scipy import stats
    >>> stats.boxcox_llf(1.0, [1.0, 5.0]).round(6).tolist()
    -1.386294
    """
    (x,), restored = samples_along("boxcox_llf", [data], axis, nan_policy, keepdims)
    n = x.shape[-1]
    spread = ops.var(special.boxcox(x, lmb), axis=-1)
    out = (lmb - 1) * ops.sum(ops.log(x), axis=-1) - n / 2 * ops.log(spread)
    return restored(out)


# -- tests of frequencies


def power_divergence(
    f_obs: ArrayLike,
    f_exp: ArrayLike | None = None,
    ddof: ArrayLike = 0,
    axis: Axis = 0,
    lambda_: Array | float | str | None = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Power_divergenceResult:
    """Returns the test of Cressie and Read of whether frequencies are the expected ones.

    Args:
        f_obs: the frequencies, an array.
        f_exp: the expected ones, of a shape that broadcasts; None for their mean.
        ddof: a number subtracted from the degrees of freedom, one less than there are frequencies.
        axis, nan_policy, keepdims: as for `gmean`.
        lambda_: the power, a number, or the name of a statistic; None for Pearson's, 1.

    Returns:
        A named tuple of the statistic and the p-value, arrays without the axis.

    Raises:
        ValueError: the name is none of a statistic, the sums of the frequencies differ, or as for
            `gmean`.
        NotImplementedError: as for `gmean`.

    Source: N. Cressie and T. R. C. Read, "Multinomial goodness-of-fit tests", Journal of the Royal
    Statistical Society B 46 (1984).

    >>> from functensor.scipy import stats
    >>> stats.power_divergence([1.0, 3.0]).statistic.tolist()
    1.0
    """
    return _divergence("power_divergence", f_obs, f_exp, ddof, axis, lambda_, nan_policy, keepdims)


def _divergence(
    name: str,
    f_obs: ArrayLike,
    f_exp: ArrayLike | None,
    ddof: ArrayLike,
    axis: Axis,
    power: Array | float | str | None,
    nan_policy: str,
    keepdims: bool,
    sum_check: bool = True,
) -> Power_divergenceResult:
    if isinstance(power, str):
        power = POWERS[checked_word(name, "lambda_", power, tuple(POWERS))]
    power = 1.0 if power is None else power
    given = [f_obs] if f_exp is None else [f_obs, f_exp]
    (observed, *others), restored = samples_along(name, given, axis, nan_policy, keepdims)
    expected = others[0] if others else ops.mean(observed, axis=-1, keepdims=True)
    if others and sum_check:
        _same_sums(name, observed, expected)
    with quiet():
        if power == 1:
            terms = (observed - expected) ** 2 / expected
        elif power == 0:
            terms = 2.0 * special.xlogy(observed, observed / expected)
        elif power == -1:
            terms = 2.0 * special.xlogy(expected, expected / observed)
        else:
            terms = observed * ((observed / expected) ** power - 1)
            terms = terms / (0.5 * power * (power + 1))
    out = ops.sum(terms, axis=-1)
    p = special.chdtrc(terms.shape[-1] - 1 - ops.astype(ops.asarray(ddof), out.dtype), out)
    return Power_divergenceResult(restored(out), restored(p))


def _same_sums(name: str, observed: Array, expected: Array) -> None:
    """Refuses known frequencies whose sum is not the expected one."""
    first, second = (as_if_known(name, ops.sum(x, axis=-1)) for x in (observed, expected))
    if first is None or second is None:
        return
    rtol = float(finfo(observed.dtype).eps) ** 0.5
    gap = np.abs(first - second) / np.minimum(first, second)
    if (gap > rtol).any():
        raise ValueError(
            f"{name}: the sums of the observed and of the expected frequencies differ by "
            f"{float(np.max(gap)):.3g} of themselves, more than {rtol:.3g}: scale f_exp"
        )


def chisquare(
    f_obs: ArrayLike,
    f_exp: ArrayLike | None = None,
    ddof: ArrayLike = 0,
    axis: Axis = 0,
    *,
    sum_check: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Power_divergenceResult:
    """Returns Pearson's test of whether frequencies are the expected ones.

    Args:
        f_obs, f_exp, ddof, axis, nan_policy, keepdims: as for `power_divergence`.
        sum_check: whether to refuse frequencies whose sum is not the expected one.

    Returns:
        As `power_divergence`.

    Raises:
        ValueError, NotImplementedError: as for `power_divergence`.

    Source: K. Pearson, "On the criterion that a given system of deviations ...", Philosophical
    Magazine 50 (1900).

    >>> from functensor.scipy import stats
    >>> stats.chisquare([1.0, 3.0]).statistic.tolist()
    1.0
    """
    words = nan_policy, keepdims, sum_check
    return _divergence("chisquare", f_obs, f_exp, ddof, axis, 1.0, *words)
