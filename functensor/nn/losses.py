"""Losses: ``mse`` and ``mae`` are scalars, all others have a value for each example."""

from __future__ import annotations

import numpy as np

from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, of_arrays
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe, misfit
from ..primitives.core.shape_dtype import INEXACT, REAL, canonical_axis, result_type
from ..primitives.nn.cross_entropy import cross_entropy

__all__ = [
    "absolute_error", "binary_cross_entropy_with_logits", "cosine_similarity", "hinge", "huber",
    "kl_divergence", "l1", "mae", "mse", "softmax_cross_entropy", "squared_error",
]  # fmt: skip


def _paired(name: str, predictions: ArrayLike, targets: ArrayLike) -> tuple[Array, Array]:
    """Returns both as arrays, once their shapes agree: broadcasting them is never meant."""
    predictions, targets = asarray(predictions), asarray(targets)
    if shape_of(predictions) != shape_of(targets) and shape_of(targets) != ():
        raise misfit(
            f"{name}: predictions of shape {shape_of(predictions)} and targets of shape "
            f"{shape_of(targets)}",
            "give both the same shape, e.g. predictions.reshape(targets.shape)",
        )
    return predictions, targets


# -- regression


@of_arrays
def squared_error(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Returns the squared differences, element by element.

    Args:
        predictions, targets: arrays of the same shape, or a number for a target.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.squared_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 4.0]
    """
    return ops.square(ops.subtract(*_paired("squared_error", predictions, targets)))


@of_arrays
def absolute_error(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Returns the absolute differences, element by element.

    Args:
        predictions, targets: arrays of the same shape, or a number for a target.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.absolute_error([1.0, 2.0], [0.0, 4.0]).tolist()
    [1.0, 2.0]
    """
    return ops.abs(ops.subtract(*_paired("absolute_error", predictions, targets)))


@of_arrays
def mse(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Returns the mean squared error, over all elements.

    Args:
        predictions, targets: arrays of the same shape, or a number for a target.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.mse([1.0, 2.0], [0.0, 4.0]).item()
    2.5
    """
    return ops.mean(ops.square(ops.subtract(*_paired("mse", predictions, targets))))


@of_arrays
def mae(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Returns the mean absolute error, over all elements.

    Args:
        predictions, targets: arrays of the same shape, or a number for a target.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.mae([1.0, 2.0], [0.0, 4.0]).item()
    1.5
    """
    return ops.mean(ops.abs(ops.subtract(*_paired("mae", predictions, targets))))


l1 = mae


@of_arrays
def huber(predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0) -> Array:
    """Returns half the squared difference where it is small, and a linear function beyond.

    Huber, "Robust estimation of a location parameter", 1964.

    Args:
        predictions, targets: arrays of the same shape, or a number for a target.
        delta: the difference at which it becomes linear, with this slope.

    Returns:
        An array of the predictions' shape.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.huber([0.5, 3.0], [0.0, 0.0]).tolist()
    [0.125, 2.5]
    """
    error = ops.subtract(*_paired("huber", predictions, targets))
    size = ops.abs(error)
    is_near = ops.less(size, delta)
    # The error with its sign: its size has no second derivative at zero.
    near = ops.multiply(ops.square(ops.where(is_near, error, 0)), 0.5)
    far = ops.multiply(ops.subtract(size, 0.5 * delta), delta)
    return ops.where(is_near, near, far)


# -- classification


@of_arrays
def softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: int = -1) -> Array:
    """Returns the cross entropy of labels under the distribution softmax(logits).

    Args:
        logits: an array; its classes stand on one axis.
        labels: either integers from 0 up to the number of classes, of the logits' shape without
            that axis, or distributions over the classes: real numbers of the logits' shape.
        axis: the axis of the classes.

    Returns:
        ``-sum(labels * log_softmax(logits))`` over that axis: an array without it.

    Raises:
        IndexError: an integer label is none of the classes.
        ShapeError: the labels' shape or dtype is neither.

    >>> from functensor import nn
    >>> nn.softmax_cross_entropy([[0.0, 0.0], [0.0, 1e9]], [0, 1]).tolist()
    [0.6931471805599453, 0.0]
    >>> nn.softmax_cross_entropy([[0.0, 0.0]], [[0.5, 0.5]]).tolist()
    [0.6931471805599453]
    """
    logits, labels = asarray(logits), asarray(labels)
    rank = len(logits.shape)
    axis = canonical_axis(axis, rank)
    rest = logits.shape[:axis] + logits.shape[axis + 1 :]
    kind = labels.dtype.kind
    if kind in "iu" and labels.shape == rest:
        if axis != rank - 1:
            logits = ops.moveaxis(logits, axis, -1)
        return cross_entropy.bind((logits, labels), {})
    if kind in REAL and labels.shape == logits.shape:
        return ops.negative(ops.sum(ops.multiply(labels, ops.log_softmax(logits, axis)), axis=axis))
    raise misfit(
        f"softmax_cross_entropy: labels {describe(labels)} for logits {describe(logits)} with "
        f"the classes on axis {axis}",
        f"give integers of shape {rest}, or floats of shape {logits.shape} "
        "(nn.one_hot makes them of integers)",
    )


@of_arrays
def binary_cross_entropy_with_logits(logits: ArrayLike, labels: ArrayLike) -> Array:
    """Returns the cross entropy of labels under the probability sigmoid(logits).

    Args:
        logits: an array.
        labels: probabilities, 0 and 1 above all, of the same shape; booleans and integers too.

    Returns:
        ``-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))`` for each
        element, without overflow.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.binary_cross_entropy_with_logits([0.0, 1e9], [1.0, 1.0]).tolist()
    [0.6931471805599453, 0.0]
    """
    name = "binary_cross_entropy_with_logits"
    logits, labels = _paired(name, logits, labels)
    if labels.dtype.kind not in INEXACT and logits.dtype.kind in REAL:
        labels = ops.astype(labels, logits.dtype)
    return ops.logistic_loss(logits, labels)


@of_arrays
def hinge(scores: ArrayLike, signs: ArrayLike) -> Array:
    """Returns ``max(0, 1 - signs * scores)``, element by element.

    Args:
        scores: an array.
        signs: labels of the same shape, 1 and -1.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> nn.hinge([0.5, 2.0], [1.0, 1.0]).tolist()
    [0.5, 0.0]
    """
    return ops.relu(ops.subtract(1.0, ops.multiply(*_paired("hinge", scores, signs))))


@of_arrays
def kl_divergence(log_predictions: ArrayLike, targets: ArrayLike, axis: int = -1) -> Array:
    """Returns the Kullback-Leibler divergence of targets from predicted distributions.

    Args:
        log_predictions: the logarithms of predicted probabilities.
        targets: probabilities of the same shape.
        axis: the axis of each distribution.

    Returns:
        ``sum(targets * (log(targets) - log_predictions))`` over the axis: an array without it.

    Raises:
        ShapeError: the shapes differ.

    >>> from functensor import nn
    >>> import functensor.numpy as np
    >>> round(nn.kl_divergence(np.log(np.array([0.5, 0.5])), [1.0, 0.0]).item(), 6)
    0.693147
    """
    log_predictions, targets = _paired("kl_divergence", log_predictions, targets)
    # 0 log 0 is 0, and its derivative is not asked for.
    some = ops.greater(targets, 0)
    logs = ops.log(ops.where(some, targets, 1))
    terms = ops.multiply(targets, ops.subtract(logs, log_predictions))
    return ops.sum(ops.where(some, terms, 0), axis=axis)


@of_arrays
def cosine_similarity(x: ArrayLike, y: ArrayLike, axis: int = -1, eps: float = 1e-8) -> Array:
    """Returns the cosine of the angle between vectors.

    Args:
        x, y: arrays that broadcast to each other.
        axis: the axis of the vectors.
        eps: the least product of their lengths to divide by.

    Returns:
        An array without that axis.

    >>> from functensor import nn
    >>> nn.cosine_similarity([1.0, 0.0], [1.0, 1.0]).item()
    0.7071067811865475
    """
    x, y = asarray(x), asarray(y)
    kind = result_type(x.dtype, y.dtype)
    if kind == np.float16:
        # Products of lengths overflow and vanish in half precision.
        x, y = ops.astype(x, np.float32), ops.astype(y, np.float32)
    squares = ops.multiply(ops.sum(ops.square(x), axis=axis), ops.sum(ops.square(y), axis=axis))
    product = ops.sum(ops.multiply(x, y), axis=axis)
    cosine = ops.divide(product, ops.sqrt(ops.maximum(squares, eps * eps)))
    return ops.astype(cosine, kind) if kind == np.float16 else cosine
