"""The workloads in JAX, op by op (`EAGER`) and compiled as a whole (`JIT`)."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.case import tree_map
from benchmarks.data import (
    ATTENTION_HEADS,
    BLOCKS,
    L2_PENALTY,
    LAYER_NORM_EPSILON,
    LEARNING_RATE,
    SCALAR_OPS_STEPS,
)
from benchmarks.peers.functional import Function, Library, identity

Params = dict[str, Any]


def scalar_ops(x: Any) -> Any:
    """A chain of small operations."""
    y = x
    for _ in range(SCALAR_OPS_STEPS):
        y = jnp.sin(y) * x
    return jnp.sum(y)


def elementwise(x: Any) -> Any:
    """Memory-bound elementwise work and a reduction."""
    return jnp.sum(jnp.tanh(x) * jnp.exp(-jnp.square(x)) + jnp.log1p(jnp.square(x)))


def dense(params: Params, name: str, x: Any) -> Any:
    """An affine layer."""
    return x @ params[f"{name}_w"] + params[f"{name}_b"]


def example_cross_entropy(logits: Any, labels: Any) -> Any:
    """The cross entropy of integer labels, each."""
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of integer labels."""
    return jnp.mean(example_cross_entropy(logits, labels))


def mlp(params: Params, images: Any, labels: Any) -> Any:
    """A perceptron of three layers."""
    hidden = jax.nn.relu(dense(params, "dense1", images))
    hidden = jax.nn.relu(dense(params, "dense2", hidden))
    return cross_entropy(dense(params, "dense3", hidden), labels)


def cnn(params: Params, images: Any, labels: Any) -> Any:
    """Two convolutions, a pool and two affine layers."""
    x = images
    for layer in ("conv1", "conv2"):
        x = lax.conv(x, params[f"{layer}_w"], (1, 1), "VALID")
        x = jax.nn.relu(x + params[f"{layer}_b"].reshape(-1, 1, 1))
    window = (1, 1, 2, 2)
    x = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
    x = jax.nn.relu(dense(params, "dense1", x.reshape(x.shape[0], -1)))
    return cross_entropy(dense(params, "dense2", x), labels)


def normalise(x: Any, scale: Any, bias: Any) -> Any:
    """Layer normalisation over the last axis."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + LAYER_NORM_EPSILON) * scale + bias


def attention(params: Params, name: str, x: Any, causal: Any) -> Any:
    """Causal self-attention."""
    batch, tokens, width = x.shape
    shape = (batch, tokens, ATTENTION_HEADS, width // ATTENTION_HEADS)
    query, key, value = (
        part.reshape(shape).transpose(0, 2, 1, 3)
        for part in jnp.split(dense(params, f"{name}_qkv", x), 3, axis=-1)
    )
    scores = query @ key.transpose(0, 1, 3, 2) * shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    mixed = (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape)
    return dense(params, f"{name}_out", mixed)


def gpt(params: Params, tokens: Any, targets: Any, causal: Any) -> Any:
    """A transformer that predicts the next token."""

    def norm(name: str, x: Any) -> Any:
        return normalise(x, params[f"{name}_scale"], params[f"{name}_bias"])

    x = params["embedding"][tokens] + params["position"]
    for block in (f"block{index}" for index in range(BLOCKS)):
        x = x + attention(params, block, norm(f"{block}_norm1", x), causal)
        hidden = dense(params, f"{block}_up", norm(f"{block}_norm2", x))
        x = x + dense(params, f"{block}_down", jax.nn.gelu(hidden, approximate=True))
    return cross_entropy(dense(params, "head", norm("norm", x)), targets)


def logreg(params: Params, features: Any, targets: Any) -> Any:
    """The mean logistic loss of targets 0 and 1, and a penalty."""
    logits = features @ params["w"] + params["b"]
    penalty = L2_PENALTY * jnp.sum(jnp.square(params["w"]))
    return jnp.mean(jnp.logaddexp(0.0, logits) - targets * logits) + penalty


def tanh_regression(weights: Any, features: Any, targets: Any) -> Any:
    """The mean squared error of a tanh unit."""
    return jnp.mean(jnp.square(jnp.tanh(features @ weights) - targets))


def example_loss(params: Params, image: Any, label: Any) -> Any:
    """The cross entropy of one example under a perceptron of two layers."""
    hidden = jax.nn.relu(dense(params, "dense1", image))
    return example_cross_entropy(dense(params, "dense2", hidden), label)


def layernorm(params: Params) -> Any:
    """The sum of squares of a normalised array."""
    return jnp.sum(jnp.square(normalise(params["x"], params["scale"], params["bias"])))


def rnn(params: Params, x: Any) -> Any:
    """A recurrent network in a Python loop over time."""
    hidden = params["hidden"]
    h = jnp.zeros((x.shape[0], hidden.shape[0]), dtype=x.dtype)
    for i in range(x.shape[1]):
        h = jnp.tanh(x[:, i] @ params["input"] + h @ hidden + params["bias"])
    return jnp.mean(jnp.square(h))


def rnn_input(params: Params) -> Any:
    """The same, with the sequence among what is differentiated."""
    return rnn(params, params["x"])


LOSSES: dict[str, Function] = {
    "scalar-ops": scalar_ops,
    "elementwise": elementwise,
    "mlp-small": mlp,
    "mlp-medium": mlp,
    "cnn": cnn,
    "gpt-small": gpt,
    "logreg": logreg,
    "hessian": tanh_regression,
    "per-example": example_loss,
    "layernorm": layernorm,
    "rnn": rnn,
    "rnn-input": rnn_input,
}


def adam_init(params: Params) -> tuple[Any, Params, Params]:
    """Step count, first and second moments."""
    return jnp.asarray(0), tree_map(jnp.zeros_like, params), tree_map(jnp.zeros_like, params)


def adam_update(
    params: Params, state: tuple[Any, Params, Params], gradients: Params
) -> tuple[Params, tuple[Any, Params, Params]]:
    """One step of Adam with the usual decay rates, 0.9 and 0.999."""
    step = state[0] + 1
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state[1], gradients)
    second = tree_map(lambda v, g: 0.999 * v + 0.001 * jnp.square(g), state[2], gradients)
    rate = LEARNING_RATE / (1 - 0.9**step)
    correction = 1 / (1 - 0.999**step)
    params = tree_map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v * correction) + 1e-8), params, first, second
    )
    return params, (step, first, second)


def address(array: Any) -> int:
    """Where an array's elements are."""
    return int(array.unsafe_buffer_pointer())


def library(compile: Function, donating: Function | None) -> Library:
    """JAX's side of the cases."""
    return Library(
        package="jax",
        losses=LOSSES,
        asarray=jnp.asarray,
        grad=jax.grad,
        value_and_grad=jax.value_and_grad,
        hessian=jax.hessian,
        per_example=functools.partial(jax.vmap, in_axes=(None, 0, 0)),
        adam_init=adam_init,
        adam_update=adam_update,
        compile=compile,
        donating=donating,
        address=address,
        wait=jax.block_until_ready,
    )


EAGER = library(identity, None)
JIT = library(jax.jit, functools.partial(jax.jit, donate_argnums=(0, 1)))
