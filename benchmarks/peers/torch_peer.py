"""The workloads in PyTorch, eager (`EAGER`) and by `torch.compile` (`COMPILED`)."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._dynamo.exc import TorchDynamoException

from benchmarks.case import (
    TRAIN_STEPS,
    Case,
    Mode,
    NumpyArray,
    NumpyTree,
    Outcome,
    Problem,
    Unsupported,
    as_dict,
    describe,
    tree_map,
)
from benchmarks.data import (
    ATTENTION_HEADS,
    BLOCKS,
    L2_PENALTY,
    LAYER_NORM_EPSILON,
    LEARNING_RATE,
    SCALAR_OPS_STEPS,
)

Params = dict[str, Any]
Function = Callable[..., Any]


def scalar_ops(x: Any) -> Any:
    """A chain of small operations."""
    y = x
    for _ in range(SCALAR_OPS_STEPS):
        y = torch.sin(y) * x
    return torch.sum(y)


def elementwise(x: Any) -> Any:
    """Memory-bound elementwise work and a reduction."""
    return torch.sum(torch.tanh(x) * torch.exp(-torch.square(x)) + torch.log1p(torch.square(x)))


def dense(params: Params, name: str, x: Any) -> Any:
    """An affine layer."""
    return F.linear(x, params[f"{name}_w"], params[f"{name}_b"])


def mlp(params: Params, images: Any, labels: Any) -> Any:
    """A perceptron of three layers."""
    hidden = F.relu(dense(params, "dense1", images))
    hidden = F.relu(dense(params, "dense2", hidden))
    return F.cross_entropy(dense(params, "dense3", hidden), labels)


def cnn(params: Params, images: Any, labels: Any) -> Any:
    """Two convolutions, a pool and two affine layers."""
    x = images
    for layer in ("conv1", "conv2"):
        x = F.relu(F.conv2d(x, params[f"{layer}_w"], params[f"{layer}_b"]))
    x = F.max_pool2d(x, 2)
    x = F.relu(dense(params, "dense1", x.flatten(1)))
    return F.cross_entropy(dense(params, "dense2", x), labels)


def attention(params: Params, name: str, x: Any) -> Any:
    """Causal self-attention."""
    batch, tokens, width = x.shape
    shape = (batch, tokens, ATTENTION_HEADS, width // ATTENTION_HEADS)
    query, key, value = (
        part.view(shape).transpose(1, 2)
        for part in dense(params, f"{name}_qkv", x).split(width, dim=-1)
    )
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return dense(params, f"{name}_out", mixed.transpose(1, 2).reshape(x.shape))


def gpt(params: Params, tokens: Any, targets: Any, causal: Any) -> Any:
    """A transformer that predicts the next token."""

    def norm(name: str, x: Any) -> Any:
        scale, bias = params[f"{name}_scale"], params[f"{name}_bias"]
        return F.layer_norm(x, x.shape[-1:], scale, bias, LAYER_NORM_EPSILON)

    x = F.embedding(tokens, params["embedding"]) + params["position"]
    for block in (f"block{index}" for index in range(BLOCKS)):
        x = x + attention(params, block, norm(f"{block}_norm1", x))
        hidden = dense(params, f"{block}_up", norm(f"{block}_norm2", x))
        x = x + dense(params, f"{block}_down", F.gelu(hidden, approximate="tanh"))
    logits = dense(params, "head", norm("norm", x))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def logreg(params: Params, features: Any, targets: Any) -> Any:
    """The mean logistic loss of targets 0 and 1, and a penalty."""
    logits = features @ params["w"] + params["b"]
    penalty = L2_PENALTY * params["w"].square().sum()
    return F.binary_cross_entropy_with_logits(logits, targets) + penalty


def tanh_regression(weights: Any, features: Any, targets: Any) -> Any:
    """The mean squared error of a tanh unit."""
    return F.mse_loss(torch.tanh(features @ weights), targets)


def example_loss(params: Params, image: Any, label: Any) -> Any:
    """The cross entropy of one example under a perceptron of two layers."""
    hidden = F.relu(dense(params, "dense1", image))
    return F.cross_entropy(dense(params, "dense2", hidden), label)


def layernorm(params: Params) -> Any:
    """The sum of squares of an array normalised by hand."""
    x = params["x"]
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, correction=0)
    normalised = (x - mean) / torch.sqrt(variance + LAYER_NORM_EPSILON)
    return (normalised * params["scale"] + params["bias"]).square().sum()


def rnn(params: Params, x: Any) -> Any:
    """A recurrent network in a Python loop over time."""
    hidden = params["hidden"]
    h = torch.zeros(x.shape[0], hidden.shape[0], dtype=x.dtype)
    for i in range(x.shape[1]):
        h = torch.tanh(x[:, i] @ params["input"] + h @ hidden + params["bias"])
    return h.square().mean()


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


def tensors(params: NumpyTree) -> Any:
    """Fresh tensors, with dense weights transposed to PyTorch's (out, in)."""

    def convert(name: str, array: NumpyArray) -> Any:
        is_dense = name.endswith("_w") and array.ndim == 2
        return torch.from_numpy((array.T if is_dense else array).copy())

    if isinstance(params, dict):
        return {name: convert(name, array) for name, array in params.items()}
    return convert("", params)


class Gradient:
    """A loss, or its value and gradients by `torch.autograd.grad`."""

    def __init__(self, problem: Problem, mode: Mode, compile: Function) -> None:
        self._loss = compile(LOSSES[problem.family])
        self._mode = mode
        self._params = tensors(problem.params)
        self._batch = tuple(map(torch.from_numpy, problem.batch))
        self._leaves = list(as_dict(self._params).values())
        for leaf in self._leaves:
            leaf.requires_grad_(mode == "grad")

    def reset(self) -> None:
        """Nothing to go back to."""

    def step(self) -> object:
        """Evaluate once."""
        loss = self._loss(self._params, *self._batch)
        return (loss, torch.autograd.grad(loss, self._leaves)) if self._mode == "grad" else loss

    def outcome(self) -> Outcome:
        """The loss and, unless only forward, the gradients."""
        result: Any = self.step()
        if self._mode == "forward":
            return Outcome(loss=float(result.mean()))
        return describe(result[0].item(), dict(zip(as_dict(self._params), result[1])))


class Training:
    """Backward into `.grad` and a step of `torch.optim.Adam`."""

    def __init__(self, problem: Problem, compile: Function) -> None:
        self._loss = compile(LOSSES[problem.family])
        self._initial = tensors(problem.params)
        self._params = tree_map(lambda leaf: leaf.clone().requires_grad_(), self._initial)
        self._batch = tuple(map(torch.from_numpy, problem.batch))
        self._optimizer = torch.optim.Adam(self._params.values(), lr=LEARNING_RATE)
        self._update = compile(self._optimizer.step)

    def reset(self) -> None:
        """Go back to the initial parameters and the optimizer's first state."""
        # In place: for other tensors or another optimizer a compiled step is compiled again.
        with torch.no_grad():
            tree_map(lambda leaf, initial: leaf.copy_(initial), self._params, self._initial)
            for moments in self._optimizer.state.values():
                for leaf in moments.values():
                    leaf.zero_()

    def forget(self) -> None:
        """Let go of the initial parameters: memory then holds what training itself needs."""
        self._initial = {}

    def addresses(self) -> dict[str, int]:
        """Where each parameter is."""
        return {name: leaf.data_ptr() for name, leaf in self._params.items()}

    def step(self) -> object:
        """One optimizer step."""
        self._optimizer.zero_grad()
        loss = self._loss(self._params, *self._batch)
        loss.backward()
        self._update()
        return loss

    def outcome(self) -> Outcome:
        """Loss and gradients at the start, and the loss after `TRAIN_STEPS` steps."""
        self.reset()
        start: Any = self.step()
        gradients = tree_map(lambda leaf: leaf.grad.clone(), self._params)
        for _ in range(TRAIN_STEPS - 1):
            self.step()
        trained: Any = self.step()
        self.reset()
        return describe(float(start.detach()), gradients, float(trained.detach()))


class Transformed:
    """Hessians and gradients per example by `torch.func`."""

    def __init__(self, problem: Problem, mode: Mode, compile: Function) -> None:
        loss = LOSSES[problem.family]
        if problem.kind == "per-example":
            self._loss: Function = torch.func.vmap(loss, in_dims=(None, 0, 0))
            differentiated: Function = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        else:
            self._loss, differentiated = loss, torch.func.hessian(loss)
        self._timed = compile(differentiated if mode == "grad" else self._loss)
        self._mode = mode
        self._arguments = (tensors(problem.params), *map(torch.from_numpy, problem.batch))

    def reset(self) -> None:
        """Nothing to go back to."""

    def step(self) -> object:
        """Evaluate once."""
        return self._timed(*self._arguments)

    def outcome(self) -> Outcome:
        """The mean loss and, unless only forward, what was differentiated."""
        loss = float(self._loss(*self._arguments).mean())
        return Outcome(loss) if self._mode == "forward" else describe(loss, self.step())


def uncompiled(function: Function) -> Function:
    """The function itself."""
    return function


def compiled(function: Function) -> Function:
    """What `torch.compile` makes of a function; it compiles on the first call.

    Raises:
        Unsupported: by the function that is returned, where it cannot be compiled.
    """
    run = torch.compile(function)

    def call(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except TorchDynamoException as error:
            raise Unsupported(f"{type(error).__name__}: {error}") from None

    return call


class TorchPeer:
    """PyTorch on the CPU."""

    asarray = staticmethod(torch.from_numpy)

    def __init__(self, compile: Function) -> None:
        self._compile = compile

    def version(self) -> str:
        """The installed version."""
        return str(torch.__version__)

    def set_threads(self, threads: int) -> None:
        """Limit the threads of an operation."""
        torch.set_num_threads(threads)

    def build(self, problem: Problem, mode: Mode) -> Case:
        """The case of a problem."""
        if problem.kind in ("hessian", "per-example"):
            return Transformed(problem, mode, self._compile)
        if problem.kind == "train" and mode == "grad":
            return Training(problem, self._compile)
        return Gradient(problem, mode, self._compile)


EAGER = TorchPeer(uncompiled)
COMPILED = TorchPeer(compiled)
