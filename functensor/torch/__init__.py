"""PyTorch's names for what works on graphs of tensors; its functions and modules are not here yet.

>>> import functensor.torch as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> (first,) = torch.autograd.grad(x**2, x, create_graph=True)
>>> first.item()
6.0
"""

from __future__ import annotations

from ..faces.publish import publish
from ..tensors import Tensor, enable_grad, is_grad_enabled, no_grad, tensor

# Modules within this one that are imported when they are first used.
NAMESPACES = {"autograd"}

__all__ = ["Tensor", "enable_grad", "is_grad_enabled", "no_grad", "tensor"]

publish(globals())
