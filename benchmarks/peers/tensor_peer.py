"""The workloads of `torch_peer` in functensor's tensors: its source, under another import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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


EAGER = with_our_imports().TorchPeer(identity)
