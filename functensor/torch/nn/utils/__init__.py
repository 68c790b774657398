"""Functions over parameters, gradients and sequences: ``torch.nn.utils``."""

from __future__ import annotations

from ....faces.publish import publish
from . import gradients
from .gradients import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {"rnn"}

__all__ = list(gradients.__all__)

publish(globals())
