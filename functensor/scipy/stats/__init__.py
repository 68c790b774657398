"""SciPy's ``stats``: distributions with derivatives by all of their parameters, and statistics.

Every distribution is an object with SciPy's functions: ``stats.norm.logpdf(x, loc, scale)``.
Arguments broadcast, single precision stays single, and outside of the support a density is 0, its
logarithm -inf and every derivative 0. Random numbers come from `functensor.random`.
"""

from __future__ import annotations

import sys

from ...faces.publish import publish
from .association import linregress, pearsonr, rankdata, spearmanr
from .circular import circmean, circstd, circvar, false_discovery_control, wasserstein_distance
from .continuous import (
    cauchy,
    expon,
    gumbel,
    gumbel_l,
    gumbel_r,
    halfnorm,
    laplace,
    logistic,
    lognorm,
    norm,
    pareto,
    rayleigh,
    truncnorm,
    uniform,
    vonmises,
    weibull_min,
)
from .discrete import bernoulli, binom, geom, nbinom, poisson
from .frequencies import boxcox_llf, chisquare, differential_entropy, entropy, power_divergence
from .gamma_family import beta, chi2, gamma, invgamma, t
from .hypotheses import (
    bartlett,
    f_oneway,
    levene,
    ttest_1samp,
    ttest_ind,
    ttest_ind_from_stats,
    ttest_rel,
)
from .means import gmean, hmean, pmean, trim_mean
from .moments import describe, kstat, kstatvar, kurtosis, moment, skew
from .multivariate import dirichlet, multinomial, multivariate_normal
from .normality import jarque_bera, kurtosistest, normaltest, skewtest
from .spreads import gzscore, iqr, median_abs_deviation, sem, variation, zmap, zscore

__all__ = [
    "bartlett", "bernoulli", "beta", "binom", "boxcox_llf", "cauchy", "chi2", "chisquare",
    "circmean", "circstd", "circvar", "describe", "differential_entropy", "dirichlet", "entropy",
    "expon", "f_oneway", "false_discovery_control", "gamma", "geom", "gmean", "gumbel", "gumbel_l",
    "gumbel_r", "gzscore", "halfnorm", "hmean", "invgamma", "iqr", "jarque_bera", "kstat",
    "kstatvar", "kurtosis", "kurtosistest", "laplace", "levene", "linregress", "logistic",
    "lognorm", "median_abs_deviation", "moment", "multinomial", "multivariate_normal", "nbinom",
    "norm", "normaltest", "pareto", "pearsonr", "pmean", "poisson", "power_divergence", "rankdata",
    "rayleigh", "sem", "skew", "skewtest", "spearmanr", "t", "trim_mean", "truncnorm",
    "ttest_1samp", "ttest_ind", "ttest_ind_from_stats", "ttest_rel", "uniform", "variation",
    "vonmises", "wasserstein_distance", "weibull_min", "zmap", "zscore",
]

# Elsewhere distributions are modules: ``import functensor.scipy.stats.norm as norm``.
for name in __all__:
    if hasattr(globals()[name], "logpdf") or hasattr(globals()[name], "logpmf"):
        sys.modules[f"{__name__}.{name}"] = globals()[name]
del name

publish(globals())
