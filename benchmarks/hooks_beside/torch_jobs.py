"""The jobs in PyTorch, eager: module and tensor hooks, modes, anomaly detection, the profiler."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, misc"

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.hooks_beside import jobs
from benchmarks.hooks_beside.jobs import Compile, Jobs, Run

JOBS: Jobs = {}
entered = jobs.entering(JOBS)
X = torch.from_numpy(jobs.X)
POSITIVE = torch.ones(jobs.ROWS, jobs.WIDTH)


class Model(nn.Module):
    """The model: `block` ends with the second hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        linear = [nn.Linear(jobs.WIDTH, jobs.WIDTH, bias=False) for _ in range(3)]
        for layer, w in zip(linear, jobs.WEIGHTS):
            layer.weight.data = torch.from_numpy(w.T.copy())
        self.block = nn.Sequential(linear[0], nn.Tanh(), linear[1], nn.Tanh())
        self.last = linear[2]

    def forward(self, x: Any) -> Any:
        """The loss."""
        return (self.last(self.block(x)) ** 2).sum()

    def gradient(self) -> list[Any]:
        """The gradients by the weights, transposed as the other libraries have them."""
        return [g.T for g in torch.autograd.grad(self(X), list(self.parameters()))]


def log_loss(x: Any) -> Any:
    """A sum of logarithms, and of more operations after it."""
    return (torch.tanh(torch.log(x)) * 2).sum()


def sqrt_gradient(x: Any) -> Any:
    """A gradient that is zero over zero where x is zero."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(torch.where(x > 0, torch.sqrt(x), 0).sum(), x)[0]


def without_grad(model: Any) -> Any:
    """The loss, with nothing remembered for a backward pass."""
    with torch.no_grad():
        return model(X)


def plain(kind: str, compile: Compile) -> Run:
    """Returns the work without tools."""
    model = Model()
    works = {"forward": lambda: without_grad(model), "gradient": model.gradient}
    works |= {"log": lambda: log_loss(POSITIVE), "sqrt": lambda: sqrt_gradient(POSITIVE)}
    return works[kind]


@entered("look at every operation", "forward")
def every_operation(compile: Compile) -> Run:
    model = Model()
    class Looking(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            seen.append((str(func), out))
            return out
    seen: list[Any] = []
    def run():
        seen.clear()
        with Looking():
            without_grad(model)
        return [name for name, out in seen]
    return run


@entered("look at a layer's activations", "forward")
def activations(compile: Compile) -> Run:
    model, seen = Model(), {}
    model.block.register_forward_hook(lambda module, inputs, out: seen.update(hidden=out))
    return lambda: (without_grad(model), seen["hidden"])[1]


@entered("gradient of a value on the way", "gradient")
def gradient_of_value(compile: Compile) -> Run:
    model, seen = Model(), {}
    model.block.register_full_backward_hook(lambda module, ins, outs: seen.update(hidden=outs[0]))
    return lambda: (model.gradient(), seen["hidden"])[1]


@entered("replace a value", "forward")
def replace(compile: Compile) -> Run:
    model = Model()
    model.block.register_forward_hook(lambda module, inputs, out: out.clamp(max=jobs.CEILING))
    return lambda: without_grad(model)


@entered("clip gradients inside", "gradient")
def clip(compile: Compile) -> Run:
    model, limit = Model(), jobs.LIMIT
    def hook(module, inputs, out):
        out.register_hook(lambda g: g.clamp(-limit, limit))
    model.block.register_forward_hook(hook)
    return lambda: model.gradient()[1]


@entered("first NaN, forward", "log")
def nan_forward(compile: Compile) -> Run:
    class Checking(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if not bool(torch.isfinite(out).all()):
                raise FloatingPointError(str(func))
            return out
    def run(x=POSITIVE):
        with Checking():
            return log_loss(x)
    return run


@entered("first NaN, backward", "sqrt")
def nan_backward(compile: Compile) -> Run:
    def run(x=POSITIVE):
        with torch.autograd.detect_anomaly():
            return sqrt_gradient(x)
    return run


@entered("time per operation", "gradient")
def time_per_operation(compile: Compile) -> Run:
    model = Model()
    def run():
        with torch.profiler.profile() as profile:
            model.gradient()
        return {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return run


@entered("memory per scope", "forward")
def memory_per_scope(compile: Compile) -> Run:
    model = Model()
    def run():
        profiling = torch.profiler.profile(profile_memory=True)
        with profiling as profile, torch.no_grad(), torch.profiler.record_function("block"):
            out = model.block(X)
        del out
        return {event.key: event.cpu_memory_usage for event in profile.key_averages()}
    return run


@entered("offload what backward saved", "gradient")
def offload(compile: Compile) -> Run:
    model = Model()
    def run():
        with torch.autograd.graph.save_on_cpu():
            return model.gradient()[2]
    return run


@entered("convert all that backward saved", "gradient")
def convert(compile: Compile) -> Run:
    pack, unpack = lambda x: x.double(), lambda x: x.float()
    model = Model()
    def run():
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return model.gradient()[2]
    return run
