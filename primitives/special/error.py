"""Error functions, their inverses, and the normal and logistic distributions."""

from __future__ import annotations

import math

from ...backends.arrays import special_error as kernels
from ..core.annotations import operations as ops
from ..core.families import elementwise, unary
from ..core.test_samples import Domain
from ..elementwise.exponential import LN10
from .error_function import ErrorFunction
from .scipy_functions import DLMF, scipy_unary

__all__ = [
    "erfcinv", "erfcx", "erfcx_integral", "erfi", "erfinv", "exp10", "log_ndtr", "log_ndtr_gap",
    "log_ndtr_grad", "logit", "ndtr", "ndtri", "ndtri_exp",
]  # fmt: skip

# fmt: off - a rule stands beside its name, as in a table.

HALF_ROOT_PI = 0.5 * math.sqrt(math.pi)
LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
PROBABILITY = Domain(0.1, 0.9)

# -- error functions

erfinv = scipy_unary(
    "erfinv", lambda g, ans: g * (HALF_ROOT_PI * ops.exp(ans * ans)), domains=Domain(-0.9, 0.9),
    doc="Returns that x for which ``erf(x)`` is y.",
    arguments={"y": "an array of any shape, or a number, from -1 to 1."},
    example="special.erfinv([0.0, 1.0]) -> [0.0, inf]",
)
erfcinv = scipy_unary(
    "erfcinv", lambda g, ans: -(g * (HALF_ROOT_PI * ops.exp(ans * ans))), domains=Domain(0.1, 1.9),
    doc="Returns that x for which ``erfc(x)`` is y.",
    arguments={"y": "an array of any shape, or a number, from 0 to 2."},
    example="special.erfcinv(0.0) -> inf",
)
erfcx = scipy_unary(
    "erfcx", lambda g, x: -2 * (g * ops.erfcx_integral(x, order=1)),
    kind=ErrorFunction,
    doc="Returns ``exp(x**2) * erfc(x)``, which does not underflow.",
    example="special.erfcx(0.0) -> 1.0", source=DLMF + "7.2",
)
# The derivative is 2 x times the function of this order, less that of the order before: by the
# recurrence DLMF 7.18.7 a multiple of that of the next, in which nothing cancels.
erfcx_integral = elementwise(
    "erfcx_integral",
    lambda g, x, *, order: (-2 * (order + 1)) * (g * ops.erfcx_integral(x, order=order + 1)),
    compute=kernels.erfcx_integral, params=({"order": 1},),
    reference="support.special_references.erfcx_integral",
    doc="Returns ``exp(x**2)`` times the repeated integral of erfc from x on.",
    options={"order": "how many integrals."}, source=DLMF + "7.18",
)
erfi = scipy_unary(
    "erfi", lambda g, x: g * (ops.exp(x * x) * (1 / HALF_ROOT_PI)),
    kind=ErrorFunction,
    doc="Returns the imaginary error function, the integral of ``2 exp(t**2) / sqrt(pi)``.",
    example="special.erfi(0.0) -> 0.0", source=DLMF + "7.2",
)

# -- the normal distribution

ndtr = scipy_unary(
    "ndtr", lambda g, x: g * ops.exp(-0.5 * (x * x) - LOG_ROOT_TWO_PI),
    kind=ErrorFunction,
    doc="Returns the probability that a standard normal variable is at most x.",
    example="special.ndtr([0.0, float('inf')]) -> [0.5, 1.0]",
)
ndtri = scipy_unary(
    "ndtri", lambda g, ans: g * ops.exp(0.5 * (ans * ans) + LOG_ROOT_TWO_PI), domains=PROBABILITY,
    doc="Returns that x for which ``ndtr(x)`` is y.",
    arguments={"y": "an array of any shape, or a number, from 0 to 1."},
    example="special.ndtri([0.5, 1.0]) -> [0.0, inf]",
)
log_ndtr = scipy_unary(
    "log_ndtr", lambda g, x: g * ops.log_ndtr_grad(x),
    doc="Returns the logarithm of ``ndtr(x)``, which does not underflow.",
    example="special.log_ndtr(float('-inf')) -> -inf",
)
log_ndtr_grad = unary(
    "log_ndtr_grad", lambda g, ans, x: -(g * (ans * ops.log_ndtr_gap(x))),
    compute=kernels.log_ndtr_grad, reference="support.special_references.log_ndtr_grad",
    doc="Returns the derivative of ``log_ndtr``: the normal density over ``ndtr(x)``.",
)
log_ndtr_gap = unary(
    "log_ndtr_gap", lambda g, ans, x: g * (1 - ops.log_ndtr_grad(x) * ans),
    compute=kernels.log_ndtr_gap, reference="support.special_references.log_ndtr_gap",
    doc="Returns ``x + log_ndtr_grad(x)``.",
)
ndtri_exp = scipy_unary(
    "ndtri_exp", lambda g, ans: g / ops.log_ndtr_grad(ans), domains=Domain(-3.0, -0.1),
    doc="Returns that x for which ``log_ndtr(x)`` is y.",
    arguments={"y": "an array of any shape, or a number, not positive."},
    example="special.ndtri_exp(0.0) -> inf",
)

# -- the logistic distribution, and powers of ten

logit = scipy_unary(
    "logit", lambda g, x: g / (x * (1 - x)), domains=PROBABILITY,
    doc="Returns ``log(x / (1 - x))``.",
    example="special.logit([0.0, 0.5, 1.0]) -> [-inf, 0.0, inf]",
)
exp10 = scipy_unary(
    "exp10", lambda g, ans: g * (ans * LN10),
    doc="Returns 10 to the power x.", example="special.exp10([0.0, 2.0]) -> [1.0, 100.0]",
)
