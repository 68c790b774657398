"""Exponentials, logarithms and roots."""

from __future__ import annotations

import math

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ...backends.restoring import errstate
from ..core.annotations import operations as ops
from ..core.families import binary, unary
from ..core.test_samples import NONZERO, POSITIVE, Domain
from .cast_and_complex import is_complex

__all__ = [
    "cbrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "log_ratio", "logaddexp",
    "logaddexp2", "reciprocal", "sqrt",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

LN2 = math.log(2.0)
LN10 = math.log(10.0)

exp = unary(
    "exp", lambda g, ans: g * ans, dtypes="fdD",
    doc="Returns e to the power x.", example="np.exp(0.0) -> 1.0",
)
exp2 = unary(
    "exp2", lambda g, ans: g * ans * LN2, dtypes="fdD",
    doc="Returns 2 to the power x.", example="np.exp2([1.0, 3.0]) -> [2.0, 8.0]",
)


def _expm1(xp: ArrayModule, x: Buffer) -> Buffer:
    if type(x) is xp.ndarray and x.dtype.kind != "c":
        return xp.expm1(x)
    if not is_complex(x) or (xp.isfinite(x).all() and xp.all(x)):
        return xp.expm1(x)
    # The array module's complex infinities are NaN; those of exp are right.
    with errstate(invalid="ignore", over="ignore"):
        out = xp.expm1(x)
        out = xp.where(xp.isfinite(x), out, xp.exp(x) - 1)
        # The array API standard has a real part of +0 of all zeros, where NumPy's takes x's sign.
        return xp.where(xp.equal(x, 0), x - xp.conj(x), out).astype(out.dtype)[()]


expm1 = unary(
    "expm1", lambda g, x: g * ops.exp(x),
    compute=_expm1, dtypes="fdD",
    doc="Returns ``exp(x) - 1``, without losing digits where x is small.",
    example="np.expm1(1e-20) -> 1e-20",
)
log = unary(
    "log", lambda g, x: g / x, domains=POSITIVE, dtypes="fdD",
    doc="Returns the natural logarithm.", example="np.log(1.0) -> 0.0",
)
log2 = unary(
    "log2", lambda g, x: g / x * (1 / LN2), domains=POSITIVE, dtypes="fdD",
    doc="Returns the logarithm to base 2.", example="np.log2([2.0, 8.0]) -> [1.0, 3.0]",
)
log10 = unary(
    "log10", lambda g, x: g / x * (1 / LN10), domains=POSITIVE, dtypes="fdD",
    doc="Returns the logarithm to base 10.", example="np.log10([1.0, 100.0]) -> [0.0, 2.0]",
)
log1p = unary(
    "log1p", lambda g, x: g / (1 + x), domains=Domain(-0.7, 2.0), dtypes="fdD",
    doc="Returns ``log(1 + x)``, without losing digits where x is small.",
    example="np.log1p(1e-20) -> 1e-20",
)
sqrt = unary(
    "sqrt", lambda g, ans: 0.5 * g / ans, domains=POSITIVE, dtypes="fdD",
    doc="Returns the square root.", example="np.sqrt([4.0, 9.0]) -> [2.0, 3.0]",
)
cbrt = unary(
    "cbrt", lambda g, ans: g / (3 * ans * ans), domains=NONZERO,
    doc="Returns the cube root, which negative numbers have too.",
    example="np.cbrt([8.0, -1.0]) -> [2.0, -1.0]",
)
reciprocal = unary(
    "reciprocal", lambda g, ans: -g * ans * ans, domains=NONZERO, dtypes="fdD",
    doc="Returns ``1 / x``; of integers, as in NumPy, the integral part.",
    example="np.reciprocal([2.0, -4.0]) -> [0.5, -0.25]",
)

# -- sums of exponentials. A weight is exp(x) over the sum, a sigmoid of the logarithm of a ratio.

log_ratio = binary(
    "log_ratio",
    lambda g: g,
    lambda g: -g,
    reference=np.subtract,
    doc="Returns ``log(exp(x) / exp(y))``: ``x - y``, -inf where x is, 0 where both are inf.",
)
logaddexp = binary(
    "logaddexp",
    lambda g, x, y: g * ops.logistic(ops.log_ratio(x, y)),
    lambda g, x, y: g * ops.logistic(ops.log_ratio(y, x)),
    doc="Returns ``log(exp(x) + exp(y))`` without overflow.",
    example="np.logaddexp(1000.0, -np.inf) -> 1000.0",
)
logaddexp2 = binary(
    "logaddexp2",
    lambda g, x, y: g * ops.logistic(LN2 * ops.log_ratio(x, y)),
    lambda g, x, y: g * ops.logistic(LN2 * ops.log_ratio(y, x)),
    doc="Returns ``log2(2**x + 2**y)`` without overflow.",
    example="np.logaddexp2(1000.0, 1000.0) -> 1001.0",
)
