"""Primitives that no array module has by their name, computed with functions that each has.

NumPy and CuPy have kernels of their own for them. Other backends may take these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ..annotations import ArrayModule, Axes, Buffer, Shape
from ..restoring import quiet
from .portable_windows import WINDOW_KERNELS

__all__ = ["portable"]

ROOT_OF_TWO_PI = math.sqrt(2 * math.pi)
GELU_CUBIC_COEFFICIENT = 0.044715
# Further out the derivative of silu is 0 or 1 in all dtypes.
SILU_TURNS_LINEAR = 800.0


def _portable_sigmoid(xp: ArrayModule, x: Buffer) -> Buffer:
    with quiet():
        return xp.reciprocal(1.0 + xp.exp(-x))


def _portable_silu(xp: ArrayModule, x: Buffer) -> Buffer:
    with quiet():
        return x / (1.0 + xp.exp(-x))


def _portable_silu_grad(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    weak = not hasattr(y, "dtype") and x.dtype.kind == "f"
    y = xp.asarray(y, x.dtype if weak else None)
    y = xp.clip(y, -SILU_TURNS_LINEAR, SILU_TURNS_LINEAR)
    s = _portable_sigmoid(xp, y)
    return s * (1.0 + y * (1.0 - s)) * x


def _cubic(x: Buffer) -> Buffer:
    """Returns what gelu's approximation is x times the sigmoid of."""
    return 2.0 * math.sqrt(2.0 / math.pi) * (x + GELU_CUBIC_COEFFICIENT * (x * x * x))


def _normal_probability(xp: ArrayModule, x: Buffer) -> Buffer:
    return 0.5 * xp.erfc(x * -math.sqrt(0.5))


def _portable_gelu(xp: ArrayModule, x: Buffer, *, approximate: bool) -> Buffer:
    x = 1.0 * x
    return x * (_portable_sigmoid(xp, _cubic(x)) if approximate else _normal_probability(xp, x))


def _portable_gelu_unit_grad(xp: ArrayModule, x: Buffer, *, approximate: bool) -> Buffer:
    x = 1.0 * x
    if not approximate:
        return _normal_probability(xp, x) + x * xp.exp(-0.5 * x * x) / ROOT_OF_TWO_PI
    s = _portable_sigmoid(xp, _cubic(x))
    rise = 2.0 * math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * GELU_CUBIC_COEFFICIENT * x * x)
    return s + x * (s * (1.0 - s)) * rise


def _portable_log_ratio(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    with quiet():
        difference = xp.subtract(x, y)
    lower = xp.minimum(x, 0).astype(difference.dtype)
    return xp.where(xp.equal(x, y) & xp.isinf(y), lower, difference)


def _portable_logsumexp(xp: ArrayModule, x: Buffer, *, axis: Axes, keepdims: bool) -> Buffer:
    x = 1.0 * x
    if not all(x.shape[a] for a in axis):
        return xp.log(xp.sum(x, axis=axis, keepdims=keepdims))
    highest = xp.max(x, axis=axis, keepdims=True)
    highest = xp.where(xp.isfinite(highest), highest, 0)
    total = xp.log(xp.sum(xp.exp(x - highest), axis=axis, keepdims=keepdims))
    return total + (highest if keepdims else xp.reshape(highest, total.shape))


def _portable_log_softmax(xp: ArrayModule, x: Buffer, *, axis: Axes) -> Buffer:
    return x - _portable_logsumexp(xp, x, axis=axis, keepdims=True)


def _portable_softmax_grad(xp: ArrayModule, x: Buffer, y: Buffer, *, axis: Axes) -> Buffer:
    return xp.multiply(y, x - xp.sum(x * y, axis=axis, keepdims=True))


def _onehot(xp: ArrayModule, x: Buffer, labels: Buffer) -> Buffer:
    return xp.equal(xp.arange(x.shape[-1]), labels[..., None])


def _portable_cross_entropy(xp: ArrayModule, x: Buffer, labels: Buffer) -> Buffer:
    if ((labels < 0) | (labels >= x.shape[-1])).any():
        raise IndexError(f"a label is none of the {x.shape[-1]} classes")
    picked = xp.sum(xp.where(_onehot(xp, x, labels), x, 0), axis=(x.ndim - 1,))
    return _portable_logsumexp(xp, x, axis=(x.ndim - 1,), keepdims=False) - picked


def _portable_cross_entropy_grad(
    xp: ArrayModule, x: Buffer, loss: Buffer, g: Buffer, labels: Buffer
) -> Buffer:
    onehot = _onehot(xp, x, labels)
    total = loss + xp.sum(xp.where(onehot, x, 0), axis=(x.ndim - 1,))
    errors = xp.exp(x - total[..., None]) - onehot.astype(x.dtype)
    return xp.multiply(g[..., None], errors)


def _centered(xp: ArrayModule, x: Buffer, center: bool) -> Buffer:
    return x - xp.mean(x, axis=(x.ndim - 1,), keepdims=True) if center else x


def _inverse_spread(xp: ArrayModule, x: Buffer, eps: float) -> Buffer:
    return xp.reciprocal(xp.sqrt(xp.mean(x * x, axis=(x.ndim - 1,), keepdims=True) + eps))


def _portable_normalize(xp: ArrayModule, x: Buffer, *, eps: float, center: bool) -> Buffer:
    x = _centered(xp, x, center)
    return x * _inverse_spread(xp, x, eps)


def _portable_normalize_grad(
    xp: ArrayModule, g: Buffer, x: Buffer, *, eps: float, center: bool
) -> Buffer:
    scale = _inverse_spread(xp, _centered(xp, x, center), eps)
    y = _centered(xp, x, center) * scale
    along = xp.mean(g * y, axis=(x.ndim - 1,), keepdims=True)
    return xp.multiply(_centered(xp, g, center) - y * along, scale)


def _portable_affine_normalize(
    xp: ArrayModule, x: Buffer, weight: Buffer, *bias: Buffer, **params: Any
) -> Buffer:
    shape = (*weight.shape[:-1], *(1,) * (x.ndim - weight.ndim), weight.shape[-1])
    out = _portable_normalize(xp, x, **params) * xp.reshape(weight, shape)
    return out + xp.reshape(bias[0], shape) if bias else out


def _portable_affine_normalize_grad(
    xp: ArrayModule, g: Buffer, x: Buffer, weight: Buffer, *, bias: bool, **params: Any
) -> Buffer:
    groups = x.shape[: weight.ndim - 1]
    rows = (*groups, math.prod(x.shape[weight.ndim - 1 : -1]), x.shape[-1])
    g, x = xp.reshape(g, rows), xp.reshape(x, rows)
    parts = [_portable_normalize_grad(xp, g * weight[..., None, :], x, **params)]
    totals = [g * _portable_normalize(xp, x, **params), *([g] if bias else [])]
    parts += [xp.sum(total, axis=(total.ndim - 2,), keepdims=True) for total in totals]
    return xp.concatenate(parts, axis=len(rows) - 2)


def _portable_scatter_add(xp: ArrayModule, *operands: Any, shape: Shape, keys: Any) -> Buffer:
    out = xp.zeros(shape, operands[0].dtype)
    add: Any = xp.add
    start = len(keys)
    for key, values in zip(keys, operands, strict=False):
        indices = operands[start : start + key.arrays]
        add.at(out, key.fill(indices), xp.asarray(values))
        start += key.arrays
    return out


def portable(xp: ArrayModule) -> dict[str, Callable[..., Buffer]]:
    """Returns the kernels over an array module, by the primitives' names."""
    kernels = PORTABLE_KERNELS | WINDOW_KERNELS
    return {name: partial(kernel, xp) for name, kernel in kernels.items()}


PORTABLE_KERNELS: dict[str, Callable[..., Buffer]] = {
    "affine_normalize": _portable_affine_normalize,
    "affine_normalize_grad": _portable_affine_normalize_grad,
    "cross_entropy": _portable_cross_entropy,
    "cross_entropy_grad": _portable_cross_entropy_grad,
    "gelu": _portable_gelu,
    "gelu_unit_grad": _portable_gelu_unit_grad,
    "log_ratio": _portable_log_ratio,
    "log_softmax": _portable_log_softmax,
    "logsumexp": _portable_logsumexp,
    "normalize": _portable_normalize,
    "normalize_grad": _portable_normalize_grad,
    "relu": lambda xp, x: xp.maximum(x, 0),
    "scatter_add": _portable_scatter_add,
    "sigmoid": _portable_sigmoid,
    "silu": _portable_silu,
    "silu_grad": _portable_silu_grad,
    "softmax": lambda xp, x, *, axis: xp.exp(_portable_log_softmax(xp, x, axis=axis)),
    "softmax_grad": _portable_softmax_grad,
    "softplus": lambda xp, x: xp.logaddexp(x, 0),
}
