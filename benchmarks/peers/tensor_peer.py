"""The workloads of `torch_peer` in functensor's tensors: its source, under another import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import functensor as ft
import functensor.torch as torch
from benchmarks.case import (
    TRAIN_STEPS,
    Case,
    Mode,
    Outcome,
    Problem,
    Unsupported,
    describe,
    tree_map,
)
from benchmarks.data import LEARNING_RATE
from benchmarks.peers.functensor_peer import Compiled
from benchmarks.peers.functional import Function, identity

REPLACED = {
    "import torch\nimport torch.nn.functional as F\n": "import functensor.torch as torch\n"
    "import functensor.torch.nn.functional as F\n",
    "from torch._dynamo.exc import TorchDynamoException\n": "TorchDynamoException = ()\n",
}


def with_our_imports() -> Any:
    """Returns the module of PyTorch's workloads as one of functensor's.

    Raises:
        RuntimeError: it no longer has the lines that are replaced.
    """
    path = Path(__file__).with_name("torch_peer.py")
    source = path.read_text()
    for theirs, ours in REPLACED.items():
        if source.count(theirs) != 1:
            raise RuntimeError(f"{path.name} does not have once: {theirs}")
        source = source.replace(theirs, ours)
    module = ModuleType("benchmarks.peers.torch_peer_on_functensor")
    sys.modules[module.__name__] = module
    exec(compile(source, f"{path}, with functensor.torch", "exec"), vars(module))
    return module


SOURCE = with_our_imports()


class WholeStep:
    """A step of training as one function of tensors: gradients and a pure optimizer's update."""

    def __init__(self, problem: Problem, compile: Function) -> None:
        self._gradients = torch.func.grad_and_value(SOURCE.LOSSES[problem.family])
        self._optimizer = ft.optim.adam(LEARNING_RATE)
        self._initial = SOURCE.tensors(problem.params)
        self._batch = tuple(map(torch.from_numpy, problem.batch))
        self._run = compile(self._update)
        self.reset()

    def _update(self, params: Any, state: Any, *batch: Any) -> tuple[Any, Any, Any]:
        gradients, value = self._gradients(params, *batch)
        return *self._optimizer.update(params, state, gradients), value

    def reset(self) -> None:
        """Go back to the initial parameters and the optimizer's first state."""
        self._params = tree_map(lambda leaf: leaf.clone(), self._initial)
        self._state = self._optimizer.init(self._params)

    def step(self) -> object:
        """One optimizer step."""
        self._params, self._state, value = self._run(self._params, self._state, *self._batch)
        return value

    def outcome(self) -> Outcome:
        """Loss and gradients at the start, and the loss after `TRAIN_STEPS` steps."""
        gradients, start = self._gradients(self._initial, *self._batch)
        self.reset()
        for _ in range(TRAIN_STEPS):
            self.step()
        trained: Any = self.step()
        self.reset()
        return describe(float(start), gradients, float(trained))


class TensorPeer(SOURCE.TorchPeer):  # type: ignore[misc, name-defined]
    """functensor's tensors on the CPU."""

    def version(self) -> str:
        """The installed version."""
        return ft.__version__


class BenchmarkPeer(TensorPeer):
    """The same where eager mode may take the quicker way, whose results differ by rounding."""

    def build(self, problem: Problem, mode: Mode) -> Case:
        """The case of a problem; there is no other peer in the process."""
        torch.backends.cudnn.benchmark = True
        case: Case = super().build(problem, mode)
        return case


class StepPeer(TensorPeer):
    """Training of functensor's tensors as a function of parameters and state."""

    def build(self, problem: Problem, mode: Mode) -> Case:
        """The case of a problem."""
        if problem.kind != "train" or mode != "grad":
            raise Unsupported("no training")
        return WholeStep(problem, self._compile)


EAGER = TensorPeer(identity)
BENCHMARK = BenchmarkPeer(identity)
JIT = TensorPeer(torch.compile)
STEP = StepPeer(Compiled)
