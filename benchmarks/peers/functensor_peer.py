"""The workloads in functensor, eager (`EAGER`) and by plans (`JIT`)."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

import functensor as ft
import functensor.numpy as fnp
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
        y = fnp.sin(y) * x
    return fnp.sum(y)


def elementwise(x: Any) -> Any:
    """Memory-bound elementwise work and a reduction."""
    return fnp.sum(fnp.tanh(x) * fnp.exp(-fnp.square(x)) + fnp.log1p(fnp.square(x)))


def dense(params: Params, name: str, x: Any) -> Any:
    """An affine layer."""
    return x @ params[f"{name}_w"] + params[f"{name}_b"]


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of integer labels."""
    return fnp.mean(ft.nn.softmax_cross_entropy(logits, labels))


def mlp(params: Params, images: Any, labels: Any) -> Any:
    """A perceptron of three layers."""
    hidden = ft.nn.relu(dense(params, "dense1", images))
    hidden = ft.nn.relu(dense(params, "dense2", hidden))
    return cross_entropy(dense(params, "dense3", hidden), labels)


def cnn(params: Params, images: Any, labels: Any) -> Any:
    """Two convolutions, a pool and two affine layers."""
    x = images
    for layer in ("conv1", "conv2"):
        bias = params[f"{layer}_b"].reshape(-1, 1, 1)
        x = ft.nn.relu(ft.nn.conv(x, params[f"{layer}_w"]) + bias)
    x = ft.nn.max_pool(x, 2)
    x = ft.nn.relu(dense(params, "dense1", x.reshape(x.shape[0], -1)))
    return cross_entropy(dense(params, "dense2", x), labels)


def normalise(x: Any, scale: Any, bias: Any) -> Any:
    """Layer normalisation over the last axis."""
    mean = fnp.mean(x, axis=-1, keepdims=True)
    variance = fnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / fnp.sqrt(variance + LAYER_NORM_EPSILON) * scale + bias


def attention(params: Params, name: str, x: Any, causal: Any) -> Any:
    """Causal self-attention."""
    batch, tokens, width = x.shape
    shape = (batch, tokens, ATTENTION_HEADS, width // ATTENTION_HEADS)
    query, key, value = (
        fnp.transpose(fnp.reshape(part, shape), (0, 2, 1, 3))
        for part in fnp.split(dense(params, f"{name}_qkv", x), 3, axis=-1)
    )
    scores = query @ fnp.transpose(key, (0, 1, 3, 2)) * shape[-1] ** -0.5
    weights = ft.nn.softmax(fnp.where(causal, scores, -1e9), axis=-1)
    mixed = fnp.reshape(fnp.transpose(weights @ value, (0, 2, 1, 3)), x.shape)
    return dense(params, f"{name}_out", mixed)


def gpt(params: Params, tokens: Any, targets: Any, causal: Any) -> Any:
    """A transformer that predicts the next token."""

    def norm(name: str, x: Any) -> Any:
        return normalise(x, params[f"{name}_scale"], params[f"{name}_bias"])

    x = params["embedding"][tokens] + params["position"]
    for block in (f"block{index}" for index in range(BLOCKS)):
        x = x + attention(params, block, norm(f"{block}_norm1", x), causal)
        hidden = dense(params, f"{block}_up", norm(f"{block}_norm2", x))
        x = x + dense(params, f"{block}_down", ft.nn.gelu(hidden, approximate=True))
    return cross_entropy(dense(params, "head", norm("norm", x)), targets)


def logreg(params: Params, features: Any, targets: Any) -> Any:
    """The mean logistic loss of targets 0 and 1, and a penalty."""
    logits = features @ params["w"] + params["b"]
    penalty = L2_PENALTY * fnp.sum(fnp.square(params["w"]))
    return fnp.mean(fnp.logaddexp(0.0, logits) - targets * logits) + penalty


def tanh_regression(weights: Any, features: Any, targets: Any) -> Any:
    """The mean squared error of a tanh unit."""
    return fnp.mean(fnp.square(fnp.tanh(features @ weights) - targets))


def example_loss(params: Params, image: Any, label: Any) -> Any:
    """The cross entropy of one example under a perceptron of two layers."""
    hidden = ft.nn.relu(dense(params, "dense1", image))
    return ft.nn.softmax_cross_entropy(dense(params, "dense2", hidden), label)


def layernorm(params: Params) -> Any:
    """The sum of squares of a normalised array."""
    return fnp.sum(fnp.square(normalise(params["x"], params["scale"], params["bias"])))


def rnn(params: Params, x: Any) -> Any:
    """A recurrent network in a Python loop over time."""
    hidden = params["hidden"]
    h = fnp.zeros((x.shape[0], hidden.shape[0]), dtype=x.dtype)
    for i in range(x.shape[1]):
        h = fnp.tanh(x[:, i] @ params["input"] + h @ hidden + params["bias"])
    return fnp.mean(fnp.square(h))


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


def per_example(function: Function) -> Function:
    """Map over the batch, not over the parameters."""
    mapped: Function = ft.vmap(function, in_axes=(None, 0, 0))
    return mapped


ADAM = ft.optim.adam(LEARNING_RATE)


def stages(function: Function, arguments: tuple[Any, ...]) -> dict[str, float]:
    """Seconds of what a first call does: trace, passes, plan, and the plan's first run."""
    from functensor.backends import get as get_backend
    from functensor.passes.fusion import fusion
    from functensor.passes.pipeline import optimized

    seconds = {}
    clock = time.perf_counter
    start = clock()
    program = ft.make_program(function)(*arguments)
    seconds["trace"] = clock() - start
    start = clock()
    program = fusion(optimized(program))
    seconds["passes"] = clock() - start
    start = clock()
    plan = get_backend("numpy").plan(program)
    seconds["plan"] = clock() - start
    leaves = ft.tree.leaves(arguments)
    buffers = [x if isinstance(x, (int, float)) else np.asarray(x)[()] for x in leaves]
    start = clock()
    plan(buffers)
    seconds["run"] = clock() - start
    return seconds


def address(array: Any) -> int:
    """Where an array's elements are."""
    return int(np.asarray(array).ctypes.data)


def library(compile: Function, donating: Function | None, stages: Function | None) -> Library:
    """functensor's side of the cases."""
    return Library(
        package="functensor",
        losses=LOSSES,
        asarray=fnp.asarray,
        grad=ft.grad,
        value_and_grad=ft.value_and_grad,
        hessian=ft.hessian,
        per_example=per_example,
        adam_init=ADAM.init,
        adam_update=ADAM.update,
        compile=compile,
        donating=donating,
        stages=stages,
        address=address,
    )


EAGER = library(identity, None, None)
JIT = library(ft.jit, functools.partial(ft.jit, donate_argnums=(0, 1)), stages)
