"""Kullback-Leibler divergences, by the classes of both distributions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ...numpy import linalg
from ...primitives.core.registry import registry as ops
from ...scipy import special
from .categories import Categorical, OneHotCategorical
from .composed import Independent, TransformedDistribution
from .counts import Bernoulli, Binomial, Geometric, Poisson
from .distribution import Distribution, sum_last
from .gammas import Beta, Dirichlet, Gamma
from .low_rank import LowRankMultivariateNormal
from .multivariate import MultivariateNormal
from .real_line import Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Any]
DIVERGENCES: dict[tuple[type, type], Divergence] = {}
EULERS = 0.5772156649015329


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Returns a decorator that enters a function of p and q for two classes and their subclasses.

    Args:
        type_p, type_q: subclasses of `Distribution`.

    Raises:
        TypeError: they are not.
    """
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl: {kind!r} is no subclass of Distribution")

    def enter(fun: Divergence) -> Divergence:
        DIVERGENCES[type_p, type_q] = fun
        return fun

    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Returns the Kullback-Leibler divergence, the mean under p of log(p / q).

    Args:
        p, q: distributions.

    Returns:
        A tensor of the shape of the batch, in nats.

    Raises:
        NotImplementedError: no function is registered for the two classes.

    >>> from functensor.torch.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
    0.5
    """
    # The nearest bases of p come first.
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            if (first, second) in DIVERGENCES:
                return DIVERGENCES[first, second](p, q)
    raise NotImplementedError(
        f"kl_divergence: none is registered for {type(p).__name__} and {type(q).__name__}; "
        f"write one and decorate it with register_kl({type(p).__name__}, {type(q).__name__})"
    )


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ops.log(ratio))


DIVERGENCES[LogNormal, LogNormal] = _normals


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ops.log(ratio))


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Any:
    ratio, away = p.scale / q.scale, ops.abs(p.loc - q.loc)
    return ratio * ops.exp(-away / p.scale) + away / q.scale - ops.log(ratio) - 1


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Gumbel, q: Gumbel) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    middle = ratio * EULERS + away
    return middle - ops.log(ratio) + ops.exp(special.gammaln(1 + ratio) - away) - (1 + EULERS)


@register_kl(Exponential, Exponential)
def _exponential_laws(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ops.log(ratio)


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * ops.log(p.rate / q.rate) + special.gammaln(b) - special.gammaln(a)
        + (a - b) * special.digamma(a) + (q.rate - p.rate) * (a / p.rate)
    )  # fmt: skip


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Any:
    a, b = p.concentration1, p.concentration0
    c, d = q.concentration1, q.concentration0
    means = (a - c) * special.digamma(a) + (b - d) * special.digamma(b)
    whole = (c + d - a - b) * special.digamma(a + b)
    return special.betaln(c, d) - special.betaln(a, b) + means + whole


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    total = special.digamma(ops.sum(a, axis=-1, keepdims=True))
    means = ops.sum((a - b) * (special.digamma(a) - total), axis=-1)
    return q._log_norm() - p._log_norm() + means


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Any:
    found = q._cross_entropy(p.probs) - p._cross_entropy(p.probs)
    # The logits of certain outcomes are finite.
    excluded = (q.probs == 0) & (p.probs != 0) | (q.probs == 1) & (p.probs != 1)
    return ops.where(excluded, inf, found)


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Any:
    """Returns the divergence for equal numbers of trials, infinity where p has more."""
    found = p.total_count * _bernoullis(p, q)
    return ops.where(p.total_count > q.total_count, inf, found)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Any:
    return special.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categoricals(p: Categorical, q: Categorical) -> Any:
    each = p.probs * (p.logits - q.logits)
    each = ops.where(q.probs == 0, inf, each)
    return ops.sum(ops.where(p.probs == 0, 0.0, each), axis=-1)


DIVERGENCES[OneHotCategorical, OneHotCategorical] = _categoricals


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Any:
    found = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((q.low > p.low) | (q.high < p.high), inf, found)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Any:
    return -p.entropy() - _mean_log_normal(p, q)


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Any:
    return -p.entropy() - _mean_log_normal(p, q)


@register_kl(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Any:
    return -p.entropy() - _mean_log_normal(p, q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Any:
    return -p.entropy() - ops.log(q.rate) + q.rate * p.mean


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Any:
    return _gammas(Gamma(ops.ones_like(p.rate), p.rate, validate_args=False), q)


def _mean_log_normal(p: Any, q: Normal) -> Any:
    """Returns the mean under p of the logarithm of a normal density."""
    away = (p.variance + (p.mean - q.loc) ** 2) / q.scale**2
    return -q.entropy() + 0.5 - 0.5 * away


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    size = p.event_shape[0]
    ratio = ops.sum(linalg.solve(q._factor, p._factor) ** 2, axis=(-2, -1))
    away = ops.sum(linalg.solve(q._factor, (p.loc - q.loc)[..., None])[..., 0] ** 2, axis=-1)
    return q._log_root_det() - p._log_root_det() + 0.5 * (ratio + away - size)


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: both Independent take as many axes")
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: both are transformed in the same way")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank_normals(p: Any, q: Any) -> Any:
    first, second = [
        MultivariateNormal(x.loc, scale_tril=x.scale_tril, validate_args=False) for x in (p, q)
    ]
    return _multivariate_normals(first, second)
