"""PyTorch's names: functions of tensors, and what works on their graphs.

>>> import functensor.torch as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> (first,) = torch.autograd.grad(x**2, x, create_graph=True)
>>> first.item()
6.0
"""

from __future__ import annotations

from ..faces.publish import publish
from ..random.generator import (
    Generator,
    default_generator,
    initial_seed,
    manual_seed,
    seed,
)
from ..tensors import Tensor, enable_grad, is_grad_enabled, no_grad, tensor
from ..tensors.functions import along_axis, indexing, pointwise, products, reductions, shapes
from ..tensors.functions.along_axis import *
from ..tensors.functions.indexing import *
from ..tensors.functions.pointwise import *
from ..tensors.functions.products import *
from ..tensors.functions.reductions import *
from ..tensors.functions.shapes import *
from . import comparing, creation, random, types
from .comparing import *
from .creation import *
from .random import *
from .types import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {
    "autograd", "distributions", "fft", "func", "linalg", "nn", "optim", "special",
}  # fmt: skip

__all__ = [
    "Generator", "Tensor", "default_generator", "enable_grad", "initial_seed", "is_grad_enabled",
    "manual_seed", "no_grad", "seed", "tensor",
]  # fmt: skip
__all__ += along_axis.__all__
__all__ += comparing.__all__
__all__ += creation.__all__
__all__ += indexing.__all__
__all__ += pointwise.__all__
__all__ += products.__all__
__all__ += random.__all__
__all__ += reductions.__all__
__all__ += shapes.__all__
__all__ += types.__all__

publish(globals())
