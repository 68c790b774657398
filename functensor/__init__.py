"""functensor: function transformations over NumPy, in pure Python.

``grad``, ``vjp``, ``jvp``, ``vmap`` and their kin transform functions of arrays;
``functensor.numpy`` is NumPy made of what they understand; ``Tensor`` is a mutable face over the
same machinery.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import numpy, tree
from .backends.tracebacks import tidy
from .backends.warned import relocate_warnings
from .gradients import grad, value_and_grad, vjp
from .placement import config, default_device, devices, set_default_device, to_device
from .primitives.array import Array
from .primitives.types import ShapeDtype
from .programs import Program
from .public import expose, no_such_name, publish
from .vectorize import vmap

if TYPE_CHECKING:
    from . import (
        checkpoint_policies,
        control,
        errors,
        extend,
        hooks,
        nn,
        optim,
        random,
        scipy,
        sparse,
        testing,
    )
    from .checkpointing import checkpoint, remat
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
    from .control import associative_scan, cond, fori_loop, scan, switch, while_loop
    from .custom import custom_gradient, custom_jvp, custom_vjp, stop_gradient, value
    from .derivatives import elementwise_grad, hvp, jvp, linear_transpose, linearize
    from .facade.mode import enable_grad, is_grad_enabled, no_grad
    from .facade.tensor import CpuTensor, CudaTensor, Tensor, tensor
    from .implicit import custom_root
    from .jacobians import hessian, jacfwd, jacobian, jacrev
    from .jitting import disable_jit, jit
    from .marks import checkpoint_name, optimization_barrier
    from .residuals import print_saved_residuals, saved_residuals
    from .scopes import named_scope
    from .staging import eval_shape, make_program
    from .user_ops import custom_op

__version__ = "0.1.0"

# What is imported when it is first used: namespaces, and names by the module that has them.
NAMESPACES = {
    "checkpoint_policies",
    "control",
    "errors",
    "extend",
    "hooks",
    "nn",
    "optim",
    "random",
    "scipy",
    "sparse",
    "testing",
}
MODULES = {
    "CpuTensor": "facade",
    "CudaTensor": "facade",
    "Tensor": "facade",
    "all_gather": "collectives",
    "associative_scan": "control",
    "axis_index": "collectives",
    "axis_size": "collectives",
    "checkpoint": "checkpointing",
    "checkpoint_name": "marks",
    "cond": "control",
    "custom_gradient": "custom",
    "custom_jvp": "custom",
    "custom_op": "user_ops",
    "custom_root": "implicit",
    "custom_vjp": "custom",
    "disable_jit": "jitting",
    "elementwise_grad": "derivatives",
    "enable_grad": "facade",
    "eval_shape": "staging",
    "fori_loop": "control",
    "hessian": "jacobians",
    "hvp": "derivatives",
    "is_grad_enabled": "facade",
    "jacfwd": "jacobians",
    "jacobian": "jacobians",
    "jacrev": "jacobians",
    "jit": "jitting",
    "jvp": "derivatives",
    "linear_transpose": "derivatives",
    "linearize": "derivatives",
    "make_program": "staging",
    "named_scope": "scopes",
    "no_grad": "facade",
    "optimization_barrier": "marks",
    "pmax": "collectives",
    "pmean": "collectives",
    "pmin": "collectives",
    "ppermute": "collectives",
    "print_saved_residuals": "residuals",
    "psum": "collectives",
    "psum_scatter": "collectives",
    "remat": "checkpointing",
    "saved_residuals": "residuals",
    "scan": "control",
    "stop_gradient": "custom",
    "switch": "control",
    "tensor": "facade",
    "value": "custom",
    "while_loop": "control",
}

__all__ = [
    "Array",
    "CpuTensor",
    "CudaTensor",
    "Program",
    "ShapeDtype",
    "Tensor",
    "all_gather",
    "associative_scan",
    "axis_index",
    "axis_size",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "cond",
    "config",
    "control",
    "custom_gradient",
    "custom_jvp",
    "custom_op",
    "custom_root",
    "custom_vjp",
    "default_device",
    "devices",
    "disable_jit",
    "elementwise_grad",
    "enable_grad",
    "errors",
    "eval_shape",
    "extend",
    "fori_loop",
    "grad",
    "hessian",
    "hooks",
    "hvp",
    "is_grad_enabled",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_program",
    "named_scope",
    "nn",
    "no_grad",
    "numpy",
    "optim",
    "optimization_barrier",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "print_saved_residuals",
    "psum",
    "psum_scatter",
    "random",
    "remat",
    "saved_residuals",
    "scan",
    "scipy",
    "set_default_device",
    "sparse",
    "stop_gradient",
    "switch",
    "tensor",
    "testing",
    "to_device",
    "tree",
    "value",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    if name in NAMESPACES or name in MODULES.values():
        return import_module(f".{name}", __name__)
    if name not in MODULES:
        try:
            raise no_such_name(globals(), name)
        except AttributeError as error:
            tidy(error)
            raise
    globals()[name] = getattr(import_module(f".{MODULES[name]}", __name__), name)
    return expose(globals(), name)


# Trees import nothing but the standard library.
publish(vars(tree), plain=("TreeDef",))
publish(globals(), plain=("Program", "ShapeDtype"))
relocate_warnings()
