"""Activation functions: stable for all arguments, and sparing of what they keep for later."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .activation_derivatives import gelu_curvature
from .families import along, elementwise, unary
from .registry import registry as ops
from .rules import shape_of
from .samples import NONZERO, REAL, Operand, Sample
from .types import canonical_axes

__all__ = [
    "elu",
    "gelu",
    "gelu_slope",
    "log_softmax",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softmax_derivative",
    "softplus",
]

relu = unary(
    "relu",
    lambda g, ans: ops.relu_derivative(g, ans),
    domains=NONZERO,
    reference=lambda x: np.maximum(x, 0),
    doc="Returns ``max(x, 0)``; its derivative at 0 is 0.",
    example="nn.relu([-2.0, 3.0]) -> [0.0, 3.0]",
)
sigmoid = unary(
    "sigmoid",
    lambda g, ans: ops.sigmoid_derivative(g, ans),
    reference="scipy.special.expit",
    doc="Returns the logistic function ``1 / (1 + exp(-x))``.",
    example="nn.sigmoid([-1e9, 0.0, 1e9]) -> [0.0, 0.5, 1.0]",
)
softplus = unary(
    "softplus",
    lambda g, ans: ops.softplus_derivative(g, ans),
    reference=lambda x: np.logaddexp(x, 0),
    doc="Returns ``log(1 + exp(x))``.",
    example="nn.softplus([-1e9, 1e9]) -> [0.0, 1000000000.0]",
)
silu = unary(
    "silu",
    lambda g, x: ops.silu_derivative(g, x),
    reference=lambda x: x / (1 + np.exp(-x)),
    doc="Returns ``x * sigmoid(x)``, also known as swish.",
    example="nn.silu([-1e9, 0.0, 1e9]) -> [-0.0, 0.0, 1000000000.0]",
    source="Elfwing, Uchibe and Doya, https://arxiv.org/abs/1702.03118.",
)


def _elu_arguments(x: Any, alpha: float = 1.0) -> Any:
    return (x,), {"alpha": float(alpha)}


def _elu(xp: Any, x: Any, *, alpha: float) -> Any:
    # Of negative x only, so that nothing overflows.
    return xp.where(xp.less(x, 0), alpha * xp.expm1(xp.minimum(x, 0)), x)[()]


elu = elementwise(
    "elu",
    lambda g, x, *, alpha: g * ops.where(x > 0, 1, alpha * ops.exp(ops.minimum(x, 0))),
    prepare=_elu_arguments,
    compute=_elu,
    params=({"alpha": 1.0}, {"alpha": 0.5}),
    domains=NONZERO,
    reference=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    doc="Returns x where it is positive, and ``alpha * (exp(x) - 1)`` elsewhere.",
    options={"alpha": "the limit for large negative x is minus this; positive."},
    example="nn.elu([-1e9, 3.0], alpha=0.5) -> [-0.5, 3.0]",
    source="Clevert, Unterthiner and Hochreiter, https://arxiv.org/abs/1511.07289.",
)

# -- gelu. Its slope is a primitive of its own, done in a few passes and in place.


def _gelu_arguments(x: Any, approximate: bool = True) -> Any:
    return (x,), {"approximate": bool(approximate)}


def _probability(x: Any) -> Any:
    return 0.5 * np.vectorize(math.erfc, otypes="d")(np.multiply(x, -math.sqrt(0.5)))


def _gelu_by_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_reference(x: Any, approximate: bool) -> Any:
    value = _gelu_by_tanh(x) if approximate else x * _probability(x)
    return np.asarray(value, np.result_type(x))


def slope_reference(x: Any, approximate: bool) -> Any:
    """The derivative of gelu, as the tests compare with it."""
    if approximate:
        # A complex step, which is the derivative without loss of digits.
        value = np.imag(_gelu_by_tanh(np.asarray(x, complex) + 1e-30j)) / 1e-30
    else:
        value = _probability(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return np.asarray(value, np.result_type(x))


GELU_SOURCE = "Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415."
GELU_OPTIONS = {
    "approximate": "whether to take the usual approximation, by tanh of a cubic polynomial."
}
BOTH_GELUS = ({"approximate": True}, {"approximate": False})

gelu = elementwise(
    "gelu",
    lambda g, x, *, approximate: ops.gelu_derivative(g, x, approximate),
    prepare=_gelu_arguments,
    params=BOTH_GELUS,
    reference=_gelu_reference,
    doc="Returns ``x * P(X <= x)`` of a standard normal X.",
    options=GELU_OPTIONS,
    example="nn.gelu([-1e9, 0.0, 1e9]) -> [-0.0, 0.0, 1000000000.0]",
    source=GELU_SOURCE,
)
gelu_slope = elementwise(
    "gelu_slope",
    lambda g, x, *, approximate: g * gelu_curvature(x, approximate),
    prepare=_gelu_arguments,
    params=BOTH_GELUS,
    reference=slope_reference,
    doc="Returns the derivative of gelu.",
    options=GELU_OPTIONS,
    source=GELU_SOURCE,
)

# -- softmax


def _axes_argument(x: Any, axis: Any = -1) -> Any:
    shape = shape_of(x)
    return (x,), {"axis": canonical_axes(axis if shape else None, len(shape))}


def _samples(*domains: Any) -> list[Sample]:
    """Every operand of the same shape."""
    shapes: list[tuple[tuple[int, ...], Any]] = [
        ((), None),
        ((4,), -1),
        ((2, 3), 0),
        ((2, 3, 4), (0, 2)),
        ((0, 3), 1),
        ((2, 0), 0),
    ]
    return [
        Sample(*(Operand(shape, d) for d in domains), **_axes_argument(shape, axis)[1])
        for shape, axis in shapes
    ]


def _sum(x: Any, axis: tuple[int, ...]) -> Any:
    return ops.sum.bind((x,), {"axis": axis, "keepdims": True, "dtype": None})


AXIS = {"axis": "the axis or axes whose elements are taken together; None for all of them."}

softmax = along(
    "softmax",
    lambda g, ans, *, axis: ops.softmax_derivative.bind((g, ans), {"axis": axis}),
    jvp=(lambda t, ans, *, axis: ops.softmax_derivative.bind((t, ans), {"axis": axis}),),
    prepare=_axes_argument,
    samples=_samples(REAL),
    reference=lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True),
    doc="Returns ``exp(x) / sum(exp(x))``: the probabilities in proportion to ``exp(x)``.",
    options=AXIS,
    example="nn.softmax([0.0, 0.0, -np.inf]) -> [0.5, 0.5, 0.0]",
)


def _two_operands(g: Any, ans: Any, axis: Any = -1) -> Any:
    return (g, ans), _axes_argument(g, axis)[1]


def _softmax_second(h: Any, g: Any, p: Any, axis: tuple[int, ...]) -> Any:
    """The transposed derivative of ``p * (g - sum(g * p))`` by p."""
    return h * (g - _sum(g * p, axis)) - g * _sum(h * p, axis)


# The derivative of softmax at the point where it is p, in a direction: linear and symmetric in it.
softmax_derivative = along(
    "softmax_derivative",
    lambda g, y, *, axis: ops.softmax_derivative.bind((g, y), {"axis": axis}),
    lambda g, x, y, *, axis: _softmax_second(g, x, y, axis),
    jvp=(
        lambda t, y, *, axis: ops.softmax_derivative.bind((t, y), {"axis": axis}),
        lambda t, x, y, *, axis: t * (x - _sum(x * y, axis)) - y * _sum(x * t, axis),
    ),
    prepare=_two_operands,
    samples=_samples(REAL, REAL),
    reference=lambda g, p, axis: p * (g - np.sum(g * p, axis=axis, keepdims=True)),
    doc="Returns ``y * (x - sum(x * y))``: how softmax changes with its argument where it is y.",
    options={"y": "the softmax, of x's shape."} | AXIS,
)
log_softmax = along(
    "log_softmax",
    lambda g, ans, *, axis: g - ops.exp(ans) * _sum(g, axis),
    jvp=(lambda t, ans, *, axis: t - _sum(ops.exp(ans) * t, axis),),
    prepare=_axes_argument,
    samples=_samples(REAL),
    reference=lambda x, axis: x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True)),
    doc="Returns the logarithm of softmax, without its rounding to 0 or 1.",
    options=AXIS,
    example="nn.log_softmax([0.0, -1e9]) -> [0.0, -1000000000.0]",
)
