"""The normal distribution's probabilities and quantiles, from which random numbers are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

from ..custom.rules import custom_jvp
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array

__all__ = ["TAIL_BEGINS", "normal_probability", "normal_quantile", "tail_quantile"]

# Coefficients of rational functions, constant terms first: M. J. Wichura, "Algorithm AS 241: The
# percentage points of the normal distribution", Applied Statistics 37, 1988 (PPND16).
CENTRE = (
    (
        3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3,
        1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
        3.3430575583588128105e4, 2.5090809287301226727e3,
    ),
    (
        1.0, 4.2313330701600911252e1, 6.8718700749205790830e2,
        5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4,
        2.8729085735721942674e4, 5.2264952788528545610e3,
    ),
)  # fmt: skip
TAIL = (
    (
        1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550,
        3.64784832476320460504, 1.27045825245236838258, 2.41780725177450611770e-1,
        2.27238449892691845833e-2, 7.74545014278341407640e-4,
    ),
    (
        1.0, 2.05319162663775882187, 1.67638483018380384940,
        6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
        5.47593808499534494600e-4, 1.05075007164441684324e-9,
    ),
)  # fmt: skip
FAR_TAIL = (
    (
        6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
        2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
        2.71155556874348757815e-5, 2.01033439929228813265e-7,
    ),
    (
        1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
        1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
        1.42151175831644588870e-7, 2.04426310338993978564e-15,
    ),
)  # fmt: skip


def normal_probability(x: ArrayLike) -> Array:
    """Returns the probability that a standard normal number is at most x, precise if it is small.

    >>> normal_probability(0.0).item()
    0.5
    """
    return ops.multiply(ops.erfc(ops.multiply(x, -sqrt(0.5))), 0.5)


def _rational(coefficients: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    values = []
    for row in coefficients:
        value: Any = row[-1]
        for coefficient in reversed(row[:-1]):
            value = ops.add(ops.multiply(value, x), coefficient)
        values.append(value)
    return ops.divide(*values)


@custom_jvp
def normal_quantile(p: ArrayLike) -> Array:
    """Returns the number that a standard normal number is at most with probability p.

    Args:
        p: ``float64`` from 0 to 1.

    Returns:
        An array of p's shape, with a relative error of about 1e-16.

    >>> round(normal_quantile(0.975).item(), 12)
    1.95996398454
    """
    q = ops.subtract(p, 0.5)
    centre = ops.multiply(q, _rational(CENTRE, ops.subtract(0.180625, ops.square(q))))
    # No logarithm of zero: at the ends the result is infinite.
    end = ops.minimum(p, ops.subtract(1.0, p))
    r = ops.sqrt(ops.negative(ops.log(ops.where(ops.equal(end, 0.0), 1.0, end))))
    tail = ops.where(
        ops.less_equal(r, 5.0),
        _rational(TAIL, ops.subtract(r, 1.6)),
        _rational(FAR_TAIL, ops.subtract(r, 5.0)),
    )
    tail = ops.multiply(ops.sign(q), ops.where(ops.equal(end, 0.0), float("inf"), tail))
    return ops.where(ops.less_equal(ops.abs(q), 0.425), centre, tail)


@normal_quantile.defjvp
def _normal_quantile_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    x = normal_quantile(*primals)
    density = ops.multiply(ops.exp(ops.multiply(ops.square(x), -0.5)), 1 / sqrt(2 * pi))
    return x, ops.divide(*tangents, density)


# -- far in the tail, where probabilities vanish but not their quotients

# The asymptotic series of Mills' ratio, DLMF 7.12.1, is right to all digits from here on, with so
# many terms; and a step of the iteration gains more than two digits.
TAIL_BEGINS = 25.0
MILLS_TERMS = 10
TAIL_ITERATIONS = 7
# Further than this behind the nearer bound there is nothing.
REACH = 100.0


def _log_mills(x: Array) -> Array:
    """Returns the logarithm of x times Mills' ratio, which is close to 0."""
    u = ops.reciprocal(ops.square(x))
    rest: Array | float = 1.0
    for k in range(MILLS_TERMS, 1, -1):
        rest = 1.0 - (2 * k - 1) * u * rest
    return ops.log1p(-u * rest)


def tail_quantile(unit: Array, near: Array, far: Array) -> Array:
    """Returns quantiles of the normal distribution restricted to an interval above ``TAIL_BEGINS``.

    With Q the probability of larger numbers and M Mills' ratio, ``Q(x) = M(x) exp(-x**2 / 2)``
    times a constant: ``Q(x) = w Q(a)`` is solved for x by iteration.

    Args:
        unit: the shares of the interval's probability that lie above; in [0, 1].
        near, far: the bounds a and b, ``TAIL_BEGINS <= a <= b``; b may be infinite.
    """
    far = ops.where(ops.greater(far - near, REACH), near + REACH, far)
    log_near = _log_mills(near)
    # The probability above b, as a share of that above a.
    drop = -0.5 * (far - near) * (far + near)
    beyond = ops.exp(drop + ops.log(near / far) + _log_mills(far) - log_near)
    share = ops.log(beyond + unit * (1.0 - beyond))
    x = near
    for _ in range(TAIL_ITERATIONS):
        change = ops.log(near / x) + _log_mills(x) - log_near - share
        x = near * ops.sqrt(1.0 + 2.0 * change / near / near)
    return x
