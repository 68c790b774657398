"""PyTorch's names: functions of tensors, and what works on their graphs.

>>> import functensor.torch as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> (first,) = torch.autograd.grad(x**2, x, create_graph=True)
>>> first.item()
6.0
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..backends.dtypes import named
from ..faces.publish import publish
from ..random.generator import (
    Generator,
    default_generator,
    initial_seed,
    manual_seed,
    seed,
)
from ..tensors import enable_grad, is_grad_enabled, no_grad, pairs, tensor
from ..tensors.absent_names import absent_reason
from ..tensors.functions import (
    along_axis,
    diagonals,
    indexing,
    kinds,
    placing,
    pointwise,
    products,
    reductions,
    shapes,
    short_time,
    solving,
)
from ..tensors.functions.along_axis import *
from ..tensors.functions.diagonals import *
from ..tensors.functions.indexing import *
from ..tensors.functions.kinds import *
from ..tensors.functions.placing import *
from ..tensors.functions.pointwise import *
from ..tensors.functions.products import *
from ..tensors.functions.reductions import *
from ..tensors.functions.shapes import *
from ..tensors.functions.short_time import *
from ..tensors.functions.solving import *
from ..tensors.pairs import *
from ..tensors.strides import as_strided
from . import (
    comparing,
    control_flow,
    creation,
    in_place,
    memory_formats,
    numerics,
    random_tensors,
    serialization,
    settings,
    tensor_types,
    types,
)
from .comparing import *
from .control_flow import *
from .creation import *
from .deep_names import DeepNames
from .in_place import *
from .memory_formats import *
from .numerics import *
from .outputs import TAKE_OUT, write_results
from .random import get_rng_state, set_rng_state
from .random_tensors import *
from .serialization import *
from .settings import *
from .tensor_types import *
from .types import *
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .amp import GradScaler, autocast
    from .compiled import compile
    from .func import vmap

    bfloat16: types.dtype[Any]

# Modules within this one that are imported when they are first used.
NAMESPACES = {
    "accelerator", "amp", "autograd", "backends", "compiler", "cuda", "distributions", "fft",
    "func", "linalg", "nn", "optim", "profiler", "random", "special", "testing", "torch_version",
    "utils",
}  # fmt: skip
# Functions that are imported when they are first used, by the module that has them.
LATE_FUNCTIONS = {
    "amp": "GradScaler autocast",
    "compiled": "compile",
    "func": "vmap",
    "layer_functions": (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout "
        "avg_pool1d batch_norm bilinear celu celu_ "
        "channel_shuffle constant_pad_nd conv1d conv2d conv3d conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_similarity dropout dropout_ embedding "
        "feature_alpha_dropout feature_dropout group_norm hardshrink instance_norm "
        "layer_norm max_pool1d max_pool1d_with_indices max_pool2d max_pool3d "
        "pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm rrelu "
        "rrelu_ selu selu_ threshold threshold_ "
    ),
    "older_functions": "range set_default_tensor_type",
}

__all__ = [
    "Generator", "GradScaler", "as_strided", "autocast", "compile", "default_generator",
    "enable_grad", "get_rng_state", "initial_seed", "is_grad_enabled", "manual_seed", "no_grad",
    "seed", "set_rng_state", "tensor", "vmap",
]  # fmt: skip
__all__ += along_axis.__all__
__all__ += comparing.__all__
__all__ += control_flow.__all__
__all__ += creation.__all__
__all__ += diagonals.__all__
__all__ += in_place.__all__
__all__ += indexing.__all__
__all__ += kinds.__all__
__all__ += memory_formats.__all__
__all__ += numerics.__all__
__all__ += pairs.__all__
__all__ += placing.__all__
__all__ += pointwise.__all__
__all__ += products.__all__
__all__ += random_tensors.__all__
__all__ += serialization.__all__
__all__ += reductions.__all__
__all__ += settings.__all__
__all__ += shapes.__all__
__all__ += short_time.__all__
__all__ += solving.__all__
__all__ += tensor_types.__all__
__all__ += types.__all__
__all__ += LATE_FUNCTIONS["layer_functions"].split()
__all__ += LATE_FUNCTIONS["older_functions"].split()

# The last of Python's finders: what is here by itself is found before.
sys.meta_path.append(DeepNames())

# NumPy has no bfloat16: its package is imported when it is asked for.
publish(
    globals(), late=LATE_FUNCTIONS, made={"bfloat16": lambda: named("bfloat16")},
    reason=absent_reason, outputs=(TAKE_OUT["torch"], write_results),
)  # fmt: skip
