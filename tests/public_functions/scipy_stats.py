"""Cases of SciPy's distributions: all functions of each, in every parameter."""

import numpy as np
import scipy.stats
from support.run_on_device import beside

from functensor.primitives.core.test_samples import POSITIVE, REAL, Domain

from .harness import Case, Operand

SHAPE = (3,)
ABOVE = Domain(1.2, 4.0)
HALF = Domain(0.1, 0.9)
POSITION = Domain(-0.3, 0.0)
WIDTH = Domain(1.0, 2.0)
COUNT = Domain(0, 5, kind="i")
# Beyond them derivatives by differences lose digits.
CLOSE = Domain(-1.4, 1.4)

# The domains of x and of the shape parameters.
CONTINUOUS = {
    "norm": (REAL,),
    "halfnorm": (POSITIVE,),
    "lognorm": (POSITIVE, Domain(0.4, 1.5)),
    "truncnorm": (Domain(-0.4, 0.4), Domain(-2.0, -1.0), Domain(0.8, 2.0)),
    "uniform": (HALF,),
    "expon": (POSITIVE,),
    "laplace": (Domain(0.2, 2.0),),
    "logistic": (REAL,),
    "cauchy": (REAL,),
    "gumbel_r": (CLOSE,),
    "gumbel_l": (CLOSE,),
    "pareto": (Domain(2.5, 5.0), ABOVE),
    "rayleigh": (POSITIVE,),
    "weibull_min": (POSITIVE, ABOVE),
    "vonmises": (CLOSE, POSITIVE),
    "gamma": (POSITIVE, ABOVE),
    "chi2": (POSITIVE, ABOVE),
    "invgamma": (POSITIVE, ABOVE),
    "beta": (HALF, ABOVE, ABOVE),
    "t": (CLOSE, ABOVE),
}
DISCRETE = {
    "bernoulli": (Domain(0, 1, kind="i"), HALF),
    "geom": (Domain(1, 5, kind="i"), HALF),
    "nbinom": (COUNT, ABOVE, HALF),
    "poisson": (COUNT, POSITIVE),
}
PROBABILITIES = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf")
QUANTILES = ("ppf", "isf")
COUNTING = ("logpmf", "pmf", "cdf", "logcdf", "sf", "logsf")
WITHOUT_QUANTILES = {"vonmises"}


def case(name, call, *operands, **options):
    """Returns a case of a distribution. SciPy makes double precision of single precision."""

    def reference(*xs):
        out = call(scipy, *xs)
        kinds = [x.dtype for x in xs if x.dtype.kind == "f"]
        return tuple(np.asarray(part, kinds[0]) for part in (out if type(out) is tuple else (out,)))

    return Case(f"scipy.stats.{name}", call, *operands, reference=reference, **options)


def functions_of(name, kinds):
    """Returns the call of several functions of a distribution at the same arguments."""

    def call(sp, *args):
        law = getattr(sp.stats, name)
        return tuple(getattr(law, kind)(*args) for kind in kinds)

    return call


CASES = []
for name, (where, *parameters) in CONTINUOUS.items():
    domains = [*parameters, POSITION, WIDTH]
    rest = [Operand((), domain) for domain in domains]
    for domain, kinds in ((where, PROBABILITIES), (HALF, QUANTILES)):
        if kinds is PROBABILITIES or name not in WITHOUT_QUANTILES:
            call = functions_of(name, kinds)
            CASES.append(case(name, call, Operand(SHAPE, domain), *rest))
for name, domains in DISCRETE.items():
    operands = [Operand(SHAPE, domains[0]), *(Operand((), domain) for domain in domains[1:])]
    CASES.append(case(name, functions_of(name, COUNTING), *operands))
CASES += [
    case(
        "binom",
        lambda sp, k, p: functions_of("binom", COUNTING)(sp, k, 6, p),
        Operand(SHAPE, COUNT),
        Operand((), HALF),
    ),
    case(
        "multivariate_normal",
        lambda sp, x, mean, root: sp.stats.multivariate_normal.logpdf(
            x, mean, root @ root.T + beside(root, np.eye(2, dtype=root.dtype))
        ),
        (2, 2),
        (2,),
        (2, 2),
    ),
    case(
        "multivariate_normal",
        lambda sp, x, mean, cov: sp.stats.multivariate_normal.pdf(x, mean, cov),
        (2, 2),
        (2,),
        Operand((2,), POSITIVE),
    ),
    case(
        "dirichlet",
        lambda sp, x, alpha: (
            sp.stats.dirichlet.logpdf(x / x.sum(0), alpha),
            sp.stats.dirichlet.pdf(x / x.sum(0), alpha),
        ),
        Operand((3, 2), POSITIVE),
        Operand((3,), POSITIVE),
        dtypes="d",
    ),
    case(
        "multinomial",
        lambda sp, p: (
            sp.stats.multinomial.logpmf([[2, 1, 1], [0, 0, 4]], 4, p / p.sum()),
            sp.stats.multinomial.pmf([1, 2, 1], 4, p / p.sum()),
        ),
        Operand((3,), POSITIVE),
        dtypes="d",
    ),
]
