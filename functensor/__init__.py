"""functensor: function transformations over NumPy, in pure Python.

``grad``, ``vjp``, ``jvp``, ``vmap`` and their kin transform functions of arrays;
``functensor.numpy`` is NumPy made of what they understand; ``Tensor`` is a mutable face over the
same machinery.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import numpy, tree
from .collectives import (
    all_gather,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)
from .custom import custom_gradient, custom_jvp, custom_vjp, stop_gradient, value
from .derivatives import elementwise_grad, hvp, jvp, linear_transpose, linearize
from .gradients import grad, value_and_grad, vjp
from .jacobians import hessian, jacfwd, jacobian, jacrev
from .placement import config, default_device, devices, to_device
from .primitives.array import Array
from .primitives.types import ShapeDtype
from .staging import Program, eval_shape, make_program
from .vectorize import vmap

if TYPE_CHECKING:
    from . import extend, hooks, nn, optim, random, scipy, sparse, testing
    from .checkpointing import checkpoint, remat
    from .facade.mode import enable_grad, is_grad_enabled, no_grad
    from .facade.tensor import CpuTensor, CudaTensor, Tensor, tensor
    from .implicit import custom_root
    from .user_ops import custom_op

__version__ = "0.1.0"

# What is imported when it is first used: namespaces, and names by the module that has them.
NAMESPACES = {"extend", "hooks", "nn", "optim", "random", "scipy", "sparse", "testing"}
MODULES = {
    "CpuTensor": "facade",
    "CudaTensor": "facade",
    "Tensor": "facade",
    "checkpoint": "checkpointing",
    "custom_op": "user_ops",
    "custom_root": "implicit",
    "enable_grad": "facade",
    "is_grad_enabled": "facade",
    "no_grad": "facade",
    "remat": "checkpointing",
    "tensor": "facade",
}

__all__ = [
    "Array",
    "CpuTensor",
    "CudaTensor",
    "Program",
    "ShapeDtype",
    "Tensor",
    "all_gather",
    "axis_index",
    "axis_size",
    "checkpoint",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_op",
    "custom_root",
    "custom_vjp",
    "default_device",
    "devices",
    "elementwise_grad",
    "enable_grad",
    "eval_shape",
    "extend",
    "grad",
    "hessian",
    "hooks",
    "hvp",
    "is_grad_enabled",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_program",
    "nn",
    "no_grad",
    "numpy",
    "optim",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "random",
    "remat",
    "scipy",
    "sparse",
    "stop_gradient",
    "tensor",
    "testing",
    "to_device",
    "tree",
    "value",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> Any:
    if name in NAMESPACES:
        return import_module(f".{name}", __name__)
    if name not in MODULES:
        raise AttributeError(f"functensor has no {name!r}")
    value = globals()[name] = getattr(import_module(f".{MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
