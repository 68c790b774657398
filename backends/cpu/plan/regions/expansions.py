"""Primitives as steps of ufuncs and row sums, so that blocks need no memory of their own.

Elementwise ones give the same bits as the functions that compute them by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...activations import CUBIC, LINEAR, LOWEST, STEEP
from .steps import Steps, Value

if TYPE_CHECKING:
    from ....annotations import Axes

__all__ = ["BY_ELEMENT", "BY_ROW"]


# -- elementwise: of values of one dtype, single or double


def _tanh_derivative(emit: Steps, x: Value, y: Value) -> Value:
    squared = emit.ufunc("multiply", y, y)
    return emit.ufunc("multiply", emit.ufunc("subtract", 1, squared), x)


def _sigmoid_derivative(emit: Steps, x: Value, y: Value) -> Value:
    rise = emit.ufunc("multiply", emit.ufunc("subtract", 1, y), y)
    return emit.ufunc("multiply", rise, x)


def _softplus_derivative(emit: Steps, x: Value, y: Value) -> Value:
    fall = emit.ufunc("expm1", emit.ufunc("negative", y))
    return emit.ufunc("multiply", fall, emit.ufunc("negative", x))


def _relu_derivative(emit: Steps, x: Value, y: Value) -> Value:
    return emit.masked(emit.ufunc("greater", y, emit.number(0, y), dtype=np.dtype(bool)), x)


def _sigmoid(emit: Steps, x: Value) -> Value:
    power = emit.ufunc("exp", emit.ufunc("negative", x))
    return emit.ufunc("reciprocal", emit.ufunc("add", power, 1.0))


def _relu(emit: Steps, x: Value) -> Value:
    return emit.ufunc("clip", x, 0, np.inf)


def _tanh_biased(emit: Steps, x: Value, y: Value) -> Value:
    return emit.ufunc("tanh", emit.ufunc("add", x, y))


def _sigmoid_biased(emit: Steps, x: Value, y: Value) -> Value:
    return _sigmoid(emit, emit.ufunc("add", x, y))


def _relu_biased(emit: Steps, x: Value, y: Value) -> Value:
    return _relu(emit, emit.ufunc("add", x, y))


def _silu(emit: Steps, x: Value) -> Value:
    rest = emit.ufunc("add", emit.ufunc("exp", emit.ufunc("negative", x)), 1.0)
    return emit.ufunc("divide", emit.ufunc("clip", x, LOWEST[x.dtype.char], np.inf), rest)


def _softplus(emit: Steps, x: Value) -> Value:
    rest = emit.ufunc("exp", emit.ufunc("negative", emit.ufunc("absolute", x)))
    return emit.ufunc("add", emit.ufunc("clip", x, 0.0, np.inf), emit.ufunc("log1p", rest))


def _gelu(emit: Steps, x: Value, *, approximate: bool) -> Value | None:
    if not approximate:
        return None
    power = emit.ufunc("multiply", emit.ufunc("multiply", x, x), -CUBIC)
    power = emit.ufunc("multiply", emit.ufunc("subtract", power, LINEAR), x)
    rest = emit.ufunc("add", emit.ufunc("exp", power), 1.0)
    return emit.ufunc("divide", emit.ufunc("clip", x, LOWEST[x.dtype.char], np.inf), rest)


def _gelu_derivative(emit: Steps, x: Value, y: Value, *, approximate: bool) -> Value | None:
    if not approximate:
        return None
    limit = STEEP[y.dtype.char]
    bounded = emit.ufunc("clip", y, -limit, limit)
    squared = emit.ufunc("multiply", bounded, bounded)
    power = emit.ufunc("subtract", emit.ufunc("multiply", squared, -CUBIC), LINEAR)
    odds = emit.ufunc("exp", emit.ufunc("multiply", power, bounded))
    share = emit.ufunc("reciprocal", emit.ufunc("add", odds, 1.0))
    rise = emit.ufunc("add", emit.ufunc("multiply", squared, 3.0 * CUBIC), LINEAR)
    rise = emit.ufunc("multiply", rise, bounded)
    rise = emit.ufunc("multiply", rise, emit.ufunc("multiply", odds, share))
    slope = emit.ufunc("multiply", share, emit.ufunc("add", rise, 1.0))
    return emit.ufunc("multiply", slope, x)


def _logistic_density(emit: Steps, x: Value) -> Value:
    return emit.ufunc("multiply", _sigmoid(emit, x), _sigmoid(emit, emit.ufunc("negative", x)))


def _logistic_loss(emit: Steps, x: Value, y: Value) -> Value:
    rest = emit.ufunc("exp", emit.ufunc("negative", emit.ufunc("absolute", x)))
    left = emit.ufunc("subtract", emit.ufunc("clip", x, 0.0, np.inf), emit.ufunc("multiply", x, y))
    return emit.ufunc("add", left, emit.ufunc("log1p", rest))


def _one_less_square(emit: Steps, x: Value) -> Value:
    return emit.ufunc("multiply", emit.ufunc("subtract", 1.0, x), emit.ufunc("add", x, 1.0))


def _soft_sign(emit: Steps, x: Value) -> Value:
    return emit.ufunc("divide", x, emit.ufunc("add", emit.ufunc("absolute", x), 1.0))


BY_ELEMENT: dict[str, Callable[..., Value | None]] = {
    "gelu": _gelu,
    "gelu_derivative": _gelu_derivative,
    "logistic": _sigmoid,
    "logistic_density": _logistic_density,
    "logistic_loss": _logistic_loss,
    "one_less_square": _one_less_square,
    "relu": _relu,
    "relu_biased": _relu_biased,
    "relu_derivative": _relu_derivative,
    "sigmoid": _sigmoid,
    "sigmoid_biased": _sigmoid_biased,
    "sigmoid_derivative": _sigmoid_derivative,
    "silu": _silu,
    "soft_sign": _soft_sign,
    "softplus": _softplus,
    "softplus_derivative": _softplus_derivative,
    "tanh_biased": _tanh_biased,
    "tanh_derivative": _tanh_derivative,
}

# -- along rows: of values with all their axes, of one dtype. ``axes`` are joined ones, ``count`` is
# how many elements a row has along them.


def _mean(emit: Steps, axes: Axes, count: int, x: Value) -> Value:
    return emit.ufunc("divide", emit.row_sum(x, axes), count)


def _centred(emit: Steps, axes: Axes, count: int, x: Value) -> Value:
    return emit.ufunc("subtract", x, _mean(emit, axes, count, x))


def _var(
    emit: Steps, axes: Axes, count: int, x: Value, *, axis: Axes, keepdims: bool, ddof: float
) -> Value | None:
    freedom = count - ddof
    if freedom <= 0:
        return None
    deviations = _centred(emit, axes, count, x)
    return emit.ufunc("divide", emit.row_dot(deviations, deviations, axes), freedom)


def _softmax_derivative(
    emit: Steps, axes: Axes, count: int, g: Value, p: Value, *, axis: Axes
) -> Value:
    rest = emit.ufunc("subtract", g, emit.row_dot(g, p, axes))
    return emit.ufunc("multiply", rest, p)


def _softmax(emit: Steps, axes: Axes, count: int, x: Value, *, axis: Axes) -> Value | None:
    return emit.softmax(x, axes)


def _normal(
    emit: Steps, axes: Axes, count: int, x: Value, eps: float, center: bool
) -> tuple[Value, Value]:
    """Returns normalised rows, and what each was multiplied by."""
    deviations = _centred(emit, axes, count, x) if center else x
    spread = emit.ufunc("divide", emit.row_dot(deviations, deviations, axes), count)
    root = emit.ufunc("sqrt", emit.ufunc("add", spread, eps))
    scale = emit.ufunc("divide", 1, root)
    return emit.ufunc("multiply", deviations, scale), scale


def _normalize(
    emit: Steps, axes: Axes, count: int, x: Value, *, eps: float, center: bool
) -> Value:
    return _normal(emit, axes, count, x, eps, center)[0]


def _normalize_slope(
    emit: Steps, axes: Axes, count: int, g: Value, x: Value, *, eps: float, center: bool
) -> Value:
    y, scale = _normal(emit, axes, count, x, eps, center)
    along = emit.ufunc("divide", emit.row_dot(g, y, axes), count)
    rest = _centred(emit, axes, count, g) if center else g
    rest = emit.ufunc("subtract", rest, emit.ufunc("multiply", y, along))
    return emit.ufunc("multiply", rest, scale)


def _affine_normalize(
    emit: Steps, axes: Axes, count: int, x: Value, *affine: Value, eps: float, center: bool
) -> Value:
    out = emit.ufunc("multiply", _normal(emit, axes, count, x, eps, center)[0], affine[0])
    return emit.ufunc("add", out, affine[1]) if affine[1:] else out


BY_ROW: dict[str, Callable[..., Value | None]] = {
    "affine_normalize": _affine_normalize,
    "normalize": _normalize,
    "normalize_slope": _normalize_slope,
    "softmax": _softmax,
    "softmax_derivative": _softmax_derivative,
    "var": _var,
}
