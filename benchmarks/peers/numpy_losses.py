"""The losses of all workloads, written once for array modules with NumPy's functions.

A peer derives from `NumpyLosses`, and overrides what its own users would write otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.case import tree_map
from benchmarks.data import (
    ATTENTION_HEADS,
    BLOCKS,
    L2_PENALTY,
    LAYER_NORM_EPSILON,
    LEARNING_RATE,
    SCALAR_OPS_STEPS,
)

Function = Callable[..., Any]
Params = dict[str, Any]


class NumpyLosses:
    """The losses of an array module, and the layers that they are made of.

    A loss takes the parameters and then the batch.

    Attributes:
        np: the array module.
        relu, gelu, softmax: the library's own functions; GELU by its tanh approximation.
        cross_entropies: ``(logits, labels)`` to the cross entropy of every integer label.
        heads, blocks: the numbers of a transformer's heads and blocks.
        conv, max_pool: a convolution without padding, and pooling by windows of 2 x 2; None where
            the library has none.
    """

    np: Any = numpy
    heads, blocks = ATTENTION_HEADS, BLOCKS
    relu: Function
    gelu: Function
    softmax: Function
    cross_entropies: Function
    conv: Function | None = None
    max_pool: Function | None = None

    def by_workload(self) -> dict[str, Function]:
        """Returns the losses by the names of their workloads."""
        losses: dict[str, Function] = {
            "scalar-ops": self.scalar_ops,
            "elementwise": self.elementwise,
            "mlp-small": self.mlp,
            "mlp-medium": self.mlp,
            "gpt-small": self.gpt,
            "logreg": self.logreg,
            "hessian": self.tanh_regression,
            "per-example": self.example_loss,
            "layernorm": self.layernorm,
            "rnn": self.rnn,
            "rnn-input": self.rnn_input,
        }
        return losses if self.conv is None else {**losses, "cnn": self.cnn}

    def scalar_ops(self, x: Any) -> Any:
        """A chain of small operations."""
        np = self.np
        y = x
        for _ in range(SCALAR_OPS_STEPS):
            y = np.sin(y) * x
        return np.sum(y)

    def elementwise(self, x: Any) -> Any:
        """Memory-bound elementwise work and a reduction."""
        np = self.np
        return np.sum(np.tanh(x) * np.exp(-np.square(x)) + np.log1p(np.square(x)))

    def dense(self, params: Params, name: str, x: Any) -> Any:
        """An affine layer."""
        return x @ params[f"{name}_w"] + params[f"{name}_b"]

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean cross entropy of integer labels."""
        return self.np.mean(self.cross_entropies(logits, labels))

    def mlp(self, params: Params, images: Any, labels: Any) -> Any:
        """A perceptron of three layers."""
        hidden = self.relu(self.dense(params, "dense1", images))
        hidden = self.relu(self.dense(params, "dense2", hidden))
        return self.cross_entropy(self.dense(params, "dense3", hidden), labels)

    def convolved(self, params: Params, name: str, x: Any) -> Any:
        """A convolution with a bias for each channel."""
        assert self.conv is not None
        return self.conv(x, params[f"{name}_w"]) + params[f"{name}_b"].reshape(-1, 1, 1)

    def cnn(self, params: Params, images: Any, labels: Any) -> Any:
        """Two convolutions, a pool and two affine layers."""
        assert self.max_pool is not None
        x = images
        for layer in ("conv1", "conv2"):
            x = self.relu(self.convolved(params, layer, x))
        x = self.max_pool(x)
        x = self.relu(self.dense(params, "dense1", x.reshape(x.shape[0], -1)))
        return self.cross_entropy(self.dense(params, "dense2", x), labels)

    def normalise(self, x: Any, scale: Any, bias: Any) -> Any:
        """Layer normalisation over the last axis."""
        mean = self.np.mean(x, axis=-1, keepdims=True)
        variance = self.np.var(x, axis=-1, keepdims=True)
        return (x - mean) / self.np.sqrt(variance + LAYER_NORM_EPSILON) * scale + bias

    def norm(self, params: Params, name: str, x: Any) -> Any:
        """A layer of it."""
        return self.normalise(x, params[f"{name}_scale"], params[f"{name}_bias"])

    def attention(self, params: Params, name: str, x: Any, causal: Any) -> Any:
        """Causal self-attention."""
        np = self.np
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        query, key, value = (
            np.transpose(np.reshape(part, shape), (0, 2, 1, 3))
            for part in np.split(self.dense(params, f"{name}_qkv", x), 3, axis=-1)
        )
        scores = query @ np.transpose(key, (0, 1, 3, 2)) * shape[-1] ** -0.5
        weights = self.softmax(np.where(causal, scores, -1e9), axis=-1)
        mixed = np.reshape(np.transpose(weights @ value, (0, 2, 1, 3)), x.shape)
        return self.dense(params, f"{name}_out", mixed)

    def embedded(self, table: Any, tokens: Any) -> Any:
        """The rows of a table for tokens."""
        return table[tokens]

    def gpt(self, params: Params, tokens: Any, targets: Any, causal: Any = None) -> Any:
        """A transformer that predicts the next token."""
        x = self.embedded(params["embedding"], tokens) + params["position"]
        for block in (f"block{index}" for index in range(self.blocks)):
            x = x + self.attention(params, block, self.norm(params, f"{block}_norm1", x), causal)
            hidden = self.dense(params, f"{block}_up", self.norm(params, f"{block}_norm2", x))
            x = x + self.dense(params, f"{block}_down", self.gelu(hidden))
        return self.cross_entropy(self.dense(params, "head", self.norm(params, "norm", x)), targets)

    def logreg(self, params: Params, features: Any, targets: Any) -> Any:
        """The mean logistic loss of targets 0 and 1, and a penalty."""
        np = self.np
        logits = features @ params["w"] + params["b"]
        penalty = L2_PENALTY * np.sum(np.square(params["w"]))
        return np.mean(np.logaddexp(0.0, logits) - targets * logits) + penalty

    def tanh_regression(self, weights: Any, features: Any, targets: Any) -> Any:
        """The mean squared error of a tanh unit."""
        return self.np.mean(self.np.square(self.np.tanh(features @ weights) - targets))

    def example_loss(self, params: Params, image: Any, label: Any) -> Any:
        """The cross entropy of one example under a perceptron of two layers."""
        hidden = self.relu(self.dense(params, "dense1", image))
        return self.cross_entropies(self.dense(params, "dense2", hidden), label)

    def layernorm(self, params: Params) -> Any:
        """The sum of squares of an array that is normalised by hand."""
        np = self.np
        return np.sum(np.square(self.normalise(params["x"], params["scale"], params["bias"])))

    def rnn(self, params: Params, x: Any) -> Any:
        """A recurrent network in a Python loop over time."""
        np = self.np
        hidden = params["hidden"]
        h = np.zeros((x.shape[0], hidden.shape[0]), dtype=x.dtype)
        for i in range(x.shape[1]):
            h = np.tanh(x[:, i] @ params["input"] + h @ hidden + params["bias"])
        return np.mean(np.square(h))

    def rnn_input(self, params: Params) -> Any:
        """The same, with the sequence among what is differentiated."""
        return self.rnn(params, params["x"])


def adam(np: Any, zero: Any) -> tuple[Function, Function]:
    """Adam with the usual decay rates, 0.9 and 0.999, for libraries that have no optimizers.

    Args:
        np: the array module.
        zero: the count of steps at the beginning.

    Returns:
        Functions ``(params) -> state`` and ``(params, state, gradients) -> (params, state)``. The
        state has the count of steps, and first and second moments.
    """

    def init(params: Params) -> tuple[Any, Params, Params]:
        return zero, tree_map(np.zeros_like, params), tree_map(np.zeros_like, params)

    def update(params: Params, state: tuple[Any, Params, Params], gradients: Params) -> Any:
        step = state[0] + 1
        first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state[1], gradients)
        second = tree_map(lambda v, g: 0.999 * v + 0.001 * np.square(g), state[2], gradients)
        rate = LEARNING_RATE / (1 - 0.9**step)
        correction = 1 / (1 - 0.999**step)
        params = tree_map(
            lambda p, m, v: p - rate * m / (np.sqrt(v * correction) + 1e-8), params, first, second
        )
        return params, (step, first, second)

    return init, update
