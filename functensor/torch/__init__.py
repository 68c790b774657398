"""PyTorch's names for functions of tensors: scripts run with their imports changed.

>>> import functensor.torch as torch
>>> torch.tensor([1.0, 2.0]).sum().item()
3.0
"""

from __future__ import annotations

from ..faces.publish import publish
from ..tensors import Tensor, tensor

# Modules within this one that are imported when they are first used.
NAMESPACES = {"autograd", "nn", "optim", "utils"}

__all__ = ["Tensor", "tensor"]

publish(globals())
