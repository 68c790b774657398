"""Functions over parameters, gradients and sequences: ``torch.nn.utils``."""

from __future__ import annotations

from ....faces.publish import publish
from . import gradients
from .gradients import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {"parametrizations", "parametrize", "prune", "rnn", "stateless"}

# Functions that are imported when they are first used, by the module that has them.
LATE_NORMS = {
    "weight_norms": "remove_spectral_norm remove_weight_norm spectral_norm weight_norm",
}

__all__ = list(gradients.__all__)
__all__ += LATE_NORMS["weight_norms"].split()

publish(globals(), late=LATE_NORMS)
