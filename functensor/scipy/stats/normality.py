"""Tests of whether samples have a normal distribution, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from ...backends.annotations import Axis
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from .. import special
from .moments import kurtosis, skew
from .sample_axes import normal_pvalue, samples_along

__all__ = ["SignificanceResult", "jarque_bera", "kurtosistest", "normaltest", "skewtest"]


class SignificanceResult(NamedTuple):
    """The result of tests of normality, and of `spearmanr`."""

    statistic: Array
    pvalue: Array

    @property
    def correlation(self) -> Array:
        """The statistic, under its older name."""
        return self.statistic


def _enough(
    name: str, a: ArrayLike, least: int, axis: Axis, nan_policy: str, keepdims: bool
) -> tuple[Array, Callable[[Array], Array]]:
    """Returns samples, a least number of them, and how axes are restored."""
    (x,), restored = samples_along(name, [a], axis, nan_policy, keepdims)
    if x.shape[-1] < least:
        raise ValueError(f"{name}: requires at least {least} samples; there are {x.shape[-1]}")
    return x, restored


def _skew_score(x: Array) -> Array:
    n = float(x.shape[-1])
    y = skew(x, -1) * sqrt((n + 1) * (n + 3) / (6.0 * (n - 2)))
    # A skew of exactly 0 counts as 1, as in SciPy.
    y = ops.where(ops.equal(y, 0), y + 1.0, y)
    beta = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3)
    beta /= (n - 2) * (n + 5) * (n + 7) * (n + 9)
    w2 = sqrt(2 * (beta - 1)) - 1
    return ops.arcsinh(y / sqrt(2 / (w2 - 1))) / sqrt(0.5 * log(w2))


def _kurtosis_score(x: Array) -> Array:
    n = float(x.shape[-1])
    expected = 3 * (n - 1) / (n + 1)
    spread = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    z = (kurtosis(x, -1, False) - expected) / sqrt(spread)
    root = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    root *= sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / root * (2 / root + sqrt(1 + 4 / root**2))
    low = 1 + z * sqrt(2 / (a - 4))
    none = ops.equal(low, 0)
    size = ops.abs(ops.where(none, 1.0, low))
    cube = ops.sign(low) * ops.where(none, np.nan, ((1 - 2 / a) / size) ** (1 / 3))
    return (1 - 2 / (9 * a) - cube) / sqrt(2 / (9 * a))


def skewtest(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> SignificanceResult:
    """Returns D'Agostino's test of whether samples have the skewness of a normal distribution.

    Args:
        a: an array of eight samples or more.
        axis, nan_policy, alternative, keepdims: as for `ttest_1samp`.

    Returns:
        A named tuple of the statistic and the p-value, arrays without the axis.

    Raises:
        ValueError: there are too few samples, or as for `ttest_1samp`.
        NotImplementedError: as for `ttest_1samp`.

    Source: R. B. D'Agostino, A. J. Belanger and R. B. D'Agostino Jr., "A suggestion for using
    powerful and informative tests of normality", The American Statistician 44 (1990).

    >>> from functensor.scipy import stats
    >>> stats.skewtest([-3.0, -2, -1, 0, 0, 1, 2, 4]).statistic.round(3).tolist()
    0.552
    """
    x, restored = _enough("skewtest", a, 8, axis, nan_policy, keepdims)
    z = _skew_score(x)
    return SignificanceResult(restored(z), restored(normal_pvalue("skewtest", alternative, z)))


def kurtosistest(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> SignificanceResult:
    """Returns Anscombe and Glynn's test of whether samples have a normal distribution's kurtosis.

    Args:
        a: an array of five samples or more.
        axis, nan_policy, alternative, keepdims: as for `ttest_1samp`.

    Returns:
        As `skewtest`.

    Raises:
        ValueError, NotImplementedError: as for `skewtest`.

    Source: F. J. Anscombe and W. J. Glynn, "Distribution of the kurtosis statistic b2 for normal
    samples", Biometrika 70 (1983).

    >>> from functensor.scipy import stats
    >>> stats.kurtosistest([0.0, 1, 2, 3, 4, 9]).statistic.round(4).tolist()
    1.3472
    """
    x, restored = _enough("kurtosistest", a, 5, axis, nan_policy, keepdims)
    z = _kurtosis_score(x)
    p = normal_pvalue("kurtosistest", alternative, z)
    return SignificanceResult(restored(z), restored(p))


def normaltest(
    a: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", *, keepdims: bool = False
) -> SignificanceResult:
    """Returns D'Agostino and Pearson's test of whether samples have a normal distribution.

    Args:
        a: an array of eight samples or more.
        axis, nan_policy, keepdims: as for `skewtest`.

    Returns:
        As `skewtest`.

    Raises:
        ValueError, NotImplementedError: as for `skewtest`.

    Source: R. D'Agostino and E. S. Pearson, "Tests for departure from normality", Biometrika 60
    (1973).

    >>> from functensor.scipy import stats
    >>> stats.normaltest([-3.0, -2, -1, 0, 0, 1, 2, 4]).pvalue.round(3).tolist()
    0.844
    """
    x, restored = _enough("normaltest", a, 8, axis, nan_policy, keepdims)
    k2 = _skew_score(x) ** 2 + _kurtosis_score(x) ** 2
    return SignificanceResult(restored(k2), restored(special.chdtrc(2.0, k2)))


def jarque_bera(
    x: ArrayLike, *, axis: Axis = None, nan_policy: str = "propagate", keepdims: bool = False
) -> SignificanceResult:
    """Returns Jarque and Bera's test of whether samples have a normal distribution.

    Args:
        x: an array.
        axis: as for `gmean`; None for all.
        nan_policy, keepdims: as for `skewtest`.

    Returns:
        As `skewtest`.

    Raises:
        ValueError: there are no samples, or as for `gmean`.
        NotImplementedError: as for `gmean`.

    Source: C. M. Jarque and A. K. Bera, "Efficient tests for normality, homoscedasticity and serial
    independence of regression residuals", Economics Letters 6 (1980).

    >>> from functensor.scipy import stats
    >>> stats.jarque_bera([-1.0, 1.0]).statistic.round(6).tolist()
    0.333333
    """
    z, restored = _enough("jarque_bera", x, 1, axis, nan_policy, keepdims)
    value = (skew(z, -1) ** 2 + kurtosis(z, -1) ** 2 / 4) * (z.shape[-1] / 6)
    return SignificanceResult(restored(value), restored(special.chdtrc(2.0, value)))
