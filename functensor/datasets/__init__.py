"""Data sets as NumPy arrays, and files in the format of MNIST's.

Nothing is fetched but by `mnist` and `fashion_mnist`, and not where the files are there.
"""

from __future__ import annotations

from ..faces.publish import publish
from .fetching import MissingFilesError
from .idx import read_idx, write_idx
from .image_sets import fashion_mnist, mnist
from .small_sets import digits

__all__ = ["MissingFilesError", "digits", "fashion_mnist", "mnist", "read_idx", "write_idx"]

publish(globals())
