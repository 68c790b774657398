"""Numbers added to the channels of images, in the images' own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["add_to_channels"]

# NumPy's loop over fewer elements takes as long to begin as to run.
FEWEST_OF_A_LOOP = 1024


def add_to_channels(images: Buffer, numbers: Buffer) -> None:
    """Adds a number for each channel to NumPy's arrays of shape (batch, channels, *spatial).

    Results have the bits of a sum that is broadcast. Where channels lie last in memory, the numbers
    are laid side by side, so that loops go over several places at once.
    """
    channels, *spatial = images.shape[1:]
    lying = images.transpose(0, *range(2, images.ndim), 1)
    if not images.size or not lying.flags.c_contiguous:
        np.add(images, numbers.reshape(channels, *(1,) * len(spatial)), images)
        return
    places = 1
    for length in reversed(spatial):
        if places * channels >= FEWEST_OF_A_LOOP:
            break
        places *= length
    rows = lying.reshape(-1, places * channels)
    np.add(rows, np.tile(numbers, places), rows)
