"""Functions of ``torch`` that are those of ``torch.nn.functional``, some with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..primitives.core.array import Array
from .nn import functional as F
from .nn.functional import (
    avg_pool1d,
    bilinear,
    celu,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    hardshrink,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    rrelu,
    selu,
    threshold,
)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "avg_pool1d", "batch_norm",
    "bilinear", "celu", "celu_", "channel_shuffle", "constant_pad_nd", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
    "dropout", "dropout_", "embedding", "feature_alpha_dropout", "feature_dropout", "group_norm",
    "hardshrink", "instance_norm", "layer_norm", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool3d", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "prelu", "rms_norm", "rrelu", "rrelu_", "selu", "selu_", "threshold", "threshold_",
]  # fmt: skip

celu_, rrelu_, selu_, threshold_ = F.celu_, F.rrelu_, F.selu_, F.threshold_
max_pool1d_with_indices = F.max_pool1d_with_indices


def adaptive_avg_pool1d(input: Array, output_size: Any) -> Any:
    """Returns means over parts of an axis, as many as are wanted."""
    return F.adaptive_avg_pool1d(input, one_of(output_size))


def adaptive_max_pool1d(input: Array, output_size: Any) -> Any:
    """Returns maxima of parts of an axis, as many as are wanted, and where they stand."""
    return F.adaptive_max_pool1d(input, one_of(output_size), return_indices=True)


def one_of(size: Any) -> Any:
    """Returns an integer that may be given in a sequence of one."""
    return size[0] if isinstance(size, Sequence) else size


def dropout(input: Array, p: float, train: bool) -> Any:
    """Returns elements, some set to zero at random where ``train`` is true."""
    return F.dropout(input, p, train)


def dropout_(input: Array, p: float, train: bool) -> Any:
    """Puts the result of `dropout` in the place of a tensor."""
    return F.dropout(input, p, train, True)


def alpha_dropout(input: Array, p: float, train: bool) -> Any:
    """Returns elements, some set to the least that `selu` returns, at random."""
    return F.alpha_dropout(input, p, train)


def feature_dropout(input: Array, p: float, train: bool) -> Any:
    """Returns channels, some set to zero at random."""
    return F.dropout2d(input, p, train)


def feature_alpha_dropout(input: Array, p: float, train: bool) -> Any:
    """Returns channels, some set to the least that `selu` returns, at random."""
    return F.feature_alpha_dropout(input, p, train)


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """Returns rows of a matrix by their numbers; the matrix comes first here."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def batch_norm(
    input: Array, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """Returns channels of mean 0 and variance 1 over a batch, times a weight, plus a bias."""
    return F.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input: Array, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """Returns channels of mean 0 and variance 1 over each image, times a weight, plus a bias."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def group_norm(
    input: Array, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """Returns groups of channels of mean 0 and variance 1, times a weight, plus a bias."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    """Returns x of mean 0 and variance 1 over its last axes, times a weight, plus a bias."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def constant_pad_nd(input: Array, pad: Sequence[int], value: float = 0) -> Any:
    """Returns the tensor with a number around it; lengths are given from the last axis on."""
    return F.pad(input, pad, "constant", value)
