"""PyTorch's functions of graphs: gradients, and functions with rules of their own."""

from __future__ import annotations

from ...faces.publish import publish
from ...tensors.grad_mode import enable_grad, no_grad
from ..deep_names import inner_modules
from . import functional, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .checks import gradcheck, gradgradcheck
from .function import Function, FunctionCtx, once_differentiable
from .graphs import backward, grad
from .variables import Variable

# Modules within this one that are imported when they are first used.
NAMESPACES = {"forward_ad"}

__all__ = [
    "Function", "FunctionCtx", "Variable", "backward", "detect_anomaly", "enable_grad",
    "functional", "grad", "gradcheck", "gradgradcheck", "graph", "no_grad",
    "once_differentiable", "set_detect_anomaly",
]  # fmt: skip

publish(globals(), made=inner_modules("autograd"))
