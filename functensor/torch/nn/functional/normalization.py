"""PyTorch's functions that normalise tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....nn import layers as pure
from ....primitives.core.array import Array
from ....primitives.core.errors import ShapeError, failure
from ....primitives.core.registry import registry as ops
from ....tensors.functions.reductions import norm

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm",
]  # fmt: skip


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """Returns x of mean 0 and variance 1 over its last axes, times a weight, plus a bias."""
    axes = last_axes("layer_norm", input, normalized_shape)
    return pure.layer_norm(input, weight, bias, eps, axes)


def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """Returns x of mean square 1 over its last axes, times a weight."""
    axes = last_axes("rms_norm", input, normalized_shape)
    # Halves have that of single precision, as in PyTorch.
    wide = np.result_type(input.dtype, np.float32) if input.dtype.itemsize == 2 else input.dtype
    least = float(np.finfo(wide).eps) if eps is None else eps
    return pure.rms_norm(input, weight, least, axes)


def last_axes(name: str, input: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the axes of a shape at the end of another.

    Raises:
        ShapeError: it is not there.
    """
    wanted = tuple(shape)
    if input.shape[input.ndim - len(wanted) :] != wanted:
        raise failure(
            ShapeError,
            f"{name}: normalized_shape={wanted} of an input of shape {input.shape}",
            fix=f"normalized_shape={input.shape[-1:]}, the lengths of its last axes",
        )
    return tuple(range(-len(wanted), 0))


def group_norm(
    input: Array, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Returns x of mean 0 and variance 1 over groups of channels, times a weight, plus a bias.

    Raises:
        ValueError: a group of the whole batch is one element.
    """
    if input.size == num_groups and input.ndim > 1:
        raise ValueError(f"group_norm: a group of {tuple(input.shape)} is one element")
    return pure.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Returns x of mean 0 and variance 1 for every channel, times a weight, plus a bias.

    Args:
        input: of shape (batch, channels, ...).
        running_mean, running_var: changed in place while training; used when not.
        weight, bias: of shape (channels,), or None.
        training: whether the batch's own statistics are used.
        momentum: how much of them goes into the running ones.
        eps: what is added to the variance.

    Raises:
        ValueError: there is one value for each channel only, while training.
    """
    if training and prod(input.shape) == input.shape[1]:
        raise ValueError(
            f"batch_norm: an input of shape {input.shape} has one value for each channel, "
            "which has no variance; give more examples, or call eval()"
        )
    statistics = None if running_mean is None else (running_mean, running_var)
    out, new = pure.batch_norm(
        input, statistics, weight, bias, training=training, momentum=momentum, eps=eps
    )
    if training and running_mean is not None and prod(input.shape):
        for old, followed in zip((running_mean, running_var), new):
            old.copy_(ops.stop_gradient(followed))
    return out


def instance_norm(
    input: Array,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Returns x of mean 0 and variance 1 for every channel of every example; see `batch_norm`."""
    shape = (-1, *(1,) * (input.ndim - 2))
    if use_input_stats:
        if prod(input.shape[2:]) == 1:
            whole = tuple(input.shape)
            raise ValueError(f"instance_norm: more than one place of each channel, not {whole}")
        axes = tuple(range(2, input.ndim))
        # Variances of large numbers overflow in half precision.
        x = ops.astype(input, np.dtype(np.float32)) if input.dtype == np.float16 else input
        mean, var = ops.mean(x, axes, keepdims=True), ops.var(x, axes, keepdims=True)
        if running_mean is not None:
            count = prod(input.shape[2:])
            for old, new in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
                over = ops.mean(ops.stop_gradient(new), (0, *axes))
                old.copy_((1 - momentum) * old + momentum * over)
    else:
        mean, var = ops.reshape(running_mean, shape), ops.reshape(running_var, shape)
    out = ops.astype((input - mean) / ops.sqrt(var + eps), input.dtype)
    out = out if weight is None else out * ops.reshape(weight, shape)
    return out if bias is None else out + ops.reshape(bias, shape)


def local_response_norm(
    input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Returns x divided by a power of the sum of squares of neighbouring channels."""
    squares = ops.pad(
        input * input, ((0, 0), (size // 2, (size - 1) // 2), *((0, 0),) * (input.ndim - 2))
    )
    channels = input.shape[1]
    total = sum(squares[:, i : i + channels] for i in range(size))
    return input / (k + alpha / size * total) ** beta


def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Returns x divided by its norm along an axis."""
    return input / ops.maximum(norm(input, p, dim, keepdim=True), eps)
