"""Integrals of exponentials, sines, cosines and logarithms."""

from __future__ import annotations

from ...backends.optional_modules import extra, scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.families import unary
from ..core.test_samples import POSITIVE
from .scipy_functions import DLMF, ORDER, scipy_elementwise, scipy_unary, without_derivative

__all__ = ["cosine_integral", "exp1", "expi", "expn", "sine_integral", "spence"]

# fmt: off - a rule stands beside its name, as in a table.

# Closer than this to a quotient of zeros a series is exact; Spence's has so many terms.
NEAR = 0.02
SPENCE_TERMS = 11

exp1 = scipy_unary(
    "exp1", lambda g, x: -(g * (ops.exp(-x) / x)), domains=POSITIVE,
    doc="Returns the exponential integral E1, the integral of ``exp(-t) / t`` from x on.",
    example="special.exp1(0.0) -> inf", source=DLMF + "6.2.1",
)
expi = scipy_unary(
    "expi", lambda g, x: g * (ops.exp(x) / x), domains=POSITIVE,
    doc="Returns the exponential integral Ei, the integral of ``exp(t) / t`` up to x.",
    example="special.expi(0.0) -> -inf", source=DLMF + "6.2.5",
)


def _expn_vjp(g: Array, x: Array, y: Array) -> Array:
    # The function of order 0 is exp(-y) / y, differentiated directly.
    lowest = ops.equal(x, 0)
    below = ops.expn(ops.where(lowest, 1, x) - 1, y)
    return -(g * ops.where(lowest, ops.exp(-y) * (1 + 1 / y) / y, below))


expn = scipy_elementwise(
    "expn",
    without_derivative("expn", "its order n"),
    _expn_vjp, domains=(ORDER, POSITIVE), dtypes="d",
    doc="Returns the generalised exponential integral, that of ``exp(-x t) / t**n`` from 1 on.",
    arguments={
        "n": "the order, integers from 0 up; there is no derivative by it.",
        "x": "an array of a shape that broadcasts against n's, or a number.",
    },
    example="special.expn(2, 0.0) -> 1.0", source=DLMF + "8.19.13",
)


def _sine_integral_vjp(g: Array, x: Array) -> Array:
    """Multiplies by sin(x) / x, which is 1 at 0, and next to it a series."""
    near = ops.less(ops.abs(x), NEAR)
    square = ops.square(ops.where(near, x, 0))
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    far = ops.where(near, 1, x)
    return g * ops.where(near, series, ops.sin(far) / far)


sine_integral = unary(
    "sine_integral", _sine_integral_vjp,
    compute=lambda xp, x: scipy_module(xp, "special").sici(x)[0],
    reference=lambda x: extra("scipy.special", "scipy").sici(x)[0],
    doc="Returns the integral of ``sin(t) / t`` from 0 to x.", source=DLMF + "6.2.9",
)
cosine_integral = unary(
    "cosine_integral", lambda g, x: g * (ops.cos(x) / x),
    compute=lambda xp, x: scipy_module(xp, "special").sici(x)[1],
    reference=lambda x: extra("scipy.special", "scipy").sici(x)[1], domains=POSITIVE,
    doc="Returns the cosine integral, minus the integral of ``cos(t) / t`` from x on.",
    source=DLMF + "6.2.11",
)


def _spence_vjp(g: Array, x: Array) -> Array:
    """Multiplies by log(x) / (1 - x), which is -1 at 1, and next to it a series."""
    u = 1 - x
    near = ops.less(ops.abs(u), NEAR)
    small, far = ops.where(near, u, 0), ops.where(near, 2, x)
    series: Array | float = 1 / SPENCE_TERMS
    for k in range(SPENCE_TERMS - 1, 0, -1):
        series = series * small + 1 / k
    return g * ops.where(near, -series, ops.log(far) / (1 - far))


spence = scipy_unary(
    "spence", _spence_vjp, domains=POSITIVE,
    doc="Returns Spence's function, the integral of ``log(t) / (1 - t)`` from 1 to x.",
    example="special.spence(1.0) -> 0.0", source=DLMF + "25.12.3",
)
