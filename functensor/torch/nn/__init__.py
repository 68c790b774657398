"""PyTorch's modules: ``torch.nn``.

>>> import functensor.torch as torch
>>> from functensor.torch import nn
>>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
>>> loss = nn.MSELoss()(model(torch.ones(4, 2)), torch.zeros(4, 1))
>>> loss.backward()
>>> model[0].weight.grad.shape
(8, 2)
"""

from __future__ import annotations

from ...faces.publish import publish
from ..deep_names import inner_modules
from . import (
    applied,
    containers,
    convolution,
    layers,
    lazy,
    normalization,
    recurrent,
    transformer,
)
from .applied import *
from .containers import *
from .convolution import *
from .layers import *
from .lazy import *
from .module import Module
from .normalization import *
from .parameter import Buffer, Parameter
from .recurrent import *
from .transformer import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {"attention", "functional", "init", "parallel", "utils"}

__all__ = ["Buffer", "Module", "Parameter"]
__all__ += applied.__all__
__all__ += containers.__all__
__all__ += convolution.__all__
__all__ += layers.__all__
__all__ += lazy.__all__
__all__ += normalization.__all__
__all__ += recurrent.__all__
__all__ += transformer.__all__

publish(globals(), made=inner_modules("nn"))
