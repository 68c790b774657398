"""PyTorch's ``torch.utils``: loaders of data, checkpoints, and handles of hooks."""

from __future__ import annotations

from ...faces.publish import publish

# Modules within this one that are imported when they are first used.
NAMESPACES = {"benchmark", "checkpoint", "data", "hooks"}

__all__: list[str] = []

publish(globals())
