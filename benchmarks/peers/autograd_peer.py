"""The workloads in HIPS autograd."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import logsumexp

from benchmarks.case import NumpyArray, tree_map
from benchmarks.data import (
    ATTENTION_HEADS,
    BLOCKS,
    L2_PENALTY,
    LAYER_NORM_EPSILON,
    LEARNING_RATE,
    SCALAR_OPS_STEPS,
)
from benchmarks.peers.functional import Function, Library

Params = dict[str, Any]


def scalar_ops(x: Any) -> Any:
    """A chain of small operations."""
    y = x
    for _ in range(SCALAR_OPS_STEPS):
        y = anp.sin(y) * x
    return anp.sum(y)


def elementwise(x: Any) -> Any:
    """Memory-bound elementwise work and a reduction."""
    return anp.sum(anp.tanh(x) * anp.exp(-anp.square(x)) + anp.log1p(anp.square(x)))


def dense(params: Params, name: str, x: Any) -> Any:
    """An affine layer."""
    return x @ params[f"{name}_w"] + params[f"{name}_b"]


def relu(x: Any) -> Any:
    """The positive part."""
    return anp.maximum(x, 0.0)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of integer labels."""
    rows = logits.reshape(-1, logits.shape[-1])
    columns = labels.reshape(-1)
    return anp.mean(logsumexp(rows, axis=-1) - rows[np.arange(columns.size), columns])


def mlp(params: Params, images: Any, labels: Any) -> Any:
    """A perceptron of three layers."""
    hidden = relu(dense(params, "dense1", images))
    hidden = relu(dense(params, "dense2", hidden))
    return cross_entropy(dense(params, "dense3", hidden), labels)


def normalise(x: Any, scale: Any, bias: Any) -> Any:
    """Layer normalisation over the last axis."""
    mean = anp.mean(x, axis=-1, keepdims=True)
    variance = anp.var(x, axis=-1, keepdims=True)
    return (x - mean) / anp.sqrt(variance + LAYER_NORM_EPSILON) * scale + bias


def gelu(x: Any) -> Any:
    """The tanh approximation of GELU."""
    return 0.5 * x * (1 + anp.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x * x * x)))


def attention(params: Params, name: str, x: Any, causal: NumpyArray) -> Any:
    """Causal self-attention."""
    batch, tokens, width = x.shape
    shape = (batch, tokens, ATTENTION_HEADS, width // ATTENTION_HEADS)
    query, key, value = (
        anp.transpose(anp.reshape(part, shape), (0, 2, 1, 3))
        for part in anp.split(dense(params, f"{name}_qkv", x), 3, axis=-1)
    )
    scores = query @ anp.transpose(key, (0, 1, 3, 2)) * shape[-1] ** -0.5
    scores = anp.where(causal, scores, -1e9)
    weights = anp.exp(scores - logsumexp(scores, axis=-1, keepdims=True))
    mixed = anp.reshape(anp.transpose(weights @ value, (0, 2, 1, 3)), x.shape)
    return dense(params, f"{name}_out", mixed)


def gpt(params: Params, tokens: NumpyArray, targets: NumpyArray, causal: NumpyArray) -> Any:
    """A transformer that predicts the next token."""

    def norm(name: str, x: Any) -> Any:
        return normalise(x, params[f"{name}_scale"], params[f"{name}_bias"])

    x = params["embedding"][tokens] + params["position"]
    for block in (f"block{index}" for index in range(BLOCKS)):
        x = x + attention(params, block, norm(f"{block}_norm1", x), causal)
        hidden = dense(params, f"{block}_up", norm(f"{block}_norm2", x))
        x = x + dense(params, f"{block}_down", gelu(hidden))
    return cross_entropy(dense(params, "head", norm("norm", x)), targets)


def logreg(params: Params, features: Any, targets: Any) -> Any:
    """The mean logistic loss of targets 0 and 1, and a penalty."""
    logits = features @ params["w"] + params["b"]
    penalty = L2_PENALTY * anp.sum(anp.square(params["w"]))
    return anp.mean(anp.logaddexp(0.0, logits) - targets * logits) + penalty


def tanh_regression(weights: Any, features: Any, targets: Any) -> Any:
    """The mean squared error of a tanh unit."""
    return anp.mean(anp.square(anp.tanh(features @ weights) - targets))


def layernorm(params: Params) -> Any:
    """The sum of squares of a normalised array."""
    return anp.sum(anp.square(normalise(params["x"], params["scale"], params["bias"])))


def rnn(params: Params, x: Any) -> Any:
    """A recurrent network in a Python loop over time."""
    hidden = params["hidden"]
    h = np.zeros((x.shape[0], hidden.shape[0]), np.float32)
    for i in range(x.shape[1]):
        h = anp.tanh(x[:, i] @ params["input"] + h @ hidden + params["bias"])
    return anp.mean(anp.square(h))


def rnn_input(params: Params) -> Any:
    """The same, with the sequence among what is differentiated."""
    return rnn(params, params["x"])


LOSSES: dict[str, Function] = {
    "scalar-ops": scalar_ops,
    "elementwise": elementwise,
    "mlp-small": mlp,
    "mlp-medium": mlp,
    "gpt-small": gpt,
    "logreg": logreg,
    "hessian": tanh_regression,
    "layernorm": layernorm,
    "rnn": rnn,
    "rnn-input": rnn_input,
}


def adam_init(params: Params) -> tuple[int, Params, Params]:
    """Step count, first and second moments."""
    return 0, tree_map(np.zeros_like, params), tree_map(np.zeros_like, params)


def adam_update(
    params: Params, state: tuple[int, Params, Params], gradients: Params
) -> tuple[Params, tuple[int, Params, Params]]:
    """One step of Adam with the usual decay rates, 0.9 and 0.999."""
    step = state[0] + 1
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state[1], gradients)
    second = tree_map(lambda v, g: 0.999 * v + 0.001 * np.square(g), state[2], gradients)
    rate = LEARNING_RATE / (1 - 0.9**step)
    correction = 1 / (1 - 0.999**step)

    def move(p: NumpyArray, m: NumpyArray, v: NumpyArray) -> NumpyArray:
        moved: NumpyArray = p - rate * m / (np.sqrt(v * correction) + 1e-8)
        return moved

    return tree_map(move, params, first, second), (step, first, second)


PEER = Library(
    package="autograd",
    losses=LOSSES,
    asarray=np.asarray,
    grad=autograd.grad,
    value_and_grad=autograd.value_and_grad,
    hessian=autograd.hessian,
    per_example=None,
    adam_init=adam_init,
    adam_update=adam_update,
)
