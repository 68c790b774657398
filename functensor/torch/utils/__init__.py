"""PyTorch's ``torch.utils``: loaders of data, checkpoints, and handles of hooks."""

from __future__ import annotations

from ...faces.publish import publish
from ...tensors.absent_names import absent_reason

# Modules within this one that are imported when they are first used.
NAMESPACES = {"benchmark", "checkpoint", "data", "hooks"}

__all__: list[str] = []

publish(globals(), reason=absent_reason)
