"""The cross entropy of integer labels: a reduction whose derivative is one pass over the logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...backends.annotations import Buffer
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import batch_filled
from ..core.primitive import Primitive
from ..core.shape_dtype import REAL, ShapeDtype
from ..core.test_samples import Domain, Operand, Sample

__all__ = ["cross_entropy", "cross_entropy_grad"]


def _infer_cross_entropy(primitive: Primitive, x: ShapeDtype, labels: ShapeDtype) -> ShapeDtype:
    if not x.shape or x.shape[:-1] != labels.shape:
        raise misfit(
            f"{primitive.name}: labels of shape {labels.shape} for logits of shape {x.shape}",
            "give one label for each row of logits: their shape without the last axis",
        )
    return ShapeDtype(labels.shape, x.dtype if x.dtype.kind in REAL else np.float64)


def _infer_cross_entropy_grad(
    primitive: Primitive, x: ShapeDtype, loss: ShapeDtype, g: ShapeDtype, labels: ShapeDtype
) -> ShapeDtype:
    return ShapeDtype(x.shape, _infer_cross_entropy(primitive, x, labels).dtype)


def _row(v: Array) -> Array:
    """Returns values that belong to rows with an axis for the classes."""
    return ops.reshape(v, (*shape_of(v), 1))


def _class_total(x: Array) -> Array:
    return ops.sum(x, axis=-1)


def _at_labels(x: Array, labels: Array) -> Array:
    """Returns the elements of the labels."""
    return ops.reshape(ops.take_along_axis(x, _row(labels), axis=-1), shape_of(labels))


def _probabilities(x: Array, loss: Array, labels: Array) -> Array:
    return ops.exp(ops.subtract(x, _row(ops.add(loss, _at_labels(x, labels)))))


def _less_at_labels(x: Array, total: Array, labels: Array) -> Array:
    """Returns an array with a number for every row subtracted at its label."""
    places = beside(x, np.arange(shape_of(x)[-1]))
    return ops.subtract(x, ops.where(ops.equal(_row(labels), places), _row(total), 0))


def _cross_entropy_jvp(t: Array, ans: Array, x: Array, y: Array) -> Array:
    return ops.subtract(_class_total(ops.multiply(t, _probabilities(x, ans, y))), _at_labels(t, y))


cross_entropy = Primitive(
    "cross_entropy",
    movable=slice(1, 2), infer=_infer_cross_entropy, batch=batch_filled,
    vjp=(lambda g, ans, x, y: ops.cross_entropy_grad.bind((x, ans, g, y), {}), None),
    jvp=(_cross_entropy_jvp, None),
    reference=lambda x, y: np.log(np.sum(np.exp(x), axis=-1))
    - np.take_along_axis(np.asarray(x), np.asarray(y)[..., None], -1)[..., 0],
    samples=[
        Sample(Operand((*rows, 4)), Operand(rows, Domain(0, 3, kind="i")))
        for rows in [(), (3,), (2, 3), (0,)]
    ],
    doc="""Returns the cross entropy of integer labels: ``logsumexp(x) - x[label]`` in every row.

    Args:
        x: logits, with the classes on the last axis.
        y: integers from 0 up to the number of classes, of x's shape without that axis.

    Returns:
        An array of y's shape.

    Raises:
        IndexError: a label is none of the classes.
        ShapeError: the shapes do not fit.
    """,
)


def _cross_entropy_grad_pullback(g: Array, xs: Sequence[Array]) -> list[Array | None]:
    x, loss, scale, labels = xs
    weighted = ops.multiply(g, _probabilities(x, loss, labels))
    by_scale = ops.subtract(_class_total(weighted), _at_labels(g, labels))
    by_logit = ops.multiply(weighted, _row(scale))
    by_row = _class_total(by_logit)
    return [_less_at_labels(by_logit, by_row, labels), ops.negative(by_row), by_scale, None]


def _cross_entropy_grad_pushforward(ts: Sequence[Array], xs: Sequence[Array]) -> Array:
    x, loss, scale, labels = xs
    by_x, by_loss, by_scale, _ = ts
    probabilities = _probabilities(x, loss, labels)
    moved = ops.subtract(by_x, _row(ops.add(by_loss, _at_labels(by_x, labels))))
    growth = ops.add(ops.multiply(_row(scale), moved), _row(by_scale))
    return _less_at_labels(ops.multiply(probabilities, growth), by_scale, labels)


def _cross_entropy_grad_reference(x: Buffer, loss: Buffer, g: Buffer, labels: Buffer) -> Buffer:
    onehot = np.arange(np.shape(x)[-1]) == np.asarray(labels)[..., None]
    picked = np.sum(np.where(onehot, x, 0), axis=-1)
    out: Buffer = np.exp(x - (loss + picked)[..., None]) - onehot
    return np.asarray(g)[..., None] * out


cross_entropy_grad = Primitive(
    "cross_entropy_grad",
    movable=slice(3, 4), infer=_infer_cross_entropy_grad, batch=batch_filled,
    pullback=_cross_entropy_grad_pullback,
    pushforward=_cross_entropy_grad_pushforward,
    reference=_cross_entropy_grad_reference,
    samples=[
        Sample(Operand((*rows, 4)), rows, rows, Operand(rows, Domain(0, 3, kind="i")))
        for rows in [(), (3,), (2, 3), (0,)]
    ],
    doc="""Returns the derivative of ``cross_entropy`` by the logits, as a cotangent.

    Args:
        x: logits, with the classes on the last axis.
        loss: the result of ``cross_entropy``, from which softmax follows without another sum.
        g: the cotangent of the loss.
        labels: the labels.

    Returns:
        ``g * (softmax(x) - onehot(labels))``, an array of x's shape.
    """,
)
