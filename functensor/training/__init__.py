"""Helps of training loops: progress, curves of losses, and grids of images.

>>> import functensor as ft
>>> for step in ft.training.progress(range(3), desc="fit"):
...     loss = 1.0 / (1 + step)
"""

from __future__ import annotations

from ..faces.publish import publish
from .curves import draw_curves, save_curves
from .images import image_grid, save_images
from .progress import Progress, progress

__all__ = [
    "Progress", "draw_curves", "image_grid", "progress", "save_curves", "save_images",
]  # fmt: skip

publish(globals())
