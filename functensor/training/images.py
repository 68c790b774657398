"""Grids of images, as arrays and as files."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from ..backends.optional_modules import extra
from ..primitives.core.errors import misfit
from ..primitives.core.registry import registry as ops

__all__ = ["image_grid", "save_images"]


def image_grid(
    images: Any,
    *,
    columns: int = 8,
    padding: int = 2,
    normalize: bool = False,
    limits: tuple[float, float] | None = None,
    background: float = 0.0,
) -> np.ndarray[Any, Any]:
    """Returns images side by side as one, of numbers from 0 to 1.

    Args:
        images: of shape (number, channels, height, width) with 1, 3 or 4 channels; or
            (number, height, width), or (height, width) for one. Integers count from 0 to 255.
        columns: how many stand in a row at most.
        padding: how many pixels are between them, and around them.
        normalize: whether the least number becomes 0 and the greatest 1.
        limits: the numbers that become 0 and 1, in place of these.
        background: the number between images.

    Returns:
        An array of NumPy's of shape (height, width, channels), float32.

    Raises:
        ShapeError: the images have another shape.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.training.image_grid(np.ones((10, 1, 4, 4)), columns=5, padding=1).shape
    (11, 26, 1)
    """
    x = np.asarray(ops.to_device(ops.stop_gradient(images), "cpu"))
    given = x.shape
    if x.ndim == 2:
        x = x[None]
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim != 4 or x.shape[1] not in (1, 3, 4):
        raise misfit(
            f"image_grid: images of shape {given}",
            "give (number, channels, height, width), with 1, 3 or 4 channels",
        )
    values = x.astype(np.float32) / 255 if x.dtype.kind in "iu" else x.astype(np.float32)
    if normalize or limits is not None:
        known = values[np.isfinite(values)]
        low, high = limits or (float(known.min(initial=0)), float(known.max(initial=1)))
        if limits is None and known.size:
            low, high = float(known.min()), float(known.max())
        values = (values - low) / (high - low if high > low else 1)
    values = np.clip(np.nan_to_num(values), 0, 1)
    number, channels, height, width = values.shape
    across = max(min(columns, number), 1)
    down = max(-(-number // across), 1)
    shape = down * (height + padding) + padding, across * (width + padding) + padding
    out = np.full((*shape, channels), background, np.float32)
    for i, image in enumerate(values):
        top = padding + (i // across) * (height + padding)
        left = padding + (i % across) * (width + padding)
        out[top : top + height, left : left + width] = image.transpose(1, 2, 0)
    return out


def save_images(path: str | PathLike[str], images: Any, **options: Any) -> None:
    """Writes a grid of images, in the format that the name's ending says.

    Args:
        path: the file.
        images, options: as for `image_grid`.

    Raises:
        MissingExtraError: matplotlib is not installed.

    >>> import functensor as ft, functensor.numpy as np, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> ft.training.save_images(os.path.join(folder.name, "x.png"), np.ones((3, 3, 8, 8)))
    >>> os.listdir(folder.name)
    ['x.png']
    >>> folder.cleanup()
    """
    grid = image_grid(images, **options)
    pictures = extra("matplotlib.image", "plot")
    pictures.imsave(path, np.repeat(grid, 3, 2) if grid.shape[2] == 1 else grid)
