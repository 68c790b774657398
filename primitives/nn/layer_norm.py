"""Normalisation of rows, with weights and without; its derivatives are primitives of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...backends.annotations import Buffer, Shape
from ..core.annotations import Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import batch_filled
from ..core.primitive import Primitive
from ..core.shape_dtype import REAL, ShapeDtype, result_type
from ..core.test_samples import Sample

__all__ = ["affine_normalize", "affine_normalize_grad", "normalize", "normalize_grad"]


def _infer_normalize(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
    x = operands[-1]
    if not x.shape or any(other.shape != x.shape for other in operands):
        shapes = " and ".join(str(other.shape) for other in operands)
        raise misfit(
            f"{primitive.name}: operands of shape {shapes}",
            "give arrays of one shape, with at least one axis",
        )
    return ShapeDtype(x.shape, x.dtype if x.dtype.kind in REAL else float)


def _row_mean(x: Array) -> Array:
    return ops.mean(x, -1, keepdims=True)


def _normalized_rows(x: Array, eps: float, center: bool) -> Array:
    return normalize.bind((x,), {"eps": eps, "center": center})


def _normalize_grad(g: Array, x: Array, eps: float, center: bool) -> Array:
    return normalize_grad.bind((g, x), {"eps": eps, "center": center})


def _scale(x: Array, eps: float, center: bool) -> Array:
    """Returns the factor of deviations, whose derivative by x is -scale^2 y / length."""
    spread = ops.var(x, -1, keepdims=True) if center else _row_mean(ops.square(x))
    return ops.reciprocal(ops.sqrt(ops.add(spread, eps)))


def _normalize_reference(x: Buffer, eps: float, center: bool) -> Buffer:
    x = x - x.mean(-1, keepdims=True) if center else x
    out: Buffer = x / ((x * x).mean(-1, keepdims=True) + eps) ** 0.5
    return out


normalize = Primitive(
    "normalize",
    infer=_infer_normalize, batch=batch_filled,
    vjp=(lambda g, x, *, eps, center: _normalize_grad(g, x, eps, center),),
    jvp=(lambda t, x, *, eps, center: _normalize_grad(t, x, eps, center),),
    reference=_normalize_reference,
    samples=[
        Sample((4,), eps=0.1, center=True), Sample((3, 5), eps=1e-3, center=True),
        Sample((2, 3, 4), eps=0.5, center=False), Sample((0, 4), eps=0.1, center=True),
    ],
    doc="""Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis.

    Args:
        x: a real array of at least one axis.
        eps: a number that is added to the variance.
        center: False for ``x / sqrt(mean(x * x) + eps)``, which leaves the mean where it is.

    Returns:
        An array of x's shape. Ba, Kiros and Hinton, https://arxiv.org/abs/1607.06450.
    """,
)


# With y = normalize(x) and s the scale the derivative is s (g - mean(g) - y mean(g y)), linear and
# symmetric in g. Without centring, mean(g) is left out.


def _normalize_grad_vjp_x(h: Array, g: Array, x: Array, eps: float, center: bool) -> Array:
    y, scale = _normalized_rows(x, eps, center), _scale(x, eps, center)
    through_scale = y * _row_mean(h * _normalize_grad(g, x, eps, center))
    through_y = _normalize_grad(h * _row_mean(g * y) + g * _row_mean(h * y), x, eps, center)
    return -scale * (through_scale + through_y)


def _normalize_grad_jvp_x(t: Array, g: Array, x: Array, eps: float, center: bool) -> Array:
    y, scale = _normalized_rows(x, eps, center), _scale(x, eps, center)
    moved = _normalize_grad(t, x, eps, center)
    through_scale = _row_mean(y * t) * _normalize_grad(g, x, eps, center)
    return -scale * (through_scale + moved * _row_mean(g * y) + y * _row_mean(g * moved))


def _normalize_grad_reference(g: Buffer, x: Buffer, eps: float, center: bool) -> Buffer:
    y = _normalize_reference(x, eps, center)
    spread = x.var(-1, keepdims=True) if center else (x * x).mean(-1, keepdims=True)
    out = g - y * (g * y).mean(-1, keepdims=True)
    moved: Buffer = (out - g.mean(-1, keepdims=True) if center else out) * (spread + eps) ** -0.5
    return moved


normalize_grad = Primitive(
    "normalize_grad",
    infer=_infer_normalize, batch=batch_filled,
    vjp=(
        lambda g, y, *, eps, center: _normalize_grad(g, y, eps, center),
        lambda g, x, y, *, eps, center: _normalize_grad_vjp_x(g, x, y, eps, center),
    ),
    jvp=(
        lambda t, y, *, eps, center: _normalize_grad(t, y, eps, center),
        lambda t, x, y, *, eps, center: _normalize_grad_jvp_x(t, x, y, eps, center),
    ),
    reference=_normalize_grad_reference,
    samples=[
        Sample((4,), (4,), eps=0.1, center=True), Sample((3, 5), (3, 5), eps=1e-3, center=False),
        Sample((2, 3, 4), (2, 3, 4), eps=0.5, center=True),
        Sample((0, 4), (0, 4), eps=0.1, center=True),
    ],
    doc="""Returns the derivative of ``normalize`` in a direction, which is its own transpose.

    Args:
        g: the direction, or a cotangent, of x's shape.
        x: where the derivative is taken.
        eps, center: as for ``normalize``.

    Returns:
        An array of x's shape.
    """,
)

# -- with weights


def _infer_affine(
    primitive: Primitive, x: ShapeDtype, *affine: ShapeDtype, **params: Any
) -> ShapeDtype:
    weight = affine[0]
    groups = len(weight.shape) - 1
    shape = x.shape[:groups] + x.shape[-1:]
    if not len(x.shape) > groups >= 0 or any(other.shape != shape for other in affine):
        shapes = " and ".join(str(other.shape) for other in affine)
        raise misfit(
            f"{primitive.name}: weights of shape {shapes} for rows of shape {x.shape}",
            f"give one weight for each element of a row: shape {x.shape[-1:]}",
        )
    own = _infer_normalize(primitive, x).dtype
    return ShapeDtype(x.shape, result_type(own, *(other.dtype for other in affine)))


def _infer_affine_grad(
    primitive: Primitive, g: ShapeDtype, *operands: ShapeDtype, bias: bool, **params: Any
) -> ShapeDtype:
    x, weight = operands
    out = _infer_affine(primitive, x, weight, **params)
    _infer_normalize(primitive, g, x)
    groups, rows = _groups_and_rows(x.shape, weight.shape)
    return ShapeDtype((*groups, rows + 1 + bias, x.shape[-1]), out.dtype)


def _groups_and_rows(shape: Shape, weight: Shape) -> tuple[Shape, int]:
    """Returns the first axes, which the weights have too, and how many rows share one weight."""
    groups = len(weight) - 1
    return shape[:groups], prod(shape[groups:-1])


def _over_rows(weight: Array, shape: Shape) -> Array:
    """Returns weights in a shape that broadcasts against the rows."""
    own = shape_of(weight)
    return ops.reshape(weight, (*own[:-1], *(1,) * (len(shape) - len(own)), own[-1]))


def _weight_total(values: Array, weight: Array) -> Array:
    """Returns the sum over the rows that share a weight."""
    first, last = len(shape_of(weight)) - 1, len(shape_of(values)) - 1
    return ops.sum(values, axis=tuple(range(first, last)))


def _packed(by_x: Array, *totals: Array) -> Array:
    """Returns the cotangents of rows and, behind them as rows too, those of their weights."""
    groups, rows = _groups_and_rows(shape_of(by_x), shape_of(totals[0]))
    length = shape_of(by_x)[-1]
    parts = [ops.reshape(by_x, (*groups, rows, length))]
    parts += [ops.reshape(total, (*groups, 1, length)) for total in totals]
    return ops.concatenate(parts, axis=-2)


def _taken_apart(packed: Array, x: Array, weight: Array, bias: bool) -> list[Array]:
    shape = shape_of(x)
    _, rows = _groups_and_rows(shape, shape_of(weight))
    parts = [ops.reshape(packed[..., :rows, :], shape), packed[..., rows, :]]
    return [*parts, packed[..., rows + 1, :]] if bias else parts


def _affine_pullback(g: Array, xs: Sequence[Array], *, eps: float, center: bool) -> list[Array]:
    x, weight, *bias = xs
    params = {"eps": eps, "center": center, "bias": bool(bias)}
    return _taken_apart(affine_normalize_grad.bind((g, x, weight), params), x, weight, bool(bias))


def _affine_pushforward(
    ts: Sequence[Array], xs: Sequence[Array], *, eps: float, center: bool
) -> Array:
    x, weight, *_ = xs
    t, by_weight, *by_bias = ts
    shape = shape_of(x)
    out = _normalize_grad(t, x, eps, center) * _over_rows(weight, shape)
    out = out + _normalized_rows(x, eps, center) * _over_rows(by_weight, shape)
    return out + _over_rows(by_bias[0], shape) if by_bias else out


def _batch_affine(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    """Examples are more rows where the weights are the same for all of them."""
    if not any(flags[1:]) and len(shape_of(values[1])) == 1:
        return primitive.bind(values, params)
    return batch_filled(primitive, values, flags, params)


def _affine_reference(x: Buffer, weight: Buffer, *bias: Buffer, eps: float, center: bool) -> Buffer:
    shape = (*weight.shape[:-1], *(1,) * (x.ndim - weight.ndim), weight.shape[-1])
    out = _normalize_reference(x, eps, center) * weight.reshape(shape)
    return out + bias[0].reshape(shape) if bias else out


affine_normalize = Primitive(
    "affine_normalize",
    infer=_infer_affine, batch=_batch_affine,
    pullback=_affine_pullback,
    pushforward=_affine_pushforward,
    reference=_affine_reference,
    samples=[
        Sample((4,), (4,), eps=0.1, center=True), Sample((3, 5), (5,), (5,), eps=1e-3, center=True),
        Sample((2, 3, 4), (4,), eps=0.5, center=False),
        Sample((2, 3, 4), (2, 4), (2, 4), eps=0.5, center=True),
        Sample((0, 4), (4,), (4,), eps=0.1, center=True),
    ],
    doc="""Returns ``normalize(x) * weight + bias``: layer norm, or RMS norm.

    Args:
        x: a real array of at least one axis.
        weight: an array of the last axis's length; or one for each group of rows, with x's first
            axes in front.
        bias: an array of the weight's shape; may be left out.
        eps, center: as for ``normalize``.

    Returns:
        An array of x's shape.

    Raises:
        ShapeError: the shapes do not fit.
    """,
)


def _affine_grad_pullback(
    h: Array, xs: Sequence[Array], *, eps: float, center: bool, bias: bool
) -> list[Array]:
    g, x, weight = xs
    shape = shape_of(x)
    by_x, *totals = _taken_apart(h, x, weight, bias)
    by_weight = _over_rows(totals[0], shape)
    spread = _over_rows(weight, shape)
    along = _normalize_grad(by_x, x, eps, center)
    by_g = along * spread + by_weight * _normalized_rows(x, eps, center)
    if bias:
        by_g = by_g + _over_rows(totals[1], shape)
    second = _normalize_grad_vjp_x(by_x, g * spread, x, eps, center)
    second = second + _normalize_grad(g * by_weight, x, eps, center)
    return [by_g, second, _weight_total(along * g, weight)]


def _affine_grad_pushforward(
    ts: Sequence[Array], xs: Sequence[Array], *, eps: float, center: bool, bias: bool
) -> Array:
    g, x, weight = xs
    by_g, by_x, by_weight = ts
    shape = shape_of(x)
    spread = _over_rows(weight, shape)
    scaled = by_g * spread + g * _over_rows(by_weight, shape)
    rows = _normalize_grad(scaled, x, eps, center)
    rows = rows + _normalize_grad_jvp_x(by_x, g * spread, x, eps, center)
    products = by_g * _normalized_rows(x, eps, center) + g * _normalize_grad(by_x, x, eps, center)
    totals = [_weight_total(products, weight)]
    return _packed(rows, *totals, *([_weight_total(by_g, weight)] if bias else []))


def _affine_grad_reference(
    g: Buffer, x: Buffer, weight: Buffer, eps: float, center: bool, bias: bool
) -> Buffer:
    groups, rows = _groups_and_rows(x.shape, weight.shape)
    g, x = (v.reshape(*groups, rows, x.shape[-1]) for v in (g, x))
    parts = [_normalize_grad_reference(g * weight[..., None, :], x, eps, center)]
    parts.append(np.sum(g * _normalize_reference(x, eps, center), axis=-2, keepdims=True))
    return np.concatenate([*parts, *([g.sum(axis=-2, keepdims=True)] if bias else [])], axis=-2)


affine_normalize_grad = Primitive(
    "affine_normalize_grad",
    infer=_infer_affine_grad, batch=batch_filled,
    pullback=_affine_grad_pullback,
    pushforward=_affine_grad_pushforward,
    reference=_affine_grad_reference,
    samples=[
        Sample((4,), (4,), (4,), eps=0.1, center=True, bias=False),
        Sample((3, 5), (3, 5), (5,), eps=1e-2, center=True, bias=True),
        Sample((2, 3, 4), (2, 3, 4), (4,), eps=0.5, center=False, bias=False),
        Sample((2, 3, 4), (2, 3, 4), (2, 4), eps=0.5, center=True, bias=True),
        Sample((0, 4), (0, 4), (4,), eps=0.1, center=True, bias=True),
    ],
    doc="""Returns the cotangents that ``affine_normalize`` pulls back, all in one array.

    Args:
        g: the cotangent of its result.
        x, weight, eps, center: as for ``affine_normalize``.
        bias: whether there was one.

    Returns:
        An array of shape ``(*groups, rows + 1 + bias, length)``: the cotangents of the rows, and
        behind them that of their weight and that of their bias.
    """,
)
