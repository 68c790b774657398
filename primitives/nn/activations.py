"""Activation functions, which are stable everywhere and keep little for the backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.annotations import ArrayModule, Axes, Axis, Buffer, Shape
from ...backends.arrays.nn_formulas import GELU_CUBIC, GELU_LINEAR
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.docstrings import document
from ..core.families import along, batch_elementwise, binary, elementwise, infer_elementwise, unary
from ..core.primitive import Primitive
from ..core.shape_dtype import canonical_axes
from ..core.test_samples import NONZERO, REAL, UNIT, Domain, Operand, Sample

if TYPE_CHECKING:
    from ..core.primitive import BinaryPrimitive

__all__ = [
    "elu", "gelu", "gelu_grad", "gelu_unit_grad", "log_softmax", "relu", "relu_biased", "relu_grad",
    "sigmoid", "sigmoid_biased", "sigmoid_grad", "silu", "silu_grad", "softmax", "softmax_grad",
    "softplus", "softplus_biased", "softplus_grad", "tanh_biased", "tanh_grad",
]  # fmt: skip

# fmt: off - as in a table, one rule stands beside its name, and several stand below it.

relu = unary(
    "relu", lambda g, ans: ops.relu_grad(g, ans), domains=NONZERO,
    reference=lambda x: np.maximum(x, 0),
    doc="Returns ``max(x, 0)``; its derivative at 0 is 0.",
    example="nn.relu([-2.0, 3.0]) -> [0.0, 3.0]",
)
sigmoid = unary(
    "sigmoid", lambda g, ans: ops.sigmoid_grad(g, ans),
    reference="scipy.special.expit",
    doc="Returns the logistic function ``1 / (1 + exp(-x))``.",
    example="nn.sigmoid([-1e9, 0.0, 1e9]) -> [0.0, 0.5, 1.0]",
)
softplus = unary(
    "softplus", lambda g, ans: ops.softplus_grad(g, ans),
    reference=lambda x: np.logaddexp(x, 0),
    doc="Returns ``log(1 + exp(x))``.", example="nn.softplus([-1e9, 1e9]) -> [0.0, 1000000000.0]",
)
silu = unary(
    "silu", lambda g, x: ops.silu_grad(g, x),
    reference=lambda x: x / (1 + np.exp(-x)),
    doc="Returns ``x * sigmoid(x)``, also known as swish.",
    example="nn.silu([-1e9, 0.0, 1e9]) -> [-0.0, 0.0, 1000000000.0]",
    source="Elfwing, Uchibe and Doya, https://arxiv.org/abs/1702.03118.",
)


def _elu_arguments(x: ArrayLike, alpha: float = 1.0) -> Prepared:
    return (x,), {"alpha": float(alpha)}


def _elu(xp: ArrayModule, x: Buffer, *, alpha: float) -> Buffer:
    # The exponential of negative x alone cannot overflow.
    return xp.where(xp.less(x, 0), alpha * xp.expm1(xp.minimum(x, 0)), x)[()]


elu = elementwise(
    "elu", lambda g, x, *, alpha: g * ops.where(x > 0, 1, alpha * ops.exp(ops.minimum(x, 0))),
    prepare=_elu_arguments, compute=_elu, params=({"alpha": 1.0}, {"alpha": 0.5}), domains=NONZERO,
    reference=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    doc="Returns x where it is positive, and ``alpha * (exp(x) - 1)`` elsewhere.",
    options={"alpha": "the limit for large negative x is minus this; positive."},
    example="nn.elu([-1e9, 3.0], alpha=0.5) -> [-0.5, 3.0]",
    source="Clevert, Unterthiner and Hochreiter, https://arxiv.org/abs/1511.07289.",
)

# -- gelu. Its derivative is a primitive of its own, which backends compute in a few passes.


def _gelu_arguments(x: ArrayLike, approximate: bool = True) -> Prepared:
    return (x,), {"approximate": bool(approximate)}


def _standard_normal_cdf(x: Buffer) -> Any:
    return 0.5 * np.vectorize(math.erfc, otypes="d")(np.multiply(x, -math.sqrt(0.5)))


def _gelu_by_tanh(x: Buffer) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_reference(x: Buffer, approximate: bool) -> Buffer:
    value = _gelu_by_tanh(x) if approximate else x * _standard_normal_cdf(x)
    return np.asarray(value, np.result_type(x))


def gelu_grad_reference(x: Buffer, approximate: bool) -> Buffer:
    """Returns the derivative of gelu, with which the tests compare."""
    if approximate:
        # A complex step gives the derivative without loss of digits.
        value = np.imag(_gelu_by_tanh(np.asarray(x, complex) + 1e-30j)) / 1e-30
    else:
        value = _standard_normal_cdf(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return np.asarray(value, np.result_type(x))


GELU_SOURCE = "Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415."
GELU_OPTIONS = {
    "approximate": "whether to take the usual approximation, by tanh of a cubic polynomial."
}
BOTH_GELUS = ({"approximate": True}, {"approximate": False})

gelu = elementwise(
    "gelu", lambda g, x, *, approximate: ops.gelu_grad(g, x, approximate),
    prepare=_gelu_arguments, params=BOTH_GELUS, reference=_gelu_reference,
    doc="Returns ``x * P(X <= x)`` of a standard normal X.", options=GELU_OPTIONS,
    example="nn.gelu([-1e9, 0.0, 1e9]) -> [-0.0, 0.0, 1000000000.0]", source=GELU_SOURCE,
)
gelu_unit_grad = elementwise(
    "gelu_unit_grad", lambda g, x, *, approximate: g * gelu_curvature(x, approximate),
    prepare=_gelu_arguments, params=BOTH_GELUS, reference=gelu_grad_reference,
    doc="Returns the derivative of gelu: ``gelu_grad`` in the direction 1.", options=GELU_OPTIONS,
    source=GELU_SOURCE,
)

# -- softmax


def _axes_argument(x: ArrayLike, axis: Axis = -1) -> Prepared:
    shape = shape_of(x)
    return (x,), {"axis": canonical_axes(axis if shape else None, len(shape))}


def _along_samples(*domains: Domain) -> list[Sample]:
    """Returns samples whose operands have one shape."""
    shapes: list[tuple[Shape, Any]] = [
        ((), None), ((4,), -1), ((2, 3), 0), ((2, 3, 4), (0, 2)), ((0, 3), 1), ((2, 0), 0),
    ]
    return [
        Sample(*(Operand(shape, d) for d in domains), **_axes_argument(shape, axis)[1])
        for shape, axis in shapes
    ]


def _sum_along(x: Array, axis: Axes) -> Array:
    total: Array = ops["sum"].bind((x,), {"axis": axis, "keepdims": True, "dtype": None})
    return total


AXIS = {"axis": "the axis or axes whose elements are taken together; None for all of them."}

softmax = along(
    "softmax", lambda g, ans, *, axis: softmax_grad.bind((g, ans), {"axis": axis}),
    jvp=(lambda t, ans, *, axis: softmax_grad.bind((t, ans), {"axis": axis}),),
    prepare=_axes_argument, samples=_along_samples(REAL),
    reference=lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True),
    doc="Returns ``exp(x) / sum(exp(x))``: the probabilities in proportion to ``exp(x)``.",
    options=AXIS,
    example="nn.softmax([0.0, 0.0, -np.inf]) -> [0.5, 0.5, 0.0]",
)


# The derivative of softmax at the value p is linear and symmetric in the direction.
softmax_grad: Primitive = along(
    "softmax_grad",
    lambda g, y, *, axis: softmax_grad.bind((g, y), {"axis": axis}),
    lambda g, x, y, *, axis: g * (x - _sum_along(x * y, axis)) - x * _sum_along(g * y, axis),
    jvp=(
        lambda t, y, *, axis: softmax_grad.bind((t, y), {"axis": axis}),
        lambda t, x, y, *, axis: t * (x - _sum_along(x * y, axis)) - y * _sum_along(x * t, axis),
    ),
    prepare=lambda g, ans, axis=-1: ((g, ans), _axes_argument(g, axis)[1]),
    samples=_along_samples(REAL, REAL),
    reference=lambda g, p, axis: p * (g - np.sum(g * p, axis=axis, keepdims=True)),
    doc="Returns ``y * (x - sum(x * y))``: how softmax changes with its argument where it is y.",
    options={"y": "the softmax, of x's shape."} | AXIS,
)
log_softmax = along(
    "log_softmax", lambda g, ans, *, axis: g - ops.exp(ans) * _sum_along(g, axis),
    jvp=(lambda t, ans, *, axis: t - _sum_along(ops.exp(ans) * t, axis),),
    prepare=_axes_argument, samples=_along_samples(REAL),
    reference=lambda x, axis: x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True)),
    doc="Returns the logarithm of softmax, without its rounding to 0 or 1.",
    options=AXIS,
    example="nn.log_softmax([0.0, -1e9]) -> [0.0, -1000000000.0]",
)


DIRECTION_AND_VALUE = {
    "x": "the direction, or a cotangent.",
    "y": "the function's value where the derivative is taken.",
}
DIRECTION_AND_ARGUMENT = {
    "x": "the direction, or a cotangent.",
    "y": "where the derivative is taken.",
}
SIGMOID_VALUES = Domain(0.1, 0.9)
REAL_DTYPE = np.dtype(float)


def _strong(x: Any, other: Buffer) -> Any:
    """Returns a number in the dtype of the operand beside it, which functions would not keep."""
    if type(x) is float and getattr(other, "dtype", REAL_DTYPE).kind == "f":
        return getattr(other, "dtype", REAL_DTYPE).type(x)
    return x


def _grad_of(name: str, by_y: Callable[..., Array | None], **declared: Any) -> BinaryPrimitive:
    """Declares the derivative of an activation at y in a direction x, in which it is linear."""
    declared.setdefault("arguments", DIRECTION_AND_VALUE)
    grad: BinaryPrimitive = binary(f"{name}_grad", lambda g, y: grad(g, y), by_y, **declared)
    return grad


relu_grad = _grad_of(
    "relu", lambda g: None,
    compute=lambda xp, x, y: xp.where(xp.greater(y, 0), _strong(x, y), 0),
    domains=(REAL, NONZERO),
    reference=lambda x, y: np.where(y > 0, x + 0 * y, 0),
    doc="Returns x where y is positive, 0 elsewhere: the derivative of relu.",
)
sigmoid_grad = _grad_of(
    "sigmoid", lambda g, x, y: g * x * (1 - 2 * y),
    compute=lambda xp, x, y: (1 - y) * y * x,
    reference=lambda x, y: x * (y - y * y),
    domains=(REAL, SIGMOID_VALUES),
    doc="Returns ``x y (1 - y)``: the derivative of sigmoid.",
)
tanh_grad = _grad_of(
    "tanh", lambda g, x, y: g * x * (-2 * y),
    compute=lambda xp, x, y: (1 - y * y) * x,
    reference=lambda x, y: x * (1 - y**2),
    domains=(REAL, UNIT), dtypes="fdD",
    doc="Returns ``x (1 - y^2)``: the derivative of tanh.",
)
softplus_grad = _grad_of(
    "softplus", lambda g, x, y: g * x * ops.exp(-y),
    compute=lambda xp, x, y: xp.expm1(xp.negative(_strong(y, x))) * -x,
    reference=lambda x, y: x * (1 - np.exp(-_strong(y, x))),
    domains=(REAL, Domain(0.1, 3.0)),
    doc="Returns ``x (1 - exp(-y))``: the derivative of softplus.",
)


def _silu_reference(x: Buffer, y: Buffer) -> Buffer:
    y = _strong(y, x)
    out: Buffer = x * (1 + np.exp(-y) * (1 + y)) / (1 + np.exp(-y)) ** 2
    return out


# Beyond this size the second derivative of silu is 0 in all dtypes.
LARGEST_CURVED_SILU = 800.0


def _silu_curvature(x: Array) -> Array:
    x = ops.clip(x, -LARGEST_CURVED_SILU, LARGEST_CURVED_SILU)
    s, rest = ops.sigmoid(x), ops.sigmoid(-x)
    return s * rest * (2 + x * (rest - s))


silu_grad = _grad_of(
    "silu", lambda g, x, y: g * x * _silu_curvature(y),
    reference=_silu_reference,
    doc="Returns the derivative of silu at y in the direction x.",
    arguments=DIRECTION_AND_ARGUMENT,
)

# -- gelu

LOG_DENSITY = -0.5 * math.log(2 * math.pi)
LARGEST_CURVED_GELU = 40.0


def gelu_curvature(x: Array, approximate: bool) -> Array:
    """Returns the second derivative of gelu, which is 0 far from 0."""
    x = ops.clip(x, -LARGEST_CURVED_GELU, LARGEST_CURVED_GELU)
    squared = x * x
    if not approximate:
        return (2 - squared) * ops.exp(LOG_DENSITY - 0.5 * squared)
    power = x * (GELU_LINEAR + GELU_CUBIC * squared)
    s, rest = ops.sigmoid(power), ops.sigmoid(-power)
    rise = GELU_LINEAR + 3 * GELU_CUBIC * squared
    return s * rest * (2 * rise + x * ((rest - s) * rise * rise + 6 * GELU_CUBIC * x))


gelu_grad = elementwise(
    "gelu_grad",
    lambda g, y, *, approximate: ops.gelu_grad(g, y, approximate),
    lambda g, x, y, *, approximate: g * x * gelu_curvature(y, approximate),
    prepare=lambda x, y, approximate=True: ((x, y), {"approximate": bool(approximate)}),
    params=BOTH_GELUS,
    compute=lambda xp, x, y, approximate: (
        gelu_unit_grad.impl(_strong(y, x), approximate=approximate) * x
    ),
    reference=lambda x, y, approximate: x * gelu_grad_reference(_strong(y, x), approximate),
    doc="Returns the derivative of gelu at y in the direction x.", arguments=DIRECTION_AND_ARGUMENT,
    options={"approximate": "whether it is that of the usual approximation."},
)

# -- activations of a sum with a bias, the last part of a linear layer


def _biased(name: str, reference: Callable[[Buffer, Buffer], Buffer], **declared: Any) -> Primitive:
    grad = f"{name}_grad"

    def pullback(g: Array, ans: Array) -> tuple[Array, Array]:
        # One cotangent serves both; the bias's is summed down to its shape.
        d = ops[grad](g, ans)
        return d, d

    def pushforward(ts: Sequence[Array], ans: Array) -> Array:
        out: Array = ops[grad](ts[0] + ts[1], ans)
        return out

    return Primitive(
        f"{name}_biased",
        family="elementwise", infer=infer_elementwise, batch=batch_elementwise,
        compute=lambda xp, x, y: ops[name].impl(xp.add(x, y)),
        pullback=pullback,
        pushforward=pushforward,
        broadcasts=True, reference=reference,
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
