"""PyTorch's ``torch.utils``: loaders of data."""

from __future__ import annotations

from ...faces.publish import publish

# Modules within this one that are imported when they are first used.
NAMESPACES = {"data"}

__all__: list[str] = []

publish(globals())
