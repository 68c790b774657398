"""Continuous distributions whose functions are elementary, or those of the normal one."""

from __future__ import annotations

from math import inf, log, pi

import numpy as np

from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from .. import special
from .distribution import LOG_2, POSITIVE_AXIS, Continuous, LawParameter, log1mexp

__all__ = [
    "cauchy", "expon", "gumbel", "gumbel_l", "gumbel_r", "halfnorm", "laplace", "logistic",
    "lognorm", "norm", "pareto", "rayleigh", "truncnorm", "uniform", "vonmises", "weibull_min",
]  # fmt: skip

LOG_ROOT_2PI = 0.5 * log(2 * pi)

# -- the normal distribution and its relatives


def _normal_logpdf(z: Array) -> Array:
    return -0.5 * z * z - LOG_ROOT_2PI


def _half_logsf(z: Array) -> Array:
    near = ops.less(z, 0.5)
    # The probability is nearly 1 where z is small.
    middle = ops.log1p(-special.erf(ops.where(near, z, 0.0) * 0.5**0.5))
    return ops.where(near, middle, LOG_2 + special.log_ndtr(-z))


norm = Continuous(
    "norm",
    "normal",
    logpdf=_normal_logpdf,
    cdf=lambda z: special.ndtr(z),
    sf=lambda z: special.ndtr(-z),
    logcdf=lambda z: special.log_ndtr(z),
    logsf=lambda z: special.log_ndtr(-z),
    ppf=lambda q: special.ndtri(q),
    isf=lambda q: -special.ndtri(q),
    example="logpdf(0.0, loc=1.0, scale=2.0) -> Array(-1.73708571, dtype=float64, device='cpu')",
)
halfnorm = Continuous(
    "halfnorm",
    "half-normal",
    **POSITIVE_AXIS,
    logpdf=lambda z: _normal_logpdf(z) + LOG_2,
    cdf=lambda z: special.erf(z * 0.5**0.5),
    sf=lambda z: 2 * special.ndtr(-z),
    logsf=lambda z: _half_logsf(z),
    ppf=lambda q: special.ndtri(0.5 + 0.5 * q),
    isf=lambda q: -special.ndtri(0.5 * q),
    example="pdf(0.0) -> Array(0.79788456, dtype=float64, device='cpu')",
)
lognorm = Continuous(
    "lognorm",
    "log-normal",
    {"s": "positive"},
    **POSITIVE_AXIS,
    open_support=True,
    logpdf=lambda z, s: _normal_logpdf(ops.log(z) / s) - ops.log(s) - ops.log(z),
    cdf=lambda z, s: special.ndtr(ops.log(z) / s),
    sf=lambda z, s: special.ndtr(-ops.log(z) / s),
    logcdf=lambda z, s: special.log_ndtr(ops.log(z) / s),
    logsf=lambda z, s: special.log_ndtr(-ops.log(z) / s),
    ppf=lambda q, s: ops.exp(s * special.ndtri(q)),
    isf=lambda q, s: ops.exp(-s * special.ndtri(q)),
    example="cdf(1.0, 0.5) -> Array(0.5, dtype=float64, device='cpu')",
)


FEW_NODES, FEW_WEIGHTS = np.polynomial.legendre.leggauss(10)


def _log_narrow_mass(a: LawParameter, b: LawParameter) -> Array:
    """Returns `_log_normal_mass` of ends that are close to each other, by quadrature."""
    width, middle = b - a, 0.5 * (a + b)
    number = width.dtype.type
    s = ops.expand_dims(width, -1) * beside(width, (0.5 * FEW_NODES).astype(number))
    # The density at middle + s over that in the middle.
    relative = ops.exp(-s * (ops.expand_dims(middle, -1) + 0.5 * s))
    mean = ops.sum(relative * beside(width, (0.5 * FEW_WEIGHTS).astype(number)), axis=-1)
    return ops.log(width) + ops.log(mean) - 0.5 * middle * middle - LOG_ROOT_2PI


def _log_normal_mass(a: LawParameter, b: LawParameter) -> Array:
    """Returns the logarithm of the normal distribution's probability between a and b."""
    empty = ops.less_equal(b, a)
    narrow = ops.less((b - a) * (ops.abs(a) + ops.abs(b) + 1), 1)
    some = ops.logical_and(narrow, ops.logical_not(empty))
    near = _log_narrow_mass(ops.where(some, a, 0.0), ops.where(some, b, 1.0))
    wide = _log_wide_mass(ops.where(narrow, -1.0, a), ops.where(narrow, 1.0, b))
    return ops.where(empty, -inf, ops.where(narrow, near, wide))


def _log_wide_mass(a: LawParameter, b: LawParameter) -> Array:
    """Returns `_log_normal_mass` by the difference of two probabilities."""
    # The distribution function is precise in the lower tail. An interval above zero is replaced by
    # its mirror image.
    mirrored = ops.greater(a + b, 0)
    low, high = ops.where(mirrored, -b, a), ops.where(mirrored, -a, b)
    top = special.log_ndtr(high)
    return top + log1mexp(top - special.log_ndtr(low))


def _truncated_quantile(q: Array, a: LawParameter, b: LawParameter) -> Array:
    mirrored = ops.greater(a + b, 0)
    low, high = ops.where(mirrored, -b, a), ops.where(mirrored, -a, b)
    share = ops.where(mirrored, 1 - q, q)
    z = special.ndtri_exp(
        ops.logaddexp(special.log_ndtr(low), ops.log(share) + _log_normal_mass(low, high))
    )
    z = ops.clip(z, low, high)
    return ops.where(mirrored, -z, z)


def _truncated_logsf(z: Array, a: LawParameter, b: LawParameter) -> Array:
    whole = _log_normal_mass(a, b)
    below = _log_normal_mass(a, z) - whole
    small = ops.less(below, -LOG_2)
    # The probability is nearly 1 where little lies below.
    near = log1mexp(-ops.where(small, below, -1.0))
    return ops.where(small, near, _log_normal_mass(ops.where(small, _half(a, b), z), b) - whole)


def _truncated_logcdf(z: Array, a: LawParameter, b: LawParameter) -> Array:
    whole = _log_normal_mass(a, b)
    above = _log_normal_mass(z, b) - whole
    small = ops.less(above, -LOG_2)
    near = log1mexp(-ops.where(small, above, -1.0))
    return ops.where(small, near, _log_normal_mass(a, ops.where(small, _half(a, b), z)) - whole)


def _half(a: LawParameter, b: LawParameter) -> Array:
    """Returns a value well inside of an interval, whose ends may be infinite."""
    low, high = ops.maximum(a, ops.minimum(b, 0) - 1), ops.minimum(b, ops.maximum(a, 0) + 1)
    return 0.5 * (low + high)


truncnorm = Continuous(
    "truncnorm",
    "truncated normal",
    {"a": "real", "b": "real"},
    support=(lambda a, b: a, lambda a, b: b),
    inner=_half,
    valid=lambda a, b: ops.less(a, b),
    logpdf=lambda z, a, b: _normal_logpdf(z) - _log_normal_mass(a, b),
    logcdf=_truncated_logcdf,
    logsf=_truncated_logsf,
    ppf=_truncated_quantile,
    isf=lambda q, a, b: -_truncated_quantile(q, -b, -a),
    example="pdf(0.0, -1.0, 1.0) -> Array(0.58436857, dtype=float64, device='cpu')",
)

# -- elementary ones

uniform = Continuous(
    "uniform",
    "uniform",
    support=(0.0, 1.0),
    inner=0.5,
    logpdf=lambda z: 0 * z,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
    example="cdf(1.0, loc=0.0, scale=4.0) -> Array(0.25, dtype=float64, device='cpu')",
)
expon = Continuous(
    "expon",
    "exponential",
    **POSITIVE_AXIS,
    logpdf=lambda z: -z,
    cdf=lambda z: -ops.expm1(-z),
    logcdf=log1mexp,
    sf=lambda z: ops.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -ops.log1p(-q),
    isf=lambda q: -ops.log(q),
    example="logsf(2.0) -> Array(-2., dtype=float64, device='cpu')",
)


def _half_tail(z: Array) -> tuple[Array, Array]:
    """Returns where z is negative, and half of exp(-abs(z)), which has no kink on either side."""
    below = ops.less(z, 0)
    return below, 0.5 * ops.exp(ops.where(below, z, -z))


def _laplace_cdf(z: Array) -> Array:
    below, tail = _half_tail(z)
    return ops.where(below, tail, 1 - tail)


def _laplace_logcdf(z: Array) -> Array:
    below, tail = _half_tail(z)
    return ops.where(below, z - LOG_2, ops.log1p(-tail))


def _laplace_ppf(q: Array) -> Array:
    low = ops.less(q, 0.5)
    tail = ops.log(2 * ops.where(low, q, 1 - q))
    return ops.where(low, tail, -tail)


laplace = Continuous(
    "laplace",
    "Laplace",
    logpdf=lambda z: -ops.abs(z) - LOG_2,
    cdf=_laplace_cdf,
    sf=lambda z: _laplace_cdf(-z),
    logcdf=_laplace_logcdf,
    logsf=lambda z: _laplace_logcdf(-z),
    ppf=_laplace_ppf,
    isf=lambda q: -_laplace_ppf(q),
    example="pdf(0.0) -> Array(0.5, dtype=float64, device='cpu')",
)
logistic = Continuous(
    "logistic",
    "logistic",
    logpdf=lambda z: -ops.logaddexp(0.0, z) - ops.logaddexp(0.0, -z),
    cdf=lambda z: ops.logistic(z),
    sf=lambda z: ops.logistic(-z),
    logcdf=lambda z: -ops.logaddexp(0.0, -z),
    logsf=lambda z: -ops.logaddexp(0.0, z),
    ppf=lambda q: special.logit(q),
    isf=lambda q: -special.logit(q),
    example="pdf(0.0) -> Array(0.25, dtype=float64, device='cpu')",
)
def _cotangent(q: Array) -> Array:
    """Returns the cotangent of pi q, for q from 0 to 1, precise near 0, near 1 / 2 and near 1."""
    middle = ops.less(ops.abs(q - 0.5), 0.25)
    upper = ops.greater(q, 0.5)
    outer = 1 / ops.tan(pi * ops.where(middle, 0.25, ops.where(upper, 1 - q, q)))
    outer = ops.where(upper, -outer, outer)
    return ops.where(middle, ops.tan(pi * (0.5 - ops.where(middle, q, 0.5))), outer)


cauchy = Continuous(
    "cauchy",
    "Cauchy",
    logpdf=lambda z: -log(pi) - ops.log1p(z * z),
    cdf=lambda z: ops.arctan2(1.0, -z) / pi,
    sf=lambda z: ops.arctan2(1.0, z) / pi,
    ppf=lambda q: -_cotangent(q),
    isf=lambda q: _cotangent(q),
    example="cdf(0.0) -> Array(0.5, dtype=float64, device='cpu')",
)
# exp(-exp(-z)) is 0 from the first bound down, while exp(-z) is far from overflow. From the other
# bound up, log(1 - exp(-exp(-z))) is -z to the last digit.
NOTHING_BELOW, EVERYTHING_ABOVE = -10.0, 40.0


def _finite(z: Array) -> Array:
    return ops.maximum(z, NOTHING_BELOW)


def _gumbel_pdf(z: Array) -> Array:
    z = _finite(z)
    return ops.exp(-z - ops.exp(-z))


def _gumbel_logsf(z: Array) -> Array:
    far = ops.greater(z, EVERYTHING_ABOVE)
    return ops.where(far, -z, log1mexp(ops.exp(-_finite(ops.where(far, 0.0, z)))))


gumbel_r = Continuous(
    "gumbel_r",
    "Gumbel (of largest values)",
    logpdf=lambda z: -z - ops.exp(-z),
    pdf=_gumbel_pdf,
    cdf=lambda z: ops.exp(-ops.exp(-_finite(z))),
    sf=lambda z: -ops.expm1(-ops.exp(-_finite(z))),
    logcdf=lambda z: -ops.exp(-z),
    logsf=_gumbel_logsf,
    ppf=lambda q: -ops.log(-ops.log(q)),
    isf=lambda q: -ops.log(-ops.log1p(-q)),
    example="logpdf(0.0) -> Array(-1., dtype=float64, device='cpu')",
)
gumbel = gumbel_r
gumbel_l = Continuous(
    "gumbel_l",
    "Gumbel (of smallest values)",
    logpdf=lambda z: z - ops.exp(z),
    pdf=lambda z: _gumbel_pdf(-z),
    cdf=lambda z: -ops.expm1(-ops.exp(-_finite(-z))),
    sf=lambda z: ops.exp(-ops.exp(-_finite(-z))),
    logcdf=lambda z: _gumbel_logsf(-z),
    logsf=lambda z: -ops.exp(z),
    ppf=lambda q: ops.log(-ops.log1p(-q)),
    isf=lambda q: ops.log(-ops.log(q)),
    example="logpdf(0.0) -> Array(-1., dtype=float64, device='cpu')",
)
pareto = Continuous(
    "pareto",
    "Pareto",
    {"b": "positive"},
    support=(1.0, inf),
    inner=2.0,
    logpdf=lambda z, b: ops.log(b) - (b + 1) * ops.log(z),
    cdf=lambda z, b: -ops.expm1(-b * ops.log(z)),
    sf=lambda z, b: ops.exp(-b * ops.log(z)),
    logsf=lambda z, b: -b * ops.log(z),
    ppf=lambda q, b: ops.exp(-ops.log1p(-q) / b),
    isf=lambda q, b: ops.exp(-ops.log(q) / b),
    example="sf(2.0, 3.0) -> Array(0.125, dtype=float64, device='cpu')",
)
rayleigh = Continuous(
    "rayleigh",
    "Rayleigh",
    **POSITIVE_AXIS,
    open_support=True,
    logpdf=lambda z: ops.log(z) - 0.5 * z * z,
    cdf=lambda z: -ops.expm1(-0.5 * z * z),
    sf=lambda z: ops.exp(-0.5 * z * z),
    logsf=lambda z: -0.5 * z * z,
    ppf=lambda q: ops.sqrt(-2 * ops.log1p(-q)),
    isf=lambda q: ops.sqrt(-2 * ops.log(q)),
    example="logsf(2.0) -> Array(-2., dtype=float64, device='cpu')",
)


def _power_of_positive(z: Array, c: LawParameter) -> Array:
    """Returns ``z**c`` for z from 0 up and positive c, without a derivative at 0."""
    zero = ops.equal(z, 0)
    return ops.where(zero, 0.0, ops.exp(c * ops.log(ops.where(zero, 1.0, z))))


weibull_min = Continuous(
    "weibull_min",
    "Weibull",
    {"c": "positive"},
    **POSITIVE_AXIS,
    vanishes=lambda z, c: ops.logical_and(ops.equal(z, 0), ops.greater(c, 1)),
    logpdf=lambda z, c: ops.log(c) + special.xlogy(c - 1, z) - _power_of_positive(z, c),
    cdf=lambda z, c: -ops.expm1(-_power_of_positive(z, c)),
    sf=lambda z, c: ops.exp(-_power_of_positive(z, c)),
    logsf=lambda z, c: -_power_of_positive(z, c),
    ppf=lambda q, c: _power_of_positive(-ops.log1p(-q), 1 / c),
    isf=lambda q, c: _power_of_positive(-ops.log(q), 1 / c),
    example="logsf(2.0, 3.0) -> Array(-8., dtype=float64, device='cpu')",
)

# -- on the circle

VON_MISES_NODES, VON_MISES_WEIGHTS = np.polynomial.legendre.leggauss(48)
# The density is taken for 0 beyond the place where it has fallen by this exponent.
VANISHED = 40.0


def _circular_tail(x: Array, kappa: LawParameter) -> Array:
    """Integrates the density from -pi to x, which is not positive, by Gauss and Legendre."""
    start = ops.cos(x) - VANISHED / ops.maximum(kappa, 0.5 * VANISHED)
    start = -ops.stop_gradient(ops.arccos(ops.clip(start, -1.0, 1.0)))
    width = x - start
    number = width.dtype.type
    places = beside(width, (0.5 * (VON_MISES_NODES + 1)).astype(number))
    weights = beside(width, (0.5 * VON_MISES_WEIGHTS).astype(number))
    angles = ops.expand_dims(start, -1) + ops.expand_dims(width, -1) * places
    density = ops.exp(-2 * ops.expand_dims(kappa, -1) * ops.sin(0.5 * angles) ** 2)
    mass = width * ops.sum(density * weights, axis=-1)
    return ops.divide(mass, 2 * pi * special.i0e(kappa))


def _circular_cdf(x: Array, kappa: LawParameter) -> Array:
    turns = ops.stop_gradient(ops.round(x / (2 * pi)))
    angle = x - 2 * pi * turns
    lower = ops.less(angle, 0)
    tail = _circular_tail(ops.where(lower, angle, -angle), kappa)
    return ops.where(lower, tail, 1 - tail) + turns


vonmises = Continuous(
    "vonmises",
    "von Mises",
    {"kappa": "nonnegative"},
    logpdf=lambda x, kappa: (
        -2 * kappa * ops.sin(0.5 * x) ** 2 - log(2 * pi) - ops.log(special.i0e(kappa))
    ),
    cdf=_circular_cdf,
    sf=lambda x, kappa: _circular_cdf(-x, kappa),
    source="SciPy's: the density has period 2 pi, and the distribution function adds up turns",
    example="cdf(0.0, 2.0) -> Array(0.5, dtype=float64, device='cpu')",
)
