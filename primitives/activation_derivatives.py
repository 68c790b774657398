"""Derivatives of activation functions as primitives: one pass each, linear in their direction.

Those of functions that can be told from their value are taken where the value is y, so that the
argument need not be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.activations import silu_slope
from .documents import document
from .families import batch_elementwise, binary, elementwise, infer_elementwise
from .primitive import Primitive
from .registry import registry as ops
from .samples import NONZERO, REAL, UNIT, Domain, Operand, Sample

__all__ = [
    "gelu_derivative",
    "relu_biased",
    "relu_derivative",
    "sigmoid_biased",
    "sigmoid_derivative",
    "silu_derivative",
    "softplus_biased",
    "softplus_derivative",
    "tanh_biased",
    "tanh_derivative",
]

VALUE = {
    "x": "the direction, or a cotangent.",
    "y": "the function's value where the derivative is taken.",
}
ARGUMENT = {
    "x": "the direction, or a cotangent.",
    "y": "where the derivative is taken.",
}
PROBABILITY = Domain(0.1, 0.9)
REAL_DTYPE = np.dtype(float)


def _strong(x: Any, other: Any) -> Any:
    """Returns a number in the dtype of the operand beside it, which functions would not keep."""
    if type(x) is float and getattr(other, "dtype", REAL_DTYPE).kind == "f":
        return getattr(other, "dtype", REAL_DTYPE).type(x)
    return x


def _relu(xp: Any, x: Any, y: Any) -> Any:
    return xp.where(xp.greater(y, 0), _strong(x, y), 0)


relu_derivative = binary(
    "relu_derivative",
    lambda g, y: ops.relu_derivative(g, y),
    lambda g: None,
    compute=_relu,
    domains=(REAL, NONZERO),
    reference=lambda x, y: np.where(y > 0, x + 0 * y, 0),
    doc="Returns x where y is positive, 0 elsewhere: the derivative of relu.",
    arguments=VALUE,
)
sigmoid_derivative = binary(
    "sigmoid_derivative",
    lambda g, y: ops.sigmoid_derivative(g, y),
    lambda g, x, y: g * x * (1 - 2 * y),
    compute=lambda xp, x, y: (1 - y) * y * x,
    reference=lambda x, y: x * (y - y * y),
    domains=(REAL, PROBABILITY),
    doc="Returns ``x y (1 - y)``: the derivative of sigmoid.",
    arguments=VALUE,
)
tanh_derivative = binary(
    "tanh_derivative",
    lambda g, y: ops.tanh_derivative(g, y),
    lambda g, x, y: g * x * (-2 * y),
    compute=lambda xp, x, y: (1 - y * y) * x,
    reference=lambda x, y: x * (1 - y**2),
    domains=(REAL, UNIT),
    dtypes="fdD",
    doc="Returns ``x (1 - y^2)``: the derivative of tanh.",
    arguments=VALUE,
)
softplus_derivative = binary(
    "softplus_derivative",
    lambda g, y: ops.softplus_derivative(g, y),
    lambda g, x, y: g * x * ops.exp(-y),
    compute=lambda xp, x, y: xp.expm1(xp.negative(_strong(y, x))) * -x,
    reference=lambda x, y: x * (1 - np.exp(-_strong(y, x))),
    domains=(REAL, Domain(0.1, 3.0)),
    doc="Returns ``x (1 - exp(-y))``: the derivative of softplus.",
    arguments=VALUE,
)


def _silu(xp: Any, x: Any, y: Any) -> Any:
    return silu_slope(_strong(y, x)) * x


def _silu_reference(x: Any, y: Any) -> Any:
    y = _strong(y, x)
    return x * (1 + np.exp(-y) * (1 + y)) / (1 + np.exp(-y)) ** 2


# Further from 0 the curvature of silu is 0 in all dtypes.
VANISHING = 800.0


def _silu_curvature(x: Any) -> Any:
    x = ops.clip(x, -VANISHING, VANISHING)
    s, rest = ops.sigmoid(x), ops.sigmoid(-x)
    return s * rest * (2 + x * (rest - s))


silu_derivative = binary(
    "silu_derivative",
    lambda g, y: ops.silu_derivative(g, y),
    lambda g, x, y: g * x * _silu_curvature(y),
    compute=_silu,
    reference=_silu_reference,
    doc="Returns the derivative of silu at y in the direction x.",
    arguments=ARGUMENT,
)

# -- gelu

LOG_DENSITY = -0.5 * math.log(2 * math.pi)
LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR
FAR = 40.0


def gelu_curvature(x: Any, approximate: bool) -> Any:
    """The second derivative of gelu, which is 0 far from 0."""
    x = ops.clip(x, -FAR, FAR)
    squared = x * x
    if not approximate:
        return (2 - squared) * ops.exp(LOG_DENSITY - 0.5 * squared)
    power = x * (LINEAR + CUBIC * squared)
    s, rest = ops.sigmoid(power), ops.sigmoid(-power)
    rise = LINEAR + 3 * CUBIC * squared
    return s * rest * (2 * rise + x * ((rest - s) * rise * rise + 6 * CUBIC * x))


def _gelu_arguments(x: Any, y: Any, approximate: bool = True) -> Any:
    return (x, y), {"approximate": bool(approximate)}


def _gelu_reference(x: Any, y: Any, approximate: bool) -> Any:
    from .activation import slope_reference

    return x * slope_reference(_strong(y, x), approximate)


def _gelu(xp: Any, x: Any, y: Any, approximate: bool) -> Any:
    return ops.gelu_slope.impl(_strong(y, x), approximate=approximate) * x


gelu_derivative = elementwise(
    "gelu_derivative",
    lambda g, y, *, approximate: ops.gelu_derivative(g, y, approximate),
    lambda g, x, y, *, approximate: g * x * gelu_curvature(y, approximate),
    prepare=_gelu_arguments,
    params=({"approximate": True}, {"approximate": False}),
    compute=_gelu,
    reference=_gelu_reference,
    doc="Returns the derivative of gelu at y in the direction x.",
    arguments=ARGUMENT,
    options={"approximate": "whether it is that of the usual approximation."},
)

# -- an activation of what is left when a bias has been added, as the last part of a linear layer


def _biased(name: str, reference: Callable[..., Any], **declared: Any) -> Primitive:
    derivative = f"{name}_derivative"

    def pullback(g: Any, ans: Any) -> Any:
        # One pass for both; the bias's is summed down to its shape.
        d = ops[derivative](g, ans)
        return d, d

    def pushforward(ts: Any, ans: Any) -> Any:
        return ops[derivative](ts[0] + ts[1], ans)

    return Primitive(
        f"{name}_biased",
        family="elementwise",
        infer=infer_elementwise,
        batch=batch_elementwise,
        compute=lambda xp, x, y: ops[name].impl(xp.add(x, y)),
        pullback=pullback,
        pushforward=pushforward,
        broadcasts=True,
        reference=reference,
        samples=[
            Sample(Operand(x, Domain(0.4, 2.0)), Operand(y, Domain(0.2, 1.0)))
            for x, y in (((), ()), ((2, 3), (3,)), ((2, 3), (2, 3)), ((0, 3), (3,)))
        ],
        doc=document(
            f"Returns ``{name}(x + y)``, in one pass.",
            {"x, y": "arrays whose shapes broadcast, or numbers; y is usually a bias."},
            "An array of the shape to which the arguments broadcast.",
            "ShapeError: their shapes do not broadcast.",
        ),
        **declared,
    )


relu_biased = _biased("relu", lambda x, y: np.maximum(x + y, 0))
sigmoid_biased = _biased("sigmoid", lambda x, y: 1 / (1 + np.exp(-(x + y))))
softplus_biased = _biased("softplus", lambda x, y: np.logaddexp(x + y, 0))
tanh_biased = _biased("tanh", lambda x, y: np.tanh(x + y), dtypes="fdD")
