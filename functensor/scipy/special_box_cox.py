"""Box and Cox's transformations of `functensor.scipy.special`, their inverses, and ``exprel``."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from ..backends.restoring import quiet
from ..numpy.arguments import as_inexact
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from .special_probabilities import in_one_dtype

__all__ = ["boxcox", "boxcox1p", "exprel", "inv_boxcox", "inv_boxcox1p"]

# The exponential of less than this is 0 in all dtypes.
LEAST_LOG_OF_POWER = -1000.0
# Closer to 0 than these bounds, quotients are computed by a series. It ends where its terms, and
# those of its first two derivatives, vanish.
NEAR_EXP, EXP_TERMS = 0.5, 18
NEAR_LOG, LOG_TERMS = 0.1, 20


def _exprel(u: Array) -> Array:
    """Returns ``(exp(u) - 1) / u``, which is 1 at 0."""
    near = ops.less(ops.abs(u), NEAR_EXP)
    small, far = ops.where(near, u, 0.0), ops.where(near, 1.0, u)
    series: Array | float = 1.0
    for k in range(EXP_TERMS, 1, -1):
        series = 1.0 + small * series / k
    infinite = ops.equal(far, inf)
    usual = ops.expm1(far) / ops.where(infinite, 1.0, far)
    return ops.where(near, series, usual)


def _logrel(u: Array) -> Array:
    """Returns ``log(1 + u) / u``, which is 1 at 0."""
    near = ops.less(ops.abs(u), NEAR_LOG)
    small, far = ops.where(near, u, 0.0), ops.where(near, 1.0, u)
    series: Array | float = 1.0 / LOG_TERMS
    for k in range(LOG_TERMS - 1, 0, -1):
        series = 1.0 / k - small * series
    return ops.where(near, series, ops.log1p(far) / far)


def exprel(x: ArrayLike) -> Array:
    """Returns ``(exp(x) - 1) / x``, and 1 at 0.

    Args:
        x: an array of any shape, or a number.

    Returns:
        An array of x's shape.

    Source: the series of the exponential function, where x is small.

    >>> from functensor.scipy import special
    >>> special.exprel([0.0, float("inf")]).tolist()
    [1.0, inf]
    """
    with quiet():
        return _exprel(as_inexact(x))


def _box_cox(level: Array, none: Array, lmbda: Array) -> Array:
    """Returns ``(exp(lmbda level) - 1) / lmbda``, for the logarithm of the operand.

    ``none`` tells where the operand is 0. Powers of 0 and of infinity are 0 or infinite.
    """
    above, below = ops.greater(lmbda, 0), ops.less(lmbda, 0)
    limit = -1.0 / ops.where(ops.logical_or(above, below), lmbda, 1.0)
    endless = ops.equal(level, inf)
    value = ops.where(endless, 0.0, level)
    power = lmbda * value
    # So small a power counts as 0.
    gone = ops.less(power, LEAST_LOG_OF_POWER)
    value = ops.where(gone, limit, value * _exprel(ops.where(gone, 0.0, power)))
    value = ops.where(endless, ops.where(below, limit, inf), value)
    value = ops.where(none, ops.where(above, limit, -inf), value)
    return ops.where(ops.isnan(lmbda), lmbda, value)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Returns Box and Cox's transformation ``(x**lmbda - 1) / lmbda``, ``log(x)`` for lmbda 0.

    Args:
        x: an array, or a number, from 0 up.
        lmbda: the power, of a shape that broadcasts against x's.

    Returns:
        An array of the shape to which the arguments broadcast; NaN where x is negative.

    Source: G. E. P. Box and D. R. Cox, "An analysis of transformations", Journal of the Royal
    Statistical Society B 26 (1964).

    >>> from functensor.scipy import special
    >>> special.boxcox([1.0, 4.0], 0.5).tolist()
    [0.0, 2.0]
    """
    x, lmbda = in_one_dtype(x, lmbda)
    none = ops.equal(x, 0)
    with quiet():
        return _box_cox(ops.log(ops.where(none, 1.0, x)), none, lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Returns Box and Cox's transformation of ``1 + x``, precise for small x.

    Args:
        x: an array, or a number, from -1 up.
        lmbda: the power, of a shape that broadcasts against x's.

    Returns:
        An array of the shape to which the arguments broadcast; NaN where x is less than -1.

    Source: as for `boxcox`.

    >>> from functensor.scipy import special
    >>> special.boxcox1p([0.0, 3.0], 0.5).tolist()
    [0.0, 2.0]
    """
    x, lmbda = in_one_dtype(x, lmbda)
    none = ops.equal(x, -1)
    with quiet():
        return _box_cox(ops.log1p(ops.where(none, 0.0, x)), none, lmbda)


def _powered(y: Array, lmbda: Array, exponential: Callable[[Array], Array], least: float) -> Array:
    """Returns ``exp`` or ``expm1`` of ``log(1 + lmbda y) / lmbda``, and its limits.

    ``least`` is the function's value at minus infinity.
    """
    # The product of 0 and an infinity has no limit.
    none = ops.logical_and(ops.equal(lmbda, 0), ops.isinf(y))
    u = ops.where(none, 0.0, lmbda * ops.where(none, 1.0, y))
    # The product of two large numbers overflows; adding 1 to it changes nothing.
    huge = ops.equal(u, inf)
    beyond = ops.logical_and(huge, ops.isfinite(lmbda))
    power, value = ops.where(beyond, lmbda, 1.0), ops.where(beyond, y, 1.0)
    far = (ops.log(ops.abs(power)) + ops.log(ops.abs(value))) / power
    edge = ops.logical_or(ops.equal(u, -1), ops.equal(ops.abs(u), inf))
    level = ops.where(edge, 0.0, y) * _logrel(ops.where(edge, 0.0, u))
    value = exponential(ops.where(beyond, far, level))
    # Negative powers of 0 are infinite.
    zero = ops.equal(u, -1)
    value = ops.where(zero, inf, value)
    value = ops.where(ops.logical_and(zero, ops.greater(lmbda, 0)), least, value)
    value = ops.where(ops.equal(u, -inf), nan, value)
    # An infinite power of a number that is infinite at most leaves 1.
    endless = ops.logical_and(huge, ops.isinf(lmbda))
    return ops.where(endless, exponential(ops.zeros_like(value)), value)


def inv_boxcox(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """Returns the number that `boxcox` transforms to y: ``(1 + lmbda y)**(1 / lmbda)``.

    Args:
        y: an array, or a number.
        lmbda: the power, of a shape that broadcasts against y's.

    Returns:
        An array of the shape to which the arguments broadcast; NaN where ``lmbda y < -1``.

    Source: as for `boxcox`.

    >>> from functensor.scipy import special
    >>> special.inv_boxcox([0.0, 2.0], 0.5).round(12).tolist()
    [1.0, 4.0]
    """
    y, lmbda = in_one_dtype(y, lmbda)
    with quiet():
        return _powered(y, lmbda, ops.exp, 0.0)


def inv_boxcox1p(y: ArrayLike, lmbda: ArrayLike) -> Array:
    """Returns the number that `boxcox1p` transforms to y: ``(1 + lmbda y)**(1 / lmbda) - 1``.

    Args:
        y: an array, or a number.
        lmbda: the power, of a shape that broadcasts against y's.

    Returns:
        An array of the shape to which the arguments broadcast; NaN where ``lmbda y < -1``.

    Source: as for `boxcox`.

    >>> from functensor.scipy import special
    >>> special.inv_boxcox1p([0.0, 2.0], 0.5).round(12).tolist()
    [0.0, 3.0]
    """
    y, lmbda = in_one_dtype(y, lmbda)
    with quiet():
        return _powered(y, lmbda, ops.expm1, -1.0)
