"""Layers as pure functions of their inputs and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import random
from ..backends.annotations import Axis
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, of_array, of_arrays
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import describe, misfit
from ..primitives.core.shape_dtype import canonical_axes, canonical_axis, result_type, shape_dtype
from ..primitives.nn.layer_norm import affine_normalize, normalize
from ..primitives.random.dropout import dropout as drop
from ..random.keys import RandomKey, checked_key

__all__ = [
    "batch_norm", "conv", "dropout", "embedding", "group_norm", "layer_norm", "linear", "rms_norm",
]  # fmt: skip

# The activations that add a bias in the same pass.
FUSED: dict[Any, Callable[..., Array]] = {
    ops[f]: ops[f"{f}_biased"] for f in ("relu", "sigmoid", "softplus", "tanh")
}

# -- linear maps


@of_arrays
def linear(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    activation: Callable[[Array], Array] | None = None,
) -> Array:
    """Returns ``x @ w + b``, or an activation function of it.

    Args:
        x: an array of shape (..., inputs).
        w: a matrix of shape (inputs, outputs).
        b: the bias, of shape (outputs,), or None.
        activation: a function such as `nn.relu`, or None. The bias is added in the same pass for
            relu, sigmoid, softplus and tanh.

    Returns:
        An array of shape (..., outputs).

    Raises:
        ShapeError: the shapes do not fit.

    >>> from functensor import nn
    >>> nn.linear([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [10.0, 20.0]).tolist()
    [11.0, 22.0]
    """
    product = ops.matmul(x, w)
    if b is not None:
        if activation in FUSED:
            return FUSED[activation](product, b)
        product = ops.add(product, b)
    return product if activation is None else activation(product)


@of_arrays
def conv(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int | tuple[int, int]] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Convolves images with kernels (correlates, as neural networks have it) and adds a bias.

    Args:
        x: images of shape ``(batch, channels, *spatial)``, with one to three spatial axes or more.
        w: kernels of shape ``(outputs, channels / groups, *kernel)``.
        b: the bias, of shape (outputs,), or None.
        stride: how far the kernel moves; an integer, or one for each spatial axis.
        padding: zeros around x: an integer, an integer or a pair (before, after) for each spatial
            axis, "VALID" for none, "SAME" for ``ceil(length / stride)`` places.
        dilation: how far the kernel's elements lie apart; an integer, or one for each spatial axis.
        groups: into how many groups channels and outputs are split.

    Returns:
        An array of shape ``(batch, outputs, *places)``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import functensor.numpy as np
    >>> from functensor import nn
    >>> nn.conv(np.ones((1, 1, 4, 4)), np.ones((2, 1, 3, 3)), np.array([0.0, 1.0])).shape
    (1, 2, 2, 2)
    """
    out = ops.conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if b is None:
        return out
    channels = out.shape[1]
    if shape_of(b) != (channels,):
        raise misfit(
            f"conv: a bias of shape {shape_of(b)} for {channels} outputs",
            f"give a bias of shape ({channels},)",
        )
    return ops.add(out, ops.reshape(b, (channels, *(1,) * (len(out.shape) - 2))))


@of_arrays
def embedding(table: ArrayLike, ids: ArrayLike) -> Array:
    """Returns the rows of a table.

    Args:
        table: an array of shape ``(rows, *row)``.
        ids: integers of any shape, the rows' numbers.

    Returns:
        An array of shape ``(*ids.shape, *row)``.

    Raises:
        TypeError: the ids are not integers.
        IndexError: there is no such row.

    >>> from functensor import nn
    >>> nn.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 1]).tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    ids = asarray(ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"embedding: ids are integers, not {describe(ids)}")
    return ops.take(asarray(table), ids, axis=0)


# -- normalisation


def _affine(
    x: Array, weight: ArrayLike | None, bias: ArrayLike | None, shape: tuple[int, ...]
) -> Array:
    """Returns ``x * weight + bias``, both brought into a shape that broadcasts against x."""
    if weight is not None:
        x = ops.multiply(x, ops.reshape(weight, shape))
    if bias is not None:
        x = ops.add(x, ops.reshape(bias, shape))
    return x


def _normalised_rows(
    rows: Array, weight: ArrayLike | None, bias: ArrayLike | None, params: dict[str, Any]
) -> Array:
    """Normalises over the last axis, and applies the weight, and the bias beside a weight."""
    if weight is None:
        return normalize.bind((rows,), params)
    row = rows.shape[-1:]
    affine = (weight,) if bias is None else (weight, bias)
    fitting = [v if shape_of(v) == row else ops.reshape(v, row) for v in affine]
    return affine_normalize.bind((rows, *fitting), params)


def is_last(axis: Axis) -> bool:
    """Says whether an axis is given as the last one, as it mostly is."""
    if type(axis) is tuple and len(axis) == 1:
        axis = axis[0]
    return type(axis) is int and axis == -1


def _normalised_over_axes(
    x: Array, weight: ArrayLike | None, bias: ArrayLike | None, axis: Axis, params: dict[str, Any]
) -> Array:
    """Normalises over axes, which the primitives do for rows, and applies weight and bias."""
    shape = x.shape
    if shape and is_last(axis) and (weight is not None or bias is None):
        return _normalised_rows(x, weight, bias, params)
    axes = canonical_axes(axis, len(shape))
    others = [i for i in range(len(shape)) if i not in axes]
    order = (*others, *axes)
    turned = x if order == tuple(range(len(order))) else ops.transpose(x, order)
    row = prod([shape[i] for i in axes])
    single = len(axes) == 1
    rows = turned if single else ops.reshape(turned, (*(shape[i] for i in others), row))
    out = _normalised_rows(rows, weight, bias, params)
    if not single:
        out = ops.reshape(out, turned.shape)
    if turned is not x:
        out = ops.transpose(out, sorted(range(len(order)), key=order.__getitem__))
    if bias is not None and weight is None:
        own = tuple([n if i in axes else 1 for i, n in enumerate(shape)])
        out = ops.add(out, ops.reshape(bias, own))
    return out


@of_array
def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    axis: Axis = -1,
) -> Array:
    """Returns x shifted and scaled to mean 0 and variance 1 over axes, then ``* weight + bias``.

    Ba, Kiros and Hinton, https://arxiv.org/abs/1607.06450.

    Args:
        x: an array.
        weight, bias: arrays with the lengths of those axes, or None.
        eps: what is added to the variance.
        axis: the axis or axes.

    Returns:
        An array of x's shape.

    >>> from functensor import nn
    >>> nn.layer_norm([1.0, 3.0], eps=0.0).tolist()
    [-1.0, 1.0]
    """
    return _normalised_over_axes(asarray(x), weight, bias, axis, {"eps": eps, "center": True})


@of_array
def rms_norm(
    x: ArrayLike, weight: ArrayLike | None = None, eps: float = 1e-6, axis: Axis = -1
) -> Array:
    """Returns x scaled to a mean square of 1 over axes, then ``* weight``.

    Zhang and Sennrich, https://arxiv.org/abs/1910.07467.

    Args:
        x: an array.
        weight: an array with the lengths of those axes, or None.
        eps: what is added to the mean square.
        axis: the axis or axes.

    Returns:
        An array of x's shape.

    >>> from functensor import nn
    >>> nn.rms_norm([3.0, -3.0], eps=0.0).tolist()
    [1.0, -1.0]
    """
    return _normalised_over_axes(asarray(x), weight, None, axis, {"eps": eps, "center": False})


@of_array
def group_norm(
    x: ArrayLike,
    groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array:
    """Returns images shifted and scaled to mean 0 and variance 1 over groups of channels.

    Wu and He, https://arxiv.org/abs/1803.08494.

    Args:
        x: images of shape ``(batch, channels, *spatial)``.
        groups: into how many groups the channels are split.
        weight, bias: arrays of shape (channels,), or None.
        eps: what is added to the variance.

    Returns:
        An array of x's shape.

    Raises:
        ShapeError: the channels do not divide into so many groups.

    >>> import functensor.numpy as np
    >>> from functensor import nn
    >>> nn.group_norm(np.arange(8.0).reshape(1, 4, 2), 2).shape
    (1, 4, 2)
    """
    x = asarray(x)
    batch, channels, *spatial = x.shape
    if groups < 1 or channels % groups:
        raise misfit(
            f"group_norm: {channels} channels do not divide into {groups} groups",
            "choose a number of groups that divides the channels",
        )
    grouped = ops.reshape(x, (batch, groups, channels // groups * prod(spatial)))
    out = ops.reshape(layer_norm(grouped, eps=eps), x.shape)
    return _affine(out, weight, bias, (channels, *(1,) * len(spatial)))


def batch_norm(
    x: ArrayLike,
    statistics: tuple[Array, Array] | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    axis: int = 1,
) -> tuple[Array, tuple[Array, Array]]:
    """Returns images shifted and scaled to mean 0 and variance 1 in every channel.

    Ioffe and Szegedy, https://arxiv.org/abs/1502.03167.

    Args:
        x: an array with a batch of examples, e.g. images of shape ``(batch, channels, *spatial)``.
        statistics: the running mean and variance of every channel, a pair of arrays of shape
            (channels,); None, when training starts, for 0 and 1.
        weight, bias: arrays of shape (channels,), or None.
        training: whether to normalise by the batch's own mean and variance, and to let the running
            ones follow them, rather than to normalise by the running ones.
        momentum: how much of the batch goes into the running ones.
        eps: what is added to the variance.
        axis: the axis of the channels.

    Returns:
        The normalised array, and the new statistics, through which no derivative flows; the
        running variance is that of the unbiased estimate.

    Raises:
        ValueError: there are no statistics and it is not training.

    >>> import functensor.numpy as np
    >>> from functensor import nn
    >>> y, statistics = nn.batch_norm(np.arange(6.0).reshape(3, 2))
    >>> y, _ = nn.batch_norm(np.ones((1, 2)), statistics, training=False)
    """
    x = asarray(x)
    kind = x.dtype
    if training and kind == np.float16:
        # Variances of large numbers overflow in half precision.
        x = ops.astype(x, np.float32)
    axis = canonical_axis(axis, len(x.shape))
    others = tuple([i for i in range(len(x.shape)) if i != axis])
    channels = x.shape[axis]
    shape = (channels, *(1,) * (len(x.shape) - axis - 1))
    if not training:
        if statistics is None:
            raise ValueError("batch_norm: without training, statistics are needed")
        mean, variance = statistics
    else:
        mean, variance = ops.mean(x, axis=others), ops.var(x, axis=others)
        old_mean: ArrayLike
        old_variance: ArrayLike
        if statistics is None:
            zeros, ones = np.zeros(channels, kind), np.ones(channels, kind)
            old_mean, old_variance = beside(x, zeros), beside(x, ones)
        else:
            old_mean, old_variance = statistics
        count = prod([x.shape[i] for i in others])
        unbiased = ops.multiply(variance, count / max(count - 1, 1))

        def followed(old: ArrayLike, new: Array) -> Array:
            sums = ops.add(ops.multiply(old, 1 - momentum), ops.multiply(new, momentum))
            whole = sums if x.dtype == kind else ops.astype(sums, shape_dtype(old).dtype)
            return ops.stop_gradient(whole)

        statistics = followed(old_mean, mean), followed(old_variance, unbiased)
    scale = ops.reciprocal(ops.sqrt(ops.add(ops.reshape(variance, shape), eps)))
    # Every channel is scaled once, by its weight too, so that images are gone through less often.
    scale = _affine(scale, weight, None, shape)
    out = _affine(ops.multiply(ops.subtract(x, ops.reshape(mean, shape)), scale), None, bias, shape)
    if x.dtype != kind:
        given = [shape_dtype(a).dtype for a in (weight, bias) if a is not None]
        out = ops.astype(out, result_type(kind, *given))
    return out, statistics


# -- noise


@of_arrays
def dropout(key: RandomKey, x: ArrayLike, rate: Array | float, *, training: bool = True) -> Array:
    """Returns x with elements set to zero at random, and the others scaled up for it.

    Srivastava et al., "Dropout", 2014.

    Args:
        key: a key of `functensor.random`.
        x: an array.
        rate: the probability of every element to be dropped, at least 0 and less than 1.
        training: False returns x as it is.

    Returns:
        An array of x's shape with the same expectation.

    Raises:
        ValueError: the rate is out of range.

    >>> import functensor.numpy as np
    >>> from functensor import nn, random
    >>> sorted(set(nn.dropout(random.key(0), np.ones(100), 0.5).tolist()))
    [0.0, 2.0]
    """
    x = asarray(x)
    if not training:
        return x
    if isinstance(rate, Array):
        share = ops.astype(ops.subtract(1, rate), x.dtype)
        kept = ops.to_device(random.bernoulli(key, share, x.shape), x.device)
    elif not 0 <= rate < 1:
        raise ValueError(f"dropout: the rate is at least 0 and less than 1, not {rate}")
    elif rate == 0:
        return x
    else:
        # The derivative keeps the key alone.
        return drop.bind((x, checked_key(key)), {"rate": float(rate)})
    return ops.where(kept, ops.divide(x, share), 0)
