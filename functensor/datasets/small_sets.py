"""Sets that scikit-learn brings with it, which are never fetched."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.optional_modules import extra

__all__ = ["digits"]


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns 1797 handwritten digits of 8 by 8 pixels, which scikit-learn brings with it.

    Returns:
        Two NumPy arrays: images of float64 from 0 to 16, of shape ``(1797, 8, 8)``, and labels of
        int64, of shape ``(1797,)``.

    Raises:
        MissingExtraError: scikit-learn is not installed; the extra ``examples`` brings it.

    >>> from functensor import datasets
    >>> images, labels = datasets.digits()
    >>> images.shape, images.max(), labels[:5].tolist()
    ((1797, 8, 8), np.float64(16.0), [0, 1, 2, 3, 4])
    """
    loaded = extra("sklearn.datasets", "examples").load_digits()
    return loaded.images, loaded.target.astype(np.int64)
