"""SciPy's ``stats``: distributions whose functions have derivatives by all of their parameters.

Every distribution is an object with SciPy's functions: ``stats.norm.logpdf(x, loc, scale)``.
Arguments broadcast, single precision stays single, and outside of the support a density is 0, its
logarithm -inf and every derivative 0. Random numbers come from `functensor.random`.
"""

from __future__ import annotations

import sys

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
from .gamma_family import beta, chi2, gamma, invgamma, t
from .multivariate import dirichlet, multinomial, multivariate_normal

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "geom", "gumbel",
    "gumbel_l", "gumbel_r", "halfnorm", "invgamma", "laplace", "logistic", "lognorm", "multinomial",
    "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rayleigh", "t", "truncnorm",
    "uniform", "vonmises", "weibull_min",
]

# Elsewhere these are modules, and imported as such: ``import functensor.scipy.stats.norm as norm``.
for name in __all__:
    sys.modules[f"{__name__}.{name}"] = globals()[name]
del name
