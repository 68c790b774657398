"""Riemann's and Hurwitz's zeta functions, with derivatives by both arguments."""

from __future__ import annotations

import math

from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.test_samples import POSITIVE, Domain
from .scipy_functions import DLMF, by_scipy, scipy_elementwise, scipy_unary

__all__ = ["riemann_zeta", "zeta"]

# fmt: off - a rule stands beside its name, as in a table.

# The terms of the sum that are added one by one, and the coefficients B(2j) / (2j)! of the
# corrections to the integral over the others. Together they give all digits.
ZETA_TERMS = 12
CORRECTIONS = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)  # fmt: skip
LOG_TWO_PI = math.log(2.0 * math.pi)


def zeta_grad(x: Array, y: Array | float) -> Array:
    """Returns the derivative of ``zeta(x, y)`` by x: the formula of Euler and Maclaurin's.

    DLMF 25.11.8, differentiated; further derivatives, by y too, are those of the terms.
    """
    total: Array | float = 0.0
    for k in range(ZETA_TERMS):
        total = total - ops.log(y + k) * ops.power(y + k, -x)
    w = y + ZETA_TERMS
    log, last = ops.log(w), ops.power(w, -x)
    rest = x - 1
    total = total - w * last / rest * (log + 1 / rest) - 0.5 * log * last
    # The rising factorial x (x + 1) ... (x + 2j) over w to the power 2j + 1, and its derivative.
    rising, change = x / w, 1 / w
    for j, coefficient in enumerate(CORRECTIONS):
        total = total + coefficient * last * (change - log * rising)
        a, b = (x + (2 * j + 1)) / w, (x + (2 * j + 2)) / w
        change = change * a * b + rising * (a + b) / w
        rising = rising * a * b
    return total


def _riemann_zeta_grad(x: Array) -> Array:
    """Returns the derivative of Riemann's function, left of 0 by reflection, DLMF 25.4.2."""
    left = ops.less(x, 0)
    right = zeta_grad(ops.where(left, 2, x), 1.0)
    s = ops.where(left, x, -0.5)
    mirrored = 1 - s
    angle = 0.5 * math.pi * s
    value, derivative = ops.zeta(mirrored, 1.0), zeta_grad(mirrored, 1.0)
    change = (LOG_TWO_PI - ops.digamma(mirrored)) * value - derivative
    factor = ops.exp(s * LOG_TWO_PI + ops.gammaln(mirrored)) / math.pi
    reflected = factor * (change * ops.sin(angle) + 0.5 * math.pi * value * ops.cos(angle))
    return ops.where(left, reflected, right)


zeta = scipy_elementwise(
    "zeta",
    lambda g, x, y: g * zeta_grad(x, y),
    lambda g, x, y: g * (-x * ops.zeta(x + 1, y)),
    domains=(Domain(1.5, 5.0), POSITIVE), dtypes="d",
    doc="Returns Hurwitz's zeta function, the sum of ``(q + k)**-x`` over k from 0 up.",
    source=DLMF + "25.11.1",
)
riemann_zeta = scipy_unary(
    "riemann_zeta", lambda g, x: g * _riemann_zeta_grad(x),
    compute=by_scipy("zeta"), reference="scipy.special.zeta", domains=Domain(1.5, 5.0),
    doc="Returns Riemann's zeta function, the sum of ``k**-x`` over k from 1 up, continued.",
    source=DLMF + "25.2.1",
)
