"""Box and Cox's transformations of `functensor.scipy.special`, and what they are made of."""

from __future__ import annotations

from typing import Any

from ..backends.restoring import quiet
from ..numpy.arguments import as_inexact
from ..primitives.registry import registry as ops
from .probabilities import together

__all__ = ["boxcox", "boxcox1p", "exprel", "inv_boxcox", "inv_boxcox1p"]

INF = float("inf")
# Closer to 0 than these, quotients and their derivatives are those of a series, which ends where
# its terms and those of two derivatives vanish.
NEAR_EXP, EXP_TERMS = 0.5, 18
NEAR_LOG, LOG_TERMS = 0.1, 20


def _exprel(u: Any) -> Any:
    """Returns ``(exp(u) - 1) / u``, which is 1 at 0."""
    near = ops.less(ops.abs(u), NEAR_EXP)
    small, far = ops.where(near, u, 0.0), ops.where(near, 1.0, u)
    series: Any = 1.0
    for k in range(EXP_TERMS, 1, -1):
        series = 1.0 + small * series / k
    infinite = ops.equal(far, INF)
    usual = ops.expm1(far) / ops.where(infinite, 1.0, far)
    return ops.where(near, series, usual)


def _logrel(u: Any) -> Any:
    """Returns ``log(1 + u) / u``, which is 1 at 0."""
    near = ops.less(ops.abs(u), NEAR_LOG)
    small, far = ops.where(near, u, 0.0), ops.where(near, 1.0, u)
    series: Any = 1.0 / LOG_TERMS
    for k in range(LOG_TERMS - 1, 0, -1):
        series = 1.0 / k - small * series
    return ops.where(near, series, ops.log1p(far) / far)


def exprel(x: Any) -> Any:
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


def _transformed(level: Any, none: Any, lmbda: Any) -> Any:
    """Returns ``(exp(lmbda level) - 1) / lmbda``, for the logarithm of what is transformed.

    Where that is 0, ``none`` says so; there, and where it is infinite, the power is 0 or infinite.
    """
    above, below = ops.greater(lmbda, 0), ops.less(lmbda, 0)
    limit = -1.0 / ops.where(ops.logical_or(above, below), lmbda, 1.0)
    endless = ops.equal(level, INF)
    value = ops.where(endless, 0.0, level)
    value = value * _exprel(lmbda * value)
    value = ops.where(endless, ops.where(below, limit, INF), value)
    return ops.where(none, ops.where(above, limit, -INF), value)


def boxcox(x: Any, lmbda: Any) -> Any:
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
    x, lmbda = together(x, lmbda)
    none = ops.equal(x, 0)
    with quiet():
        return _transformed(ops.log(ops.where(none, 1.0, x)), none, lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
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
    x, lmbda = together(x, lmbda)
    none = ops.equal(x, -1)
    with quiet():
        return _transformed(ops.log1p(ops.where(none, 0.0, x)), none, lmbda)


def _level(y: Any, lmbda: Any) -> Any:
    """Returns ``log(1 + lmbda y) / lmbda``, and 0 where it is infinite."""
    u = lmbda * y
    edge = ops.logical_or(ops.equal(u, -1), ops.equal(ops.abs(u), INF))
    return ops.where(edge, 0.0, y) * _logrel(ops.where(edge, 0.0, u))


def _at_edge(y: Any, lmbda: Any, value: Any, least: float) -> Any:
    """Returns a value, but for those powers of 0 or infinity that are infinite, or least."""
    u = lmbda * y
    edge = ops.logical_or(ops.equal(u, -1), ops.equal(ops.abs(u), INF))
    ends = ops.equal(ops.greater(lmbda, 0), ops.greater(u, 0))
    value = ops.where(ops.logical_and(edge, ends), INF, value)
    return ops.where(ops.logical_and(edge, ops.logical_not(ends)), least, value)


def inv_boxcox(y: Any, lmbda: Any) -> Any:
    """Returns what `boxcox` transforms to y: ``(1 + lmbda y)**(1 / lmbda)``.

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
    y, lmbda = together(y, lmbda)
    with quiet():
        return _at_edge(y, lmbda, ops.exp(_level(y, lmbda)), 0.0)


def inv_boxcox1p(y: Any, lmbda: Any) -> Any:
    """Returns what `boxcox1p` transforms to y: ``(1 + lmbda y)**(1 / lmbda) - 1``.

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
    y, lmbda = together(y, lmbda)
    with quiet():
        return _at_edge(y, lmbda, ops.expm1(_level(y, lmbda)), -1.0)
