"""functensor: function transformations over NumPy, in pure Python.

``grad``, ``vjp``, ``jvp``, ``vmap`` and their kin transform functions of arrays;
``functensor.numpy`` is NumPy made of what they understand; ``Tensor`` is a mutable face over the
same machinery.
"""

from __future__ import annotations

from . import hooks, nn, numpy, optim, random, scipy, testing, tree
from .custom import custom_jvp, custom_vjp, stop_gradient, value
from .derivatives import hessian, hvp, jacfwd, jacrev, jvp, linearize
from .facade import CpuTensor, CudaTensor, Tensor, enable_grad, is_grad_enabled, no_grad, tensor
from .gradients import grad, value_and_grad, vjp
from .primitives.array import Array
from .primitives.types import ShapeDtype
from .staging import Program, eval_shape, make_program
from .vectorize import vmap

__version__ = "0.1.0"

__all__ = [
    "Array",
    "CpuTensor",
    "CudaTensor",
    "Program",
    "ShapeDtype",
    "Tensor",
    "custom_jvp",
    "custom_vjp",
    "enable_grad",
    "eval_shape",
    "grad",
    "hessian",
    "hooks",
    "hvp",
    "is_grad_enabled",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "make_program",
    "nn",
    "no_grad",
    "numpy",
    "optim",
    "random",
    "scipy",
    "stop_gradient",
    "tensor",
    "testing",
    "tree",
    "value",
    "value_and_grad",
    "vjp",
    "vmap",
]
