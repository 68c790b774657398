"""Normalisation of rows, the heart of layer norm, with its derivative as a primitive of its own."""

from __future__ import annotations

from typing import Any

from .errors import ShapeError, message
from .families import batch_filled
from .primitive import Primitive
from .registry import registry as ops
from .samples import Sample
from .types import ShapeDtype

__all__ = ["normalize", "normalize_slope"]


def _infer(primitive: Primitive, *operands: ShapeDtype, eps: float) -> ShapeDtype:
    x = operands[-1]
    if not x.shape or any(other.shape != x.shape for other in operands):
        shapes = " and ".join(str(other.shape) for other in operands)
        raise ShapeError(
            message(
                f"{primitive.name}: operands of shape {shapes}",
                fix="give arrays of one shape, with at least one axis",
                number=16,
            )
        )
    return ShapeDtype(x.shape, x.dtype if x.dtype.kind == "f" else float)


def _mean(x: Any) -> Any:
    return ops.mean(x, -1, keepdims=True)


def _normal(x: Any, eps: float) -> Any:
    return ops["normalize"].bind((x,), {"eps": eps})


def _slope(g: Any, x: Any, eps: float) -> Any:
    return ops["normalize_slope"].bind((g, x), {"eps": eps})


def _scale(x: Any, eps: float) -> Any:
    """Returns what deviations are multiplied by; its derivative by x is -scale^2 y / length."""
    return ops.reciprocal(ops.sqrt(ops.add(ops.var(x, -1, keepdims=True), eps)))


normalize = Primitive(
    "normalize",
    infer=_infer,
    batch=batch_filled,
    vjp=(lambda g, x, *, eps: _slope(g, x, eps),),
    jvp=(lambda t, x, *, eps: _slope(t, x, eps),),
    reference=lambda x, eps: (x - x.mean(-1, keepdims=True))
    / (x.var(-1, keepdims=True) + eps) ** 0.5,
    samples=[
        Sample((4,), eps=0.1),
        Sample((3, 5), eps=1e-3),
        Sample((2, 3, 4), eps=0.5),
        Sample((0, 4), eps=0.1),
    ],
    doc="""Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis.

    Args:
        x: a real array of at least one axis.
        eps: what is added to the variance.

    Returns:
        An array of x's shape. Ba, Kiros and Hinton, https://arxiv.org/abs/1607.06450.
    """,
)


# With y = normalize(x) and s the scale: s (g - mean(g) - y mean(g y)), which is linear and
# symmetric in g.


def _slope_by_x(h: Any, g: Any, x: Any, eps: float) -> Any:
    y, scale = _normal(x, eps), _scale(x, eps)
    through_scale = y * _mean(h * _slope(g, x, eps))
    through_y = _slope(h * _mean(g * y) + g * _mean(h * y), x, eps)
    return -scale * (through_scale + through_y)


def _slope_along_x(t: Any, g: Any, x: Any, eps: float) -> Any:
    y, scale = _normal(x, eps), _scale(x, eps)
    moved = _slope(t, x, eps)
    through_scale = _mean(y * t) * _slope(g, x, eps)
    return -scale * (through_scale + moved * _mean(g * y) + y * _mean(g * moved))


def _slope_reference(g: Any, x: Any, eps: float) -> Any:
    scale = (x.var(-1, keepdims=True) + eps) ** -0.5
    y = (x - x.mean(-1, keepdims=True)) * scale
    return scale * (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True))


normalize_slope = Primitive(
    "normalize_slope",
    infer=_infer,
    batch=batch_filled,
    vjp=(
        lambda g, y, *, eps: _slope(g, y, eps),
        lambda g, x, y, *, eps: _slope_by_x(g, x, y, eps),
    ),
    jvp=(
        lambda t, y, *, eps: _slope(t, y, eps),
        lambda t, x, y, *, eps: _slope_along_x(t, x, y, eps),
    ),
    reference=_slope_reference,
    samples=[
        Sample((4,), (4,), eps=0.1),
        Sample((3, 5), (3, 5), eps=1e-3),
        Sample((2, 3, 4), (2, 3, 4), eps=0.5),
        Sample((0, 4), (0, 4), eps=0.1),
    ],
    doc="""Returns the derivative of ``normalize`` in a direction, which is its own transpose.

    Args:
        g: the direction, or a cotangent, of x's shape.
        x: where the derivative is taken.
        eps: as for ``normalize``.

    Returns:
        An array of x's shape.
    """,
)
