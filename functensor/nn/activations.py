"""Activation functions that are made of primitives, and labels as vectors."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import DTypeLike
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, of_array
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe
from ..primitives.core.shape_dtype import canonical_axis

__all__ = [
    "celu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "mish",
    "one_hot", "relu6", "selu", "soft_sign",
]  # fmt: skip

# The fixed point at which activations keep mean 0 and variance 1.
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


@of_array
def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Array:
    """Returns x where it is positive, and ``negative_slope * x`` elsewhere.

    Args:
        x: an array of any shape.
        negative_slope: the slope for negative x.

    >>> from functensor import nn
    >>> nn.leaky_relu([-1.0, 2.0], 0.1).tolist()
    [-0.1, 2.0]
    """
    x = asarray(x)
    return ops.where(ops.greater(x, 0), x, ops.multiply(x, negative_slope))


@of_array
def relu6(x: ArrayLike) -> Array:
    """Returns ``min(max(x, 0), 6)``.

    >>> from functensor import nn
    >>> nn.relu6([-1.0, 2.0, 9.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return ops.clip(x, 0.0, 6.0)


@of_array
def hard_tanh(x: ArrayLike) -> Array:
    """Returns x limited to the interval from -1 to 1.

    >>> from functensor import nn
    >>> nn.hard_tanh([-3.0, 0.5]).tolist()
    [-1.0, 0.5]
    """
    return ops.clip(x, -1.0, 1.0)


@of_array
def hard_sigmoid(x: ArrayLike) -> Array:
    """Returns ``relu6(x + 3) / 6``, a piecewise linear sigmoid.

    >>> from functensor import nn
    >>> nn.hard_sigmoid([-4.0, 0.0, 1.5]).tolist()
    [0.0, 0.5, 0.75]
    """
    return ops.divide(relu6(ops.add(x, 3.0)), 6.0)


@of_array
def hard_swish(x: ArrayLike) -> Array:
    """Returns ``x * hard_sigmoid(x)``. Howard et al., https://arxiv.org/abs/1905.02244.

    >>> from functensor import nn
    >>> nn.hard_swish([-4.0, 0.0, 4.0]).tolist()
    [-0.0, 0.0, 4.0]
    """
    return ops.multiply(x, hard_sigmoid(x))


@of_array
def soft_sign(x: ArrayLike) -> Array:
    """Returns ``x / (1 + abs(x))``.

    >>> from functensor import nn
    >>> nn.soft_sign([-1.0, 0.0, 3.0]).tolist()
    [-0.5, 0.0, 0.75]
    """
    return ops.soft_sign(x)


@of_array
def log_sigmoid(x: ArrayLike) -> Array:
    """Returns ``log(sigmoid(x))`` without overflow.

    >>> from functensor import nn
    >>> nn.log_sigmoid([-1e9, 1e9]).tolist()
    [-1000000000.0, -0.0]
    """
    x = asarray(x)
    # The negative of a number without a sign would wrap around.
    below = ops.multiply(x, -1.0) if x.dtype.kind in "bui" else ops.negative(x)
    return ops.negative(ops.softplus(below))


@of_array
def mish(x: ArrayLike) -> Array:
    """Returns ``x * tanh(softplus(x))``. Misra, https://arxiv.org/abs/1908.08681.

    >>> from functensor import nn
    >>> nn.mish([-1e9, 0.0, 1e9]).tolist()
    [-0.0, 0.0, 1000000000.0]
    """
    return ops.multiply(x, ops.tanh(ops.softplus(x)))


@of_array
def selu(x: ArrayLike) -> Array:
    """Returns a scaled `elu` that keeps mean 0 and variance 1 from layer to layer.

    Klambauer et al., https://arxiv.org/abs/1706.02515.

    >>> from functensor import nn
    >>> nn.selu([0.0, 1.0]).tolist()
    [0.0, 1.0507009873554805]
    """
    return ops.multiply(ops.elu(x, SELU_ALPHA), SELU_SCALE)


@of_array
def celu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Returns x where it is positive, and ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Barron, https://arxiv.org/abs/1704.07483.

    >>> from functensor import nn
    >>> nn.celu([-1e9, 3.0], 0.5).tolist()
    [-0.5, 3.0]
    """
    return ops.multiply(ops.elu(ops.divide(x, alpha)), alpha)


@of_array
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Returns the first half of an axis times the sigmoid of the second half.

    Dauphin et al., https://arxiv.org/abs/1612.08083.

    Args:
        x: an array whose axis has an even length.
        axis: which axis to halve.

    >>> from functensor import nn
    >>> nn.glu([4.0, 0.0]).tolist()
    [2.0]
    """
    first, second = ops.split(asarray(x), 2, axis)
    return ops.multiply(first, ops.sigmoid(second))


def one_hot(
    labels: ArrayLike, num_classes: int, dtype: DTypeLike = np.float64, axis: int = -1
) -> Array:
    """Returns integers as vectors of zeros with a one at their place.

    Args:
        labels: integers; those that are none of 0 to ``num_classes - 1`` give zeros alone.
        num_classes: the length of the vectors.
        dtype: the dtype of the result.
        axis: where the vectors' axis goes.

    Returns:
        An array of one more axis than labels.

    Raises:
        TypeError: labels are not integers.

    >>> from functensor import nn
    >>> nn.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = asarray(labels)
    if labels.dtype.kind not in "iu":
        raise TypeError(f"one_hot takes integers, not {describe(labels)}")
    rank = len(shape_of(labels)) + 1
    axis = canonical_axis(axis, rank)
    shape = tuple([-1 if i == axis else 1 for i in range(rank)])
    places = np.arange(num_classes).reshape(shape)
    places = beside(labels, places)
    return ops.astype(ops.equal(ops.expand_dims(labels, axis), places), dtype)
