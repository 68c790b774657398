"""Distributions of vectors."""

from __future__ import annotations

from math import inf, log, nan, pi

import numpy as np

from ...backends.restoring import quiet
from ...numpy import linalg
from ...numpy.creation import asarray
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import finfo
from .. import special
from ..linalg import solve_triangular
from .distribution import Family, floating

__all__ = ["dirichlet", "multinomial", "multivariate_normal"]


def _vectors(*operands: ArrayLike) -> list[Array]:
    """Returns operands as arrays of floats."""
    return [asarray(x) for x in floating(*operands)]


class MultivariateNormal(Family):
    """The normal distribution of vectors: logpdf, pdf, entropy.

    Parameters of every function:
        mean: the means, of shape ``(..., n)``; None for zeros.
        cov: the covariance: of shape ``(..., n, n)``, or ``(n,)`` for its diagonal, or a number.
        allow_singular: whether cov may be singular: the density is then that in the space that
            cov spans.

    Derivatives flow to the argument and to every parameter.

    >>> from functensor.scipy import stats
    >>> stats.multivariate_normal.logpdf([0.0, 0.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    Array(-1.83787707, dtype=float64, device='cpu')
    """

    def logpdf(
        self,
        x: ArrayLike,
        mean: ArrayLike | None = None,
        cov: ArrayLike = 1,
        allow_singular: bool = False,
    ) -> Array:
        """Returns the logarithm of the density of the normal distribution of vectors.

        Args:
            x: vectors along the last axis; numbers, where they have one component.
            mean: the means, of shape ``(..., n)``; None for zeros.
            cov: the covariance: of shape ``(..., n, n)``, symmetric and positive; or ``(n,)`` for
                its diagonal, or a number.
            allow_singular: whether cov may be singular. The density is then that in the space
                that cov spans, and its logarithm is -inf outside of it.

        Returns:
            An array of the shape to which the axes before the last broadcast.

        Raises:
            ShapeError: the shapes do not go together.
            numpy.linalg.LinAlgError: cov is not positive, and allow_singular is False.
        """
        if mean is None:
            x, cov = _vectors(x, cov)
            mean = np.zeros((), x.dtype)
        else:
            x, mean, cov = _vectors(x, mean, cov)
        # Without other hints x holds numbers, as in SciPy.
        n = next((shape[-1] for shape in (mean.shape, cov.shape) if shape), 1)
        if n == 1 and x.shape[-1:] != (1,):
            x = ops.expand_dims(x, -1)
        fitting = mean.shape[-1:] in ((), (n,)) and cov.shape[-1:] in ((), (n,))
        if x.shape[-1:] != (n,) or not fitting or cov.shape[-2:-1] not in ((), (n,)):
            fix = "x and mean of shape (..., n) go with cov of shape (..., n, n)"
            what = f"x of shape {x.shape}, mean of shape {mean.shape}, cov of shape {cov.shape}"
            raise misfit(f"multivariate_normal: {what}", fix)
        away = ops.subtract(x, mean)
        with quiet():
            if len(cov.shape) < 2:
                variances = ops.broadcast_to(cov, (n,))
                terms = away * away / variances + ops.log(variances) + log(2 * pi)
                value = ops.sum(terms, axis=-1)
            elif allow_singular:
                value = _singular(away, cov)
            else:
                value = _regular(away, cov)
            return -0.5 * value

    def pdf(
        self,
        x: ArrayLike,
        mean: ArrayLike | None = None,
        cov: ArrayLike = 1,
        allow_singular: bool = False,
    ) -> Array:
        """Returns the density of the normal distribution of vectors.

        Args:
            x, mean, cov, allow_singular: as for ``logpdf``.

        Returns:
            An array of the shape to which the axes before the last broadcast.
        """
        return ops.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: ArrayLike | None = None, cov: ArrayLike = 1) -> Array:
        """Returns the differential entropy of the normal distribution of vectors.

        Args:
            mean: the means, of shape ``(..., n)``, which give the dimension where cov does not.
            cov: the covariance, as for ``logpdf``; not singular.

        Returns:
            An array of shape ``(...)``, that of covariances.
        """
        mean, cov = _vectors(0.0 if mean is None else mean, cov)
        if len(cov.shape) < 2:
            n = next((shape[-1] for shape in (mean.shape, cov.shape) if shape), 1)
            logdet = ops.sum(ops.log(ops.broadcast_to(cov, (n,))))
        else:
            n = cov.shape[-1]
            roots = ops.log(ops.diagonal(linalg.cholesky(cov), axis1=-2, axis2=-1))
            logdet = 2 * ops.sum(roots, axis=-1)
        return 0.5 * logdet + 0.5 * n * (log(2 * pi) + 1)


def _regular(away: Array, cov: Array) -> Array:
    """Returns -2 logpdf by the factor of Cholesky."""
    factor = linalg.cholesky(cov)
    if len(cov.shape) == 2:
        # All vectors are right-hand sides of one factor.
        rows = ops.reshape(away, (-1, cov.shape[-1]))
        white = solve_triangular(factor, ops.transpose(rows), lower=True)
        square = ops.reshape(ops.sum(white * white, axis=0), away.shape[:-1])
    else:
        white = solve_triangular(factor, ops.expand_dims(away, -1), lower=True)
        square = ops.sum(white * white, axis=(-2, -1))
    roots = ops.log(ops.diagonal(factor, axis1=-2, axis2=-1))
    return square + 2 * ops.sum(roots, axis=-1) + cov.shape[-1] * log(2 * pi)


def _singular(away: Array, cov: Array) -> Array:
    """Returns -2 logpdf in the space that cov spans, and inf outside of it."""
    values, vectors = linalg.eigh(cov)
    # SciPy takes values up to this bound for zeros that were rounded.
    digits = 1e6 if values.dtype.itemsize > 4 else 1e3
    smallest = digits * float(finfo(values.dtype).eps)
    scale = ops.max(ops.abs(values), axis=-1, keepdims=True)
    known = ops.greater(values, ops.stop_gradient(scale) * smallest)
    safe = ops.where(known, values, 1.0)
    parts = ops.squeeze(ops.matmul(ops.expand_dims(away, -2), vectors), axis=-2)
    square = ops.where(known, parts * parts / safe, 0.0)
    beside = ops.where(known, 0.0, ops.stop_gradient(parts))
    allowed = smallest * ops.maximum(1.0, ops.max(ops.abs(ops.stop_gradient(parts)), axis=-1))
    bound = ops.sqrt(allowed * ops.squeeze(ops.stop_gradient(scale), axis=-1))
    inside = ops.less_equal(ops.max(ops.abs(beside), axis=-1), bound)
    rank = ops.sum(ops.astype(known, values.dtype), axis=-1)
    total = ops.sum(square + ops.log(safe), axis=-1) + rank * log(2 * pi)
    return ops.where(inside, total, inf)


class Dirichlet(Family):
    """The Dirichlet distribution of positive numbers whose sum is 1: logpdf, pdf.

    Parameters of every function:
        alpha: positive, of shape ``(k,)``.

    Derivatives flow to the argument and to every parameter.

    >>> from functensor.scipy import stats
    >>> stats.dirichlet.pdf([0.2, 0.3, 0.5], [1.0, 1.0, 1.0])
    Array(2., dtype=float64, device='cpu')
    """

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Returns the logarithm of the density of the Dirichlet distribution.

        Args:
            x: components along the first axis, as SciPy has them, of shape ``(k, ...)``; or
                ``(k - 1, ...)``, the last one being 1 minus the sum of the others.
            alpha: the parameters, of shape ``(k,)``, positive.

        Returns:
            An array of x's shape without the first axis: -inf, without a derivative, where
            components are negative or their sum is not 1; NaN where a parameter is not positive.

        Raises:
            ShapeError: the shapes do not go together.
        """
        x, alpha = _vectors(x, alpha)
        k = alpha.shape[0] if len(alpha.shape) == 1 else -1
        if k < 0 or not x.shape or x.shape[0] not in (k, k - 1):
            fix = "x of shape (k, ...) or (k - 1, ...) goes with alpha of shape (k,)"
            what = f"dirichlet: x of shape {x.shape}, alpha of shape {alpha.shape}"
            raise misfit(what, fix)
        if x.shape[0] == k - 1:
            x = ops.concatenate((x, 1 - ops.sum(x, axis=0, keepdims=True)))
        with quiet():
            # Each of k components is rounded.
            allowed = max(1e-9, 16 * k * float(finfo(x.dtype).eps))
            whole = ops.less_equal(ops.abs(ops.sum(x, axis=0) - 1), allowed)
            some = ops.logical_and(ops.greater_equal(x, 0), ops.less_equal(x, 1))
            inside = ops.logical_and(whole, ops.all(some, axis=0))
            x = ops.where(inside, x, 1 / k)
            valid = ops.all(ops.greater(alpha, 0))
            alpha = ops.where(ops.greater(alpha, 0), alpha, 1.0)
            column = ops.reshape(alpha, (k,) + (1,) * (len(x.shape) - 1))
            height = special.gammaln(ops.sum(alpha)) - ops.sum(special.gammaln(alpha))
            value = height + ops.sum(special.xlogy(column - 1, x), axis=0)
            return ops.where(valid, ops.where(inside, value, -inf), nan)

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Returns the density of the Dirichlet distribution.

        Args:
            x, alpha: as for ``logpdf``.

        Returns:
            An array of x's shape without the first axis.
        """
        return ops.exp(self.logpdf(x, alpha))


class Multinomial(Family):
    """The multinomial distribution of the counts of categories in n draws: logpmf, pmf.

    Parameters of every function:
        n: how many draws, a whole number.
        p: the probability of each category, along the last axis; their sum is 1.

    Derivatives flow to p.

    >>> from functensor.scipy import stats
    >>> stats.multinomial.pmf([1, 1], 2, [0.5, 0.5])
    Array(0.5, dtype=float64, device='cpu')
    """

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        """Returns the logarithm of the probability of counts.

        Args:
            x: the counts, categories along the last axis.
            n: how many draws; its shape broadcasts with those of x and p without the last axis.
            p: the probability of each category, along the last axis. All of them count, also the
                last one, which SciPy replaces by 1 minus the sum of the others.

        Returns:
            An array of the shape to which the axes before the last broadcast: -inf where x has
            no counts or their sum is not n; NaN where n or p is out of its range.

        Raises:
            ShapeError: x and p have not as many categories.
        """
        x, n, p = _vectors(x, n, p)
        if not x.shape or not p.shape or x.shape[-1] != p.shape[-1]:
            fix = "x and p of shape (..., k) go with n of shape (...)"
            raise misfit(f"multinomial: x of shape {x.shape}, p of shape {p.shape}", fix)
        x, n = ops.stop_gradient(x), ops.stop_gradient(n)
        with quiet():
            counts = ops.logical_and(ops.greater_equal(x, 0), ops.equal(x, ops.floor(x)))
            inside = ops.logical_and(ops.all(counts, axis=-1), ops.equal(ops.sum(x, axis=-1), n))
            right = ops.logical_and(ops.greater_equal(p, 0), ops.less_equal(p, 1))
            draws = ops.logical_and(ops.greater_equal(n, 0), ops.equal(n, ops.floor(n)))
            valid = ops.logical_and(ops.all(right, axis=-1), draws)
            x = ops.where(counts, x, 0.0)
            p = ops.where(right, p, 1.0)
            terms = special.xlogy(x, p) - special.gammaln(x + 1)
            # A category that is counted zero times may have the probability zero.
            value = special.gammaln(ops.where(draws, n, 1.0) + 1) + ops.sum(terms, axis=-1)
            return ops.where(valid, ops.where(inside, value, -inf), nan)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        """Returns the probability of counts.

        Args:
            x, n, p: as for ``logpmf``.

        Returns:
            An array of the shape to which the axes before the last broadcast.
        """
        return ops.exp(self.logpmf(x, n, p))


multivariate_normal = MultivariateNormal("multivariate_normal")
dirichlet = Dirichlet("dirichlet")
multinomial = Multinomial("multinomial")
