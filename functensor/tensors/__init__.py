"""The mutable, PyTorch-like face: ``Tensor``, over the same nodes and primitives as all else."""

from __future__ import annotations

from ..faces.publish import expose_class
from .face import TracedTensor
from .grad_mode import GradMode, enable_grad, is_grad_enabled, no_grad
from .graphs import run_backward
from .late import Late
from .missing_gradients import gradient_of, missing_reason
from .shared_memory import InMemory, tensor_over
from .tensor import Tensor, tensor
from .tensor_kinds import CpuTensor, CudaTensor

__all__ = [
    "CpuTensor", "CudaTensor", "GradMode", "InMemory", "Late", "Tensor", "TracedTensor",
    "enable_grad", "gradient_of", "is_grad_enabled", "missing_reason", "no_grad", "run_backward",
    "tensor", "tensor_over",
]  # fmt: skip

# Tensors have all their methods, whichever name is asked for first.
expose_class(Tensor, public="functensor.Tensor", others=("Array",))
