"""PyTorch's layers as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....nn import layers as pure
from ....nn.attention import scaled_dot_product_attention as attention
from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.errors import ShapeError, failure
from ....primitives.core.registry import registry as ops
from ....tensors import Tensor
from ....tensors.autocasting import casting, in_half
from ....tensors.biased_layers import images_with_bias, rows_with_bias
from ....tensors.functions.looked_at import check_between
from ....tensors.functions.naming import error_of, with_words
from ....tensors.functions.reductions import norm
from .dropout import dropout

__all__ = [
    "bilinear", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "linear", "one_hot",
    "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "scaled_dot_product_attention",
]  # fmt: skip

Sizes = int | Sequence[int]

# The parameters of the product of inputs and weights, by the number of the inputs' axes: what
# `einsum` would find out for every call.
LINEAR_SUBSCRIPTS = {
    n: {"subscripts": f"{'abc'[: n - 1]}i,oi->{'abc'[: n - 1]}o"} for n in (1, 2, 3, 4)
}


def linear(input: Array, weight: Any, bias: Any = None) -> Any:
    """Returns ``input @ weight.T + bias``.

    Args:
        input: a tensor of shape (..., inputs).
        weight: of shape (outputs, inputs).
        bias: of shape (outputs,), or None.

    >>> import functensor.torch as torch
    >>> torch.nn.functional.linear(torch.ones(2), torch.ones(3, 2)).tolist()
    [2.0, 2.0, 2.0]
    """
    if casting.active:
        input, weight, bias = in_half(input, weight, bias)
    if len(weight.shape) == 2 and input.shape[-1:] == weight.shape[1:]:
        # Gradients of a product with a transpose would be transposed themselves, in memory too.
        if type(input) is Tensor and len(input.shape) in LINEAR_SUBSCRIPTS:
            params = LINEAR_SUBSCRIPTS[len(input.shape)]
            out = None if bias is None else rows_with_bias(input, weight, bias, params)
            if out is not None:
                return out
            out = ops["einsum"].bind((input, weight), params)
        else:
            out = ops.einsum("...i,oi->...o", input, weight)
    else:
        out = ops.matmul(input, ops.transpose(weight))
    return out if bias is None else out + bias


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Returns ``input1 @ weight[k] @ input2`` for every k, plus a bias."""
    out = ops.einsum("...i,kij,...j->...k", input1, weight, input2)
    return out if bias is None else out + bias


# -- convolutions


def spatial(sizes: Sizes, n: int) -> tuple[int, ...]:
    """Returns a number for each of n axes."""
    return (sizes,) * n if isinstance(sizes, int) else tuple(sizes)


def with_batch(name: str, input: Array, n: int) -> tuple[Any, bool]:
    """Returns images with an axis of examples in front, and whether it was added.

    Raises:
        ShapeError: there are too few axes, or too many.
    """
    if input.ndim == n + 2:
        return input, False
    if input.ndim == n + 1:
        return ops.expand_dims(input, 0), True
    raise failure(
        ShapeError,
        f"{name}: an input of shape {input.shape} has {input.ndim} axes",
        fix=f"give (batch, channels, ...) with {n} spatial axes, or that without batch",
    )


def convolution(n: int) -> Callable[..., Any]:
    """Returns the convolution over n axes."""
    name = f"conv{n}d"

    def function(
        input: Array,
        weight: Any,
        bias: Any = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Any:
        if casting.active:
            input, weight, bias = in_half(input, weight, bias)
        x, single = with_batch(name, input, n)
        places = padding.upper() if isinstance(padding, str) else spatial(padding, n)
        fits = isinstance(bias, Tensor) and bias.shape == weight.shape[:1]
        out = pure.conv(
            x, weight, None if fits else bias, stride=spatial(stride, n), padding=places,
            dilation=spatial(dilation, n), groups=groups,
        )  # fmt: skip
        if fits:
            out = images_with_bias(out, bias)
        return out[0] if single else out

    return with_words(
        function,
        name,
        f"Correlates images with kernels over {n} spatial {'axis' if n == 1 else 'axes'}.\n\n"
        "Args:\n"
        "    input: of shape (batch, channels, ...), or without batch.\n"
        "    weight: of shape (outputs, channels / groups, ...).\n"
        "    bias: of shape (outputs,), or None.\n"
        "    stride, padding, dilation: integers, or one for each spatial axis; padding may be\n"
        '        "valid" or "same".\n'
        "    groups: into how many groups channels and outputs are split.\n",
    )


conv1d, conv2d, conv3d = map(convolution, (1, 2, 3))


def transposed(n: int) -> Callable[..., Any]:
    """Returns the transposed convolution over n axes."""
    name = f"conv_transpose{n}d"

    def function(
        input: Array,
        weight: Any,
        bias: Any = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Any:
        if casting.active:
            input, weight, bias = in_half(input, weight, bias)
        x, single = with_batch(name, input, n)
        out = ops.conv_transpose(
            x, weight, stride=spatial(stride, n), padding=spatial(padding, n),
            output_padding=spatial(output_padding, n), dilation=spatial(dilation, n),
            groups=groups,
        )  # fmt: skip
        if bias is not None:
            out = out + ops.reshape(bias, (-1, *(1,) * n))
        return out[0] if single else out

    return with_words(
        function,
        name,
        f"Spreads images by kernels: the transpose of `conv{n}d`.\n\n"
        "Args:\n"
        "    input: of shape (batch, channels, ...), or without batch.\n"
        "    weight: of shape (channels, outputs / groups, ...).\n"
        "    bias: of shape (outputs,), or None.\n"
        "    stride, padding, dilation, groups: those of the convolution.\n"
        "    output_padding: by how much the output is longer.\n",
    )


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(transposed, (1, 2, 3))


# -- tables


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Returns rows of zeros with a one where integers say.

    Args:
        tensor: integers that are not negative.
        num_classes: the length of the rows; -1 for one more than the largest.

    Raises:
        RuntimeError: an integer is negative, or not below ``num_classes``.
    """
    most = np.inf if num_classes == -1 else num_classes - 1
    check_between("one_hot: a class", tensor, 0, most, RuntimeError)
    count = int(ops.max(tensor)) + 1 if num_classes == -1 else num_classes
    places = beside(tensor, np.arange(count))
    return ops.astype(ops.equal(ops.expand_dims(tensor, -1), places), np.dtype(np.int64))


# -- pairs and places


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Returns the cosines of the angles between vectors along an axis."""
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = ops.broadcast_to(x1, shape), ops.broadcast_to(x2, shape)
    units = [x / limited_norm(x, dim, eps) for x in (x1, x2)]
    return ops.sum(units[0] * units[1], dim)


def limited_norm(x: Any, dim: int, eps: float) -> Any:
    """Returns norms, at least ``eps``; the limit is no function of ``x``, as in PyTorch."""
    length = norm(x, 2, dim, keepdim=True)
    return length + ops.stop_gradient(ops.maximum(length, eps) - length)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """Returns the norms of differences, plus a little, along the last axis."""
    return norm(error_of(x1, x2) + eps, p, -1, keepdim)


def pixel_shuffle(input: Array, upscale_factor: int) -> Any:
    """Returns images r times as high and wide, with r**2 times fewer channels."""
    r = upscale_factor
    *batch, channels, height, width = input.shape
    x = ops.reshape(input, (*batch, channels // r**2, r, r, height, width))
    n = len(batch)
    x = ops.transpose(x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return ops.reshape(x, (*batch, channels // r**2, height * r, width * r))


def pixel_unshuffle(input: Array, downscale_factor: int) -> Any:
    """Returns images r times less high and wide, with r**2 times more channels."""
    r = downscale_factor
    *batch, channels, height, width = input.shape
    x = ops.reshape(input, (*batch, channels, height // r, r, width // r, r))
    n = len(batch)
    x = ops.transpose(x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return ops.reshape(x, (*batch, channels * r**2, height // r, width // r))


def channel_shuffle(input: Array, groups: int) -> Any:
    """Returns channels taken from each group in turn."""
    batch, channels, *rest = input.shape
    x = ops.reshape(input, (batch, groups, channels // groups, *rest))
    return ops.reshape(ops.swapaxes(x, 1, 2), input.shape)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Returns values weighted by the softmax of products of queries and keys.

    Args:
        query, key, value: of shapes (..., queries, width), (..., keys, width) and (..., keys,
            outputs).
        attn_mask: booleans, true where a query sees a key, or numbers that are added.
        dropout_p: the probability of a weight to be dropped.
        is_causal: whether query i sees only keys 0 to i.
        scale: by what products are multiplied; ``1 / sqrt(width)`` by default.
        enable_gqa: whether several heads of queries share one of keys and values.
    """
    if casting.active:
        query, key, value, attn_mask = in_half(query, key, value, attn_mask)
    if not dropout_p:
        return attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        key, value = (ops.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * factor
    if is_causal:
        attn_mask = beside(query, np.tri(query.shape[-2], key.shape[-2], dtype=bool))
    if attn_mask is not None and attn_mask.dtype.kind == "b":
        scores = ops.where(attn_mask, scores, -np.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return ops.matmul(dropout(ops.softmax(scores, axis=-1), dropout_p), value)
