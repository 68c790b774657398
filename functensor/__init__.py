"""functensor: function transformations over NumPy, in pure Python.

``grad``, ``vjp``, ``jvp``, ``vmap`` and their kin transform functions of arrays;
``functensor.numpy`` is NumPy made of what they understand; ``Tensor`` is a mutable face over the
same machinery.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from . import numpy, tree
from .backends.errors.warnings import relocate_warnings
from .backends.plan_makers import PLAN_MAKERS
from .faces.old_pickles import OldNames
from .faces.publish import publish
from .primitives.core.array import Array
from .primitives.core.shape_dtype import ShapeDtype
from .programs import Program
from .traces.reverse import WALKS
from .transforms.device import config, default_device, devices, set_default_device, to_device
from .transforms.grad import grad, value_and_grad, vjp
from .transforms.vmap import vmap

if TYPE_CHECKING:
    from . import (
        checkpoint_policies,
        control,
        data,
        datasets,
        distributed,
        errors,
        extend,
        hooks,
        nn,
        optim,
        random,
        scipy,
        sparse,
        testing,
        torch,
        training,
    )
    from .checkpointing.checkpointed import checkpoint, remat
    from .checkpointing.names import checkpoint_name, optimization_barrier, tag
    from .checkpointing.saved_residuals import print_saved_residuals, saved_residuals
    from .control.associative import associative_scan
    from .control.cond import cond, switch
    from .control.scan import scan
    from .control.while_loop import fori_loop, while_loop
    from .custom.kernel_op import custom_op
    from .custom.root import custom_root
    from .custom.rules import custom_gradient, custom_jvp, custom_vjp, stop_gradient, value
    from .drawing import draw
    from .faces.feature_table import features
    from .files import Checkpoints, load, read_metadata, save
    from .jitting.jitted import disable_jit, jit
    from .programs.named_scope import named_scope, scope
    from .programs.staging import eval_shape, make_program
    from .tensors.grad_mode import enable_grad, is_grad_enabled, no_grad
    from .tensors.tensor import Tensor, tensor
    from .tensors.tensor_kinds import CpuTensor, CudaTensor
    from .transforms.collectives import (
        all_gather,
        all_to_all,
        axis_index,
        axis_size,
        pmax,
        pmean,
        pmin,
        ppermute,
        psum,
        psum_scatter,
    )
    from .transforms.jacobian import hessian, jacfwd, jacobian, jacrev
    from .transforms.jvp import elementwise_grad, hvp, jvp, linearize
    from .transforms.linear_functions import linear_transpose

__version__ = "0.1.0"

sys.meta_path.append(OldNames())
# Hooks are there once somebody wants them.
config.checks["check_buffers"] = lambda: import_module(
    ".checks.written_buffers", __name__
).checking_buffers()
config.checks["check_finite"] = lambda: import_module(".hooks.finite", __name__).checking_finite()
# Machine code of single primitives is made once large ones have taken a while.
PLAN_MAKERS.append(
    lambda: import_module(".jitting.eager_plans", __name__).plan_of_primitive
)
# Backward passes over graphs that were met before have plans where that is allowed.
WALKS.by_plan = lambda *args: import_module(".jitting.backward_plans", __name__).walk_by_plan(*args)
# A picture is there once a notebook asks for it.
Program.html = staticmethod(
    lambda program: import_module(".drawing.notebook", __name__).program_html(program)
)

# Namespaces, and names by the module that has them, that are imported when they are first used.
NAMESPACES = {
    "checkpoint_policies", "control", "data", "datasets", "distributed", "errors", "extend",
    "hooks", "nn", "optim", "random", "scipy", "sparse", "testing", "torch", "training",
}  # fmt: skip
LATE_NAMES = {
    "checkpointing.checkpointed": "checkpoint remat",
    "checkpointing.names": "checkpoint_name optimization_barrier tag",
    "checkpointing.saved_residuals": "print_saved_residuals saved_residuals",
    "control": "associative_scan cond fori_loop scan switch while_loop",
    "custom.kernel_op": "custom_op",
    "custom.root": "custom_root",
    "custom.rules": "custom_gradient custom_jvp custom_vjp stop_gradient value",
    "drawing": "draw",
    "files": "Checkpoints load read_metadata save",
    "faces.feature_table": "features",
    "jitting.jitted": "disable_jit jit",
    "programs.named_scope": "named_scope scope",
    "programs.staging": "eval_shape make_program",
    "tensors": "CpuTensor CudaTensor Tensor enable_grad is_grad_enabled no_grad tensor",
    "transforms.collectives": "all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute "
    "psum psum_scatter",
    "transforms.jacobian": "hessian jacfwd jacobian jacrev",
    "transforms.jvp": "elementwise_grad hvp jvp linearize",
    "transforms.linear_functions": "linear_transpose",
}

__all__ = [
    "Array", "Checkpoints", "CpuTensor", "CudaTensor", "Program", "ShapeDtype", "Tensor",
    "all_gather", "all_to_all", "associative_scan", "axis_index", "axis_size", "checkpoint",
    "checkpoint_name", "checkpoint_policies", "cond", "config", "control", "custom_gradient",
    "custom_jvp", "custom_op", "custom_root", "custom_vjp", "data", "datasets", "default_device",
    "devices", "disable_jit", "distributed", "draw", "elementwise_grad", "enable_grad", "errors",
    "eval_shape", "extend", "features", "fori_loop", "grad", "hessian", "hooks", "hvp",
    "is_grad_enabled", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "linear_transpose",
    "linearize", "load", "make_program", "named_scope", "nn", "no_grad", "numpy", "optim",
    "optimization_barrier", "pmax", "pmean", "pmin", "ppermute", "print_saved_residuals", "psum",
    "psum_scatter", "random", "read_metadata", "remat", "save", "saved_residuals", "scan", "scipy",
    "scope", "set_default_device", "sparse", "stop_gradient", "switch", "tag", "tensor", "testing",
    "to_device", "torch", "training", "tree", "value", "value_and_grad", "vjp", "vmap",
    "while_loop",
]  # fmt: skip

# Trees import nothing but the standard library.
publish(vars(tree), plain=("TreeDef",))
publish(globals(), plain=("Program", "ShapeDtype"), late=LATE_NAMES)
relocate_warnings()
