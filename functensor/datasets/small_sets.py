"""Sets that scikit-learn brings with it, which are never fetched."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
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
    file = file_of_digits()
    if file is None:
        loaded = extra("sklearn.datasets", "examples").load_digits()
        return loaded.images, loaded.target.astype(np.int64)
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def file_of_digits() -> Path | None:
    """Returns scikit-learn's file, whose import takes seconds; None if it is not there."""
    found = find_spec("sklearn")
    folders = (found.submodule_search_locations or ()) if found is not None else ()
    files = [Path(folder) / "datasets" / "data" / "digits.csv.gz" for folder in folders]
    return next((file for file in files if file.is_file()), None)
