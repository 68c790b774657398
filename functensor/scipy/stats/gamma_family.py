"""Continuous distributions whose functions are incomplete gamma and beta functions."""

from __future__ import annotations

from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from .. import special
from ..student_t import t_cdf, t_logpdf, t_ppf
from .distribution import LOG_2, POSITIVE_AXIS, Continuous, LawParameter

__all__ = ["beta", "chi2", "gamma", "invgamma", "t"]


def _gamma_logpdf(z: Array, a: LawParameter) -> Array:
    return special.xlogy(a - 1, z) - z - special.gammaln(a)


gamma = Continuous(
    "gamma",
    "gamma",
    {"a": "positive"},
    **POSITIVE_AXIS,
    vanishes=lambda z, a: ops.logical_and(ops.equal(z, 0), ops.greater(a, 1)),
    logpdf=_gamma_logpdf,
    cdf=lambda z, a: special.gammainc(a, z),
    sf=lambda z, a: special.gammaincc(a, z),
    ppf=lambda q, a: special.gammaincinv(a, q),
    isf=lambda q, a: special.gammainccinv(a, q),
    example="logpdf(2.0, 1.0) -> Array(-2., dtype=float64, device='cpu')",
)
chi2 = Continuous(
    "chi2",
    "chi-squared",
    {"df": "positive"},
    **POSITIVE_AXIS,
    vanishes=lambda z, df: ops.logical_and(ops.equal(z, 0), ops.greater(df, 2)),
    logpdf=lambda z, df: _gamma_logpdf(0.5 * z, 0.5 * df) - LOG_2,
    cdf=lambda z, df: special.gammainc(0.5 * df, 0.5 * z),
    sf=lambda z, df: special.gammaincc(0.5 * df, 0.5 * z),
    ppf=lambda q, df: 2 * special.gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2 * special.gammainccinv(0.5 * df, q),
    example="pdf(0.0, 2.0) -> Array(0.5, dtype=float64, device='cpu')",
)
invgamma = Continuous(
    "invgamma",
    "inverse gamma",
    {"a": "positive"},
    **POSITIVE_AXIS,
    open_support=True,
    logpdf=lambda z, a: -(a + 1) * ops.log(z) - special.gammaln(a) - 1 / z,
    cdf=lambda z, a: special.gammaincc(a, 1 / z),
    sf=lambda z, a: special.gammainc(a, 1 / z),
    ppf=lambda q, a: 1 / special.gammainccinv(a, q),
    isf=lambda q, a: 1 / special.gammaincinv(a, q),
    example="logpdf(1.0, 1.0) -> Array(-1., dtype=float64, device='cpu')",
)
beta = Continuous(
    "beta",
    "beta",
    {"a": "positive", "b": "positive"},
    support=(0.0, 1.0),
    inner=0.5,
    vanishes=lambda z, a, b: ops.logical_or(
        ops.logical_and(ops.equal(z, 0), ops.greater(a, 1)),
        ops.logical_and(ops.equal(z, 1), ops.greater(b, 1)),
    ),
    logpdf=lambda z, a, b: (
        special.xlog1py(b - 1, -z) + special.xlogy(a - 1, z) - special.betaln(a, b)
    ),
    cdf=lambda z, a, b: special.betainc(a, b, z),
    sf=lambda z, a, b: special.betaincc(a, b, z),
    ppf=lambda q, a, b: special.betaincinv(a, b, q),
    isf=lambda q, a, b: special.betainccinv(a, b, q),
    example="pdf(0.5, 2.0, 2.0) -> Array(1.5, dtype=float64, device='cpu')",
)
t = Continuous(
    "t",
    "Student's t",
    {"df": "endless"},
    logpdf=t_logpdf,
    cdf=t_cdf,
    sf=lambda x, df: t_cdf(-x, df),
    ppf=lambda q, df: t_ppf(q, df),
    isf=lambda q, df: -t_ppf(q, df),
    example="pdf(0.0, 1.0) -> Array(0.31830989, dtype=float64, device='cpu')",
)
