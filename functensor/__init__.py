"""functensor: function transformations over NumPy, in pure Python.

``grad``, ``vjp``, ``jvp``, ``vmap`` and their kin transform functions of arrays;
``functensor.numpy`` is NumPy made of what they understand; ``Tensor`` is a mutable face over the
same machinery.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import numpy, tree
from .backends.errors.tracebacks import tidy
from .backends.errors.warnings import relocate_warnings
from .transforms.grad import grad, value_and_grad, vjp
from .transforms.device import config, default_device, devices, set_default_device, to_device
from .primitives.core.array import Array
from .primitives.core.shape_dtype import ShapeDtype
from .programs import Program
from .faces.publish import expose, no_such_name, publish
from .transforms.vmap import vmap

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
    from .checkpointing.checkpointed import checkpoint, remat
    from .transforms.collectives import (
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
    from .custom.rules import custom_gradient, custom_jvp, custom_vjp, stop_gradient, value
    from .transforms.jvp import elementwise_grad, hvp, jvp, linear_transpose, linearize
    from .tensors.grad_mode import enable_grad, is_grad_enabled, no_grad
    from .tensors.tensor import CpuTensor, CudaTensor, Tensor, tensor
    from .custom.root import custom_root
    from .transforms.jacobian import hessian, jacfwd, jacobian, jacrev
    from .jitting.jitted import disable_jit, jit
    from .checkpointing.names import checkpoint_name, optimization_barrier
    from .checkpointing.saved_residuals import print_saved_residuals, saved_residuals
    from .programs.named_scope import named_scope
    from .programs.staging import eval_shape, make_program
    from .custom.kernel_op import custom_op

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
    "custom_op": "custom.kernel_op",
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
