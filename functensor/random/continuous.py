"""Continuous distributions that are drawn by a formula."""

from __future__ import annotations

from math import pi, prod

import numpy as np

from ..backends.annotations import DTypeLike, ShapeLike
from ..numpy.known_values import is_at_hand
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import finfo, number_dtype
from .keys import RandomKey, fraction, inner_fraction, real_dtype, real_parameters, shape_of_draws
from .normal_quantile import TAIL_BEGINS, normal_probability, normal_quantile, tail_quantile

__all__ = [
    "cauchy", "exponential", "gumbel", "laplace", "logistic", "lognormal", "maxwell", "normal",
    "pareto", "rayleigh", "triangular", "truncated_normal", "uniform", "weibull_min",
]  # fmt: skip


def uniform(
    key: RandomKey,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Returns numbers that are uniformly distributed on the interval [minval, maxval).

    Args:
        key: a key.
        shape: the result's shape.
        dtype: a real dtype.
        minval, maxval: the bounds; they broadcast to the shape, and derivatives flow to them.

    Returns:
        An array of that shape and dtype. The product with a wide interval may round up to maxval.

    >>> from functensor import random
    >>> x = random.uniform(random.key(0), (1000,), minval=-1.0)
    >>> bool((x >= -1).all() & (x < 1).all())
    True
    """
    dtype, shape = real_dtype(dtype, "uniform"), shape_of_draws(shape)
    unit = fraction(key, shape, dtype)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit
    _, (low, high) = real_parameters("uniform", shape, dtype, minval, maxval)
    return ops.add(ops.multiply(unit, ops.subtract(high, low)), low)


def normal(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the standard normal distribution.

    Scale and shift them, ``mean + std * normal(key, shape)``, for derivatives by mean and std.

    Args:
        key: a key.
        shape: the result's shape.
        dtype: a real or complex dtype; complex numbers have variance 1, half in each part.

    Returns:
        An array of that shape and dtype, by the method of Box and Muller, "A note on the
        generation of random normal deviates", 1958.

    >>> from functensor import random
    >>> x = random.normal(random.key(0), (10000,))
    >>> bool(abs(x.mean()) < 0.05), bool(abs(x.std() - 1) < 0.05)
    (True, True)
    """
    dtype, shape = number_dtype(dtype), shape_of_draws(shape)
    if dtype.kind == "c":
        real = finfo(dtype).dtype
        parts = normal(key, (2, *shape), real)
        both = ops.add(ops.index(parts, 0), ops.multiply(ops.index(parts, 1), 1j))
        return ops.astype(ops.multiply(both, 0.5**0.5), dtype)
    wide = np.dtype(np.float32) if real_dtype(dtype, "normal").itemsize < 4 else dtype
    length = prod(shape)
    pairs = -(-length // 2)
    unit = fraction(key, (2, pairs), wide)
    # 1 - u is never zero, as u may be.
    radius = ops.sqrt(ops.multiply(ops.log(ops.subtract(1.0, ops.index(unit, 0))), -2.0))
    angle = ops.multiply(ops.index(unit, 1), 2 * pi)
    pair = (ops.multiply(radius, ops.cos(angle)), ops.multiply(radius, ops.sin(angle)))
    flat = ops.concatenate(pair)
    if 2 * pairs != length:
        flat = ops.index(flat, slice(length))
    return ops.astype(ops.reshape(flat, shape), dtype)


def truncated_normal(
    key: RandomKey,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers of the standard normal distribution restricted to an interval.

    Args:
        key: a key.
        lower, upper: the bounds; they broadcast to the shape, and derivatives flow to them.
        shape: the result's shape; None stands for that to which the bounds broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype: the normal distribution's quantile of a uniform number.

    >>> from functensor import random
    >>> x = random.truncated_normal(random.key(0), -2.0, 2.0, (1000,))
    >>> bool((abs(x) <= 2).all())
    True
    """
    dtype = real_dtype(dtype, "truncated_normal")
    given = lower, upper
    shape, (low, high) = real_parameters("truncated_normal", shape, np.float64, *given)
    # The distribution function is precise in the lower tail, so that an interval above zero is
    # drawn from as its mirror image.
    mirrored = ops.greater(ops.add(low, high), 0.0)
    below = ops.where(mirrored, ops.negative(high), low)
    above = ops.where(mirrored, ops.negative(low), high)
    unit = fraction(key, shape, np.dtype(np.float64))
    unit = ops.where(mirrored, ops.subtract(1.0, unit), unit)
    # Far in the tail probabilities vanish, and their derivatives with them.
    tail = ops.less(above, -TAIL_BEGINS)
    start = normal_probability(ops.where(tail, -1.0, below))
    end = normal_probability(ops.where(tail, 1.0, above))
    x = normal_quantile(ops.add(start, ops.multiply(unit, ops.subtract(end, start))))
    # The tail is computed only where the bounds need it, or are not known.
    if not is_at_hand(tail) or ops.any(tail):
        near = ops.where(tail, -above, TAIL_BEGINS)
        far = ops.where(tail, -below, 2 * TAIL_BEGINS)
        x = ops.where(tail, -tail_quantile(unit, near, far), x)
    x = ops.clip(x, below, above)
    return ops.astype(ops.where(mirrored, ops.negative(x), x), dtype)


def exponential(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the exponential distribution of mean 1.

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> bool((random.exponential(random.key(0), (100,)) >= 0).all())
    True
    """
    unit = fraction(key, shape_of_draws(shape), real_dtype(dtype, "exponential"))
    return ops.negative(ops.log(ops.subtract(1.0, unit)))


def gumbel(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the standard Gumbel distribution, -log(-log(u)).

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> random.gumbel(random.key(0), (3,), "float32").dtype
    dtype('float32')
    """
    return ops.negative(ops.log(ops.negative(ops.log(inner_fraction(key, shape, dtype, "gumbel")))))


def logistic(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the standard logistic distribution, log(u / (1 - u)).

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> random.logistic(random.key(0), (2, 3)).shape
    (2, 3)
    """
    unit = inner_fraction(key, shape, dtype, "logistic")
    return ops.subtract(ops.log(unit), ops.log(ops.subtract(1.0, unit)))


def laplace(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the standard Laplace distribution, whose density is ``exp(-abs(x)) / 2``.

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> random.laplace(random.key(0), (2, 3)).shape
    (2, 3)
    """
    unit = ops.subtract(ops.multiply(inner_fraction(key, shape, dtype, "laplace"), 2.0), 1.0)
    return ops.negative(ops.multiply(ops.sign(unit), ops.log(ops.subtract(1.0, ops.abs(unit)))))


def cauchy(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns numbers of the standard Cauchy distribution, tan(pi (u - 1/2)).

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> random.cauchy(random.key(0), (2, 3)).shape
    (2, 3)
    """
    unit = inner_fraction(key, shape, dtype, "cauchy")
    return ops.tan(ops.multiply(ops.subtract(unit, 0.5), pi))


def maxwell(key: RandomKey, shape: ShapeLike = (), dtype: DTypeLike = np.float64) -> Array:
    """Returns lengths of vectors of three standard normal numbers.

    Args:
        key, shape, dtype: as for `normal`.

    >>> from functensor import random
    >>> bool((random.maxwell(random.key(0), (100,)) > 0).all())
    True
    """
    vectors = normal(key, (*shape_of_draws(shape), 3), real_dtype(dtype, "maxwell"))
    return ops.sqrt(ops.sum(ops.square(vectors), axis=-1))


# -- with parameters. A number is the quantile of a uniform one, so that its derivative by a
# parameter is that of the quantile.


def pareto(
    key: RandomKey, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns numbers of the Pareto distribution on [1, inf), whose density is ``b / x**(b + 1)``.

    Args:
        key: a key.
        b: the shape parameter, positive; derivatives flow to it.
        shape: the result's shape; None stands for that of b.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> bool((random.pareto(random.key(0), 3.0, (100,)) >= 1).all())
    True
    """
    shape, (b,) = real_parameters("pareto", shape, dtype, b)
    return ops.exp(ops.divide(exponential(key, shape, dtype), b))


def rayleigh(
    key: RandomKey, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Array:
    """Returns numbers of the Rayleigh distribution: lengths of vectors of two normal numbers.

    Args:
        key: a key.
        scale: the standard deviation of the normal numbers; derivatives flow to it.
        shape: the result's shape; None stands for that of scale.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> random.rayleigh(random.key(0), [1.0, 2.0]).shape
    (2,)
    """
    shape, (scale,) = real_parameters("rayleigh", shape, dtype, scale)
    return ops.multiply(ops.sqrt(ops.multiply(exponential(key, shape, dtype), 2.0)), scale)


def weibull_min(
    key: RandomKey,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers of the Weibull distribution, scale * e**(1 / concentration), e exponential.

    Args:
        key: a key.
        scale, concentration: positive parameters that broadcast; derivatives flow to them.
        shape: the result's shape; None stands for that to which the parameters broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (2, 3)).shape
    (2, 3)
    """
    given = scale, concentration
    shape, (scale, concentration) = real_parameters("weibull_min", shape, dtype, *given)
    unit = inner_fraction(key, shape, dtype, "weibull_min")
    # Above zero, as a power's derivative needs it.
    power = ops.divide(ops.log(ops.negative(ops.log(unit))), concentration)
    return ops.multiply(ops.exp(power), scale)


def lognormal(
    key: RandomKey,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers whose logarithm is normally distributed with mean 0.

    Args:
        key: a key.
        sigma: the standard deviation of the logarithm; derivatives flow to it.
        shape: the result's shape; None stands for that of sigma.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> bool((random.lognormal(random.key(0), 0.5, (100,)) > 0).all())
    True
    """
    shape, (sigma,) = real_parameters("lognormal", shape, dtype, sigma)
    return ops.exp(ops.multiply(normal(key, shape, dtype), sigma))


def triangular(
    key: RandomKey,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Returns numbers whose density rises from left to mode and falls from there to right.

    Args:
        key: a key.
        left, mode, right: in ascending order; they broadcast, and derivatives flow to them.
        shape: the result's shape; None stands for that to which the parameters broadcast.
        dtype: a real dtype.

    Returns:
        An array of that shape and dtype.

    >>> from functensor import random
    >>> x = random.triangular(random.key(0), 0.0, 1.0, 4.0, (100,))
    >>> bool(((x >= 0) & (x <= 4)).all())
    True
    """
    shape, (low, top, high) = real_parameters("triangular", shape, dtype, left, mode, right)
    unit = inner_fraction(key, shape, dtype, "triangular")
    width, rise, fall = ops.subtract(high, low), ops.subtract(top, low), ops.subtract(high, top)
    area = ops.multiply(unit, width)
    rising = ops.less(area, rise)
    # Roots are taken of neither zero nor the elements of the other side.
    up = ops.sqrt(ops.where(rising, ops.multiply(area, rise), 1.0))
    rest = ops.multiply(ops.multiply(ops.subtract(1.0, unit), width), fall)
    down = ops.sqrt(ops.where(rising, 1.0, rest))
    return ops.where(rising, ops.add(low, up), ops.subtract(high, down))
