"""PyTorch's optimizers over the pure ones of `functensor.optim`, and schedules of their rates."""

from __future__ import annotations

from ...faces.publish import publish
from ...tensors.absent_names import absent_reason
from ..deep_names import inner_modules
from . import algorithms, rarer_algorithms
from .algorithms import *
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rarer_algorithms import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {"lr_scheduler", "swa_utils"}

__all__ = ["LBFGS", "Optimizer"]
__all__ += algorithms.__all__
__all__ += rarer_algorithms.__all__

publish(globals(), made=inner_modules("optim"), reason=absent_reason)
