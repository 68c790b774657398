"""The workloads in PyTorch, eager (`EAGER`) and by `torch.compile` (`COMPILED`)."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import functools
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
from benchmarks.data import L2_PENALTY, LAYER_NORM_EPSILON, LEARNING_RATE
from benchmarks.peers.functional import identity
from benchmarks.peers.numpy_losses import Function, NumpyLosses, Params


class Losses(NumpyLosses):
    """The losses in PyTorch, by its own functions of networks."""

    np = torch
    relu = staticmethod(F.relu)
    gelu = staticmethod(functools.partial(F.gelu, approximate="tanh"))
    cross_entropies = staticmethod(F.cross_entropy)
    conv = staticmethod(F.conv2d)
    max_pool = staticmethod(functools.partial(F.max_pool2d, kernel_size=2))
    embedded = staticmethod(lambda table, tokens: F.embedding(tokens, table))

    def dense(self, params: Params, name: str, x: Any) -> Any:
        """An affine layer, of a weight of shape (out, in)."""
        return F.linear(x, params[f"{name}_w"], params[f"{name}_b"])

    def convolved(self, params: Params, name: str, x: Any) -> Any:
        """A convolution with a bias for each channel."""
        return F.conv2d(x, params[f"{name}_w"], params[f"{name}_b"])

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean cross entropy of integer labels."""
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())

    def norm(self, params: Params, name: str, x: Any) -> Any:
        """Layer normalisation over the last axis."""
        scale, bias = params[f"{name}_scale"], params[f"{name}_bias"]
        return F.layer_norm(x, x.shape[-1:], scale, bias, LAYER_NORM_EPSILON)

    def normalise(self, x: Any, scale: Any, bias: Any) -> Any:
        """The same, written by hand."""
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, correction=0)
        return (x - mean) / torch.sqrt(variance + LAYER_NORM_EPSILON) * scale + bias

    def attention(self, params: Params, name: str, x: Any, causal: Any) -> Any:
        """Causal self-attention."""
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        query, key, value = (
            part.view(shape).transpose(1, 2)
            for part in self.dense(params, f"{name}_qkv", x).split(width, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.dense(params, f"{name}_out", mixed.transpose(1, 2).reshape(x.shape))

    def logreg(self, params: Params, features: Any, targets: Any) -> Any:
        """The mean logistic loss of targets 0 and 1, and a penalty."""
        logits = features @ params["w"] + params["b"]
        penalty = L2_PENALTY * params["w"].square().sum()
        return F.binary_cross_entropy_with_logits(logits, targets) + penalty

    def tanh_regression(self, weights: Any, features: Any, targets: Any) -> Any:
        """The mean squared error of a tanh unit."""
        return F.mse_loss(torch.tanh(features @ weights), targets)


LOSSES = Losses().by_workload()


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
        self._compile = compile
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
        """The address of each parameter."""
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


def compiled(function: Function) -> Function:
    """Returns a function that `torch.compile` compiles on the first call.

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


EAGER = TorchPeer(identity)
COMPILED = TorchPeer(compiled)
