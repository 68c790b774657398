"""The workloads of `torch_peer` in functensor's tensors: its source, under another import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import functensor as ft
import functensor.torch as torch
from benchmarks.case import tree_map
from benchmarks.data import LEARNING_RATE
from benchmarks.peers.functional import identity

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


class Training(SOURCE.Training):  # type: ignore[misc, name-defined]
    """A step of training, whose optimizer begins anew by another of its kind."""

    def reset(self) -> None:
        """Go back to the initial parameters and the optimizer's first state."""
        with torch.no_grad():
            tree_map(lambda leaf, initial: leaf.copy_(initial), self._params, self._initial)
        self._optimizer = torch.optim.Adam(self._params.values(), lr=LEARNING_RATE)
        self._update = self._compile(self._optimizer.step)


class TensorPeer(SOURCE.TorchPeer):  # type: ignore[misc, name-defined]
    """functensor's tensors on the CPU."""

    def version(self) -> str:
        """The installed version."""
        return ft.__version__


SOURCE.Training = Training
EAGER = TensorPeer(identity)
JIT = TensorPeer(torch.compile)
