"""The gamma distribution and its kin, with derivatives by their parameters.

A gamma number is accepted or rejected, so that the steps that draw it do not tell its derivative.
The derivative follows from the distribution function P(a, x), implicitly: a number that keeps its
probability moves by ``dx/da = -(dP/da) / (dP/dx)`` (Figurnov, Mohamed and Mnih, "Implicit
reparameterization gradients", 2018). Everything is computed for the logarithm, in double precision,
so that small parameters do not underflow.
"""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DType, DTypeLike, Shape, ShapeLike
from ..custom.rules import custom_jvp
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.random.rejection import gamma_moment, random_loggamma
from .continuous import normal
from .keys import RandomKey, beside_draws, checked_key, real_dtype, real_parameters, split

__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "loggamma", "student_t", "t"]

# -- derivatives


def _digamma_of_next(a: Array) -> Array:
    """Returns the logarithmic derivative of the gamma function at a + 1, for positive a.

    The first terms of its asymptotic series at a + 9 (NIST Digital Library of Mathematical
    Functions, 5.11.2), and the recurrence.
    """
    z = ops.add(a, 9.0)
    r = ops.reciprocal(ops.square(z))
    series: Array | float = 0.0
    # B(2n) / 2n from n = 7 down.
    for term in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = ops.multiply(ops.add(series, term), r)
    steps = ops.divide(1.0, ops.add(ops.expand_dims(a, -1), beside(a, np.arange(1.0, 9.0))))
    return ops.subtract(
        ops.subtract(ops.log(z), ops.add(ops.divide(0.5, z), series)), ops.sum(steps, axis=-1)
    )


def loggamma_grad(a: Array, y: Array) -> Array:
    """Returns by how much the logarithm y of a gamma number moves as a does, at its probability.

    With x = exp(y) and h = x**a exp(-x) / gamma(a), the density of y, it is -(dP/da) / h. P / h and
    (1 - P) / h are integrals over s = log(x / t) and log(t / x) of which the derivative by a is the
    first moment; for x below 1.5 a series has both. Each form is used where it does not cancel.
    """
    point = ops.exp(y)
    small = ops.less_equal(point, 1.5)
    upper = ops.logical_and(ops.greater(point, a), ops.logical_not(small))
    whole, first = (gamma_moment.bind((a, y), {"n": n}) for n in (0, 1))
    digamma = _digamma_of_next(a)
    inverse = ops.reciprocal(a)
    away = ops.subtract(digamma, y)
    # The largest terms of the series, 1 / a and 1 / a**2, cancel against digamma(a) by hand.
    scale = ops.exp(ops.where(small, point, 0.0))
    series = ops.add(
        ops.multiply(ops.add(inverse, whole), away),
        ops.subtract(first, ops.multiply(whole, inverse)),
    )
    slope = ops.multiply(whole, ops.subtract(away, inverse))
    integrals = ops.add(first, ops.where(upper, ops.negative(slope), slope))
    return ops.where(small, ops.multiply(scale, series), integrals)


@custom_jvp
def _moving(drawn: Array, a: Array) -> Array:
    """Returns logarithms of gamma numbers that were drawn, as functions of their parameter."""
    return drawn


@_moving.defjvp
def _moving_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    _, a = primals
    y = _moving(*primals)
    return y, ops.multiply(loggamma_grad(a, y), tangents[1])


# -- distributions


def _in_doubles(
    name: str, shape: ShapeLike | None, dtype: DTypeLike, *parameters: ArrayLike
) -> tuple[DType, Shape, list[Array]]:
    """Returns the result's dtype and shape, and the parameters in double precision."""
    return real_dtype(dtype, name), *real_parameters(name, shape, np.float64, *parameters)


def _loggamma_of_arrays(key: RandomKey, a: Array, shape: Shape) -> Array:
    """Returns logarithms in double precision, for a of that dtype."""
    a = ops.broadcast_to(a, shape)
    drawn: Array = _moving(random_loggamma.bind((checked_key(key), a), {}), a)
    return drawn


def loggamma(
    key: RandomKey, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns logarithms of numbers of the gamma distribution.

    Where a is small the numbers themselves underflow.

    Args:
        key: a key.
        a: the shape parameter, positive; derivatives flow to it.
        shape: the result's shape; None stands for that of a.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> bool(random.loggamma(random.key(0), 1e-5) < -1000)
    True
    """
    dtype, shape, (a,) = _in_doubles("loggamma", shape, dtype, a)
    return ops.astype(_loggamma_of_arrays(key, a, shape), dtype)


def gamma(
    key: RandomKey, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns numbers of the gamma distribution, whose density is x**(a - 1) exp(-x) / gamma(a).

    Divide them by a rate, or multiply them by a scale, for derivatives by it.

    Args:
        key: a key.
        a: the shape parameter, positive; derivatives flow to it, those of the quantile at a fixed
            probability, of any order.
        shape: the result's shape; None stands for that of a.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype, NaN where a is not positive; by the method of Marsaglia
        and Tsang, "A simple method for generating gamma variables", 2000.

    >>> import functensor as ft
    >>> from functensor import random
    >>> x = random.gamma(random.key(0), 3.0, (10000,))
    >>> bool(abs(x.mean() - 3) < 0.1)
    True
    >>> derivative = ft.grad(lambda a: random.gamma(random.key(0), a, (10000,)).mean())(3.0)
    >>> bool(abs(derivative - 1) < 0.02)
    True
    """
    dtype, shape, (a,) = _in_doubles("gamma", shape, dtype, a)
    return ops.astype(ops.exp(_loggamma_of_arrays(key, a, shape)), dtype)


def beta(
    key: RandomKey,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers of the beta distribution on [0, 1]: the share of one of two gamma numbers.

    Args:
        key: a key.
        a, b: positive parameters that broadcast; derivatives flow to them.
        shape: the result's shape; None stands for that to which the parameters broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> x = random.beta(random.key(0), 2.0, 3.0, (10000,))
    >>> bool(abs(x.mean() - 0.4) < 0.01)
    True
    """
    dtype, shape, (a, b) = _in_doubles("beta", shape, dtype, a, b)
    keys = split(key)
    first = _loggamma_of_arrays(ops.index(keys, 0), a, shape)
    second = _loggamma_of_arrays(ops.index(keys, 1), b, shape)
    return ops.astype(ops.sigmoid(ops.subtract(first, second)), dtype)


def dirichlet(
    key: RandomKey, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns vectors of the Dirichlet distribution: positive numbers whose sum is 1.

    Args:
        key: a key.
        alpha: positive parameters along the last axis; derivatives flow to them.
        shape: the result's shape without the last axis; None stands for that of alpha.
        dtype: a real dtype.

    Returns:
        An array of shape ``(*shape, alpha.shape[-1])`` and that dtype.

    Raises:
        ValueError: alpha has no axis.

    >>> from functensor import random
    >>> x = random.dirichlet(random.key(0), [1.0, 2.0, 3.0], (4,))
    >>> x.shape, bool((abs(x.sum(axis=-1) - 1) < 1e-12).all())
    ((4, 3), True)
    """
    dtype = real_dtype(dtype, "dirichlet")
    alpha = ops.astype(asarray(beside_draws("dirichlet", alpha)[0]), np.float64)
    if not alpha.shape:
        raise ValueError("dirichlet: alpha is a vector, one parameter for each component")
    if shape is not None:
        shape = (*real_parameters("dirichlet", shape, np.float64)[0], alpha.shape[-1])
    shape, (alpha,) = real_parameters("dirichlet", shape, np.float64, alpha)
    return ops.astype(ops.softmax(_loggamma_of_arrays(key, alpha, shape), axis=-1), dtype)


def chisquare(
    key: RandomKey, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns numbers of the chi-squared distribution: sums of df squared normal numbers.

    Args:
        key: a key.
        df: the degrees of freedom, positive; derivatives flow to them.
        shape: the result's shape; None stands for that of df.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> bool((random.chisquare(random.key(0), 4.0, (100,)) > 0).all())
    True
    """
    dtype, shape, (df,) = _in_doubles("chisquare", shape, dtype, df)
    drawn = ops.exp(_loggamma_of_arrays(key, ops.multiply(df, 0.5), shape))
    return ops.astype(ops.multiply(drawn, 2.0), dtype)


def f(
    key: RandomKey,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers of the F distribution: the ratio of two chi-squared means.

    Args:
        key: a key.
        dfnum, dfden: the degrees of freedom above and below the bar; derivatives flow to them.
        shape: the result's shape; None stands for that to which the parameters broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> bool((random.f(random.key(0), 4.0, 5.0, (100,)) > 0).all())
    True
    """
    dtype, shape, given = _in_doubles("f", shape, dtype, dfnum, dfden)
    keys = split(key)
    above, below = (
        ops.subtract(_loggamma_of_arrays(ops.index(keys, i), half, shape), ops.log(half))
        for i, half in enumerate(ops.multiply(df, 0.5) for df in given)
    )
    return ops.astype(ops.exp(ops.subtract(above, below)), dtype)


def student_t(
    key: RandomKey, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns numbers of Student's t distribution: normal ones over the root of a chi-squared mean.

    Args:
        key: a key.
        df: the degrees of freedom, positive; derivatives flow to them.
        shape: the result's shape; None stands for that of df.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> random.student_t(random.key(0), 4.0, (2, 3)).shape
    (2, 3)
    """
    dtype, shape, (df,) = _in_doubles("student_t", shape, dtype, df)
    keys = split(key)
    # Parameters that are not positive give NaN without a warning.
    half = ops.multiply(ops.where(ops.greater(df, 0), df, np.nan), 0.5)
    spread = ops.subtract(ops.log(half), _loggamma_of_arrays(ops.index(keys, 1), half, shape))
    scale = ops.exp(ops.multiply(spread, 0.5))
    return ops.astype(ops.multiply(normal(ops.index(keys, 0), shape), scale), dtype)


t = student_t
