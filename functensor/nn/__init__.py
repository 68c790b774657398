"""Neural networks as functions: activations, losses, layers and initialisers.

Nothing here holds state: weights are arguments, and random functions take a key.
"""

from __future__ import annotations

from ..faces.publish import publish
from ..primitives.contract.conv import conv_transpose
from ..primitives.elementwise.trigonometric import tanh
from ..primitives.nn.activations import (
    elu,
    gelu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from ..primitives.nn.pooling import avg_pool, max_pool
from ..primitives.reduce.reductions import logsumexp
from . import init
from .activations import (
    celu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    one_hot,
    relu6,
    selu,
    soft_sign,
)
from .attention import attention, scaled_dot_product_attention
from .layers import batch_norm, conv, dropout, embedding, group_norm, layer_norm, linear, rms_norm
from .losses import (
    absolute_error,
    binary_cross_entropy_with_logits,
    cosine_similarity,
    hinge,
    huber,
    kl_divergence,
    l1,
    mae,
    mse,
    softmax_cross_entropy,
    squared_error,
)

swish = silu

__all__ = [
    "absolute_error", "attention", "avg_pool", "batch_norm", "binary_cross_entropy_with_logits",
    "celu", "conv", "conv_transpose", "cosine_similarity", "dropout", "elu", "embedding", "gelu",
    "glu", "group_norm", "hard_sigmoid", "hard_swish", "hard_tanh", "hinge", "huber", "init",
    "kl_divergence", "l1", "layer_norm", "leaky_relu", "linear", "log_sigmoid", "log_softmax",
    "logsumexp", "mae", "max_pool", "mish", "mse", "one_hot", "relu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "soft_sign", "softmax",
    "softmax_cross_entropy", "softplus", "squared_error", "swish", "tanh",
]  # fmt: skip

publish(globals())
