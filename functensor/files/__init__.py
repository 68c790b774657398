"""Files of trees: saved and loaded through safetensors, checked, and never pickled."""

from .checkpoints import Checkpoints, RestoredCheckpoint
from .file_errors import FileError, TreeMismatchError
from .loading import load, load_from, load_tensors, read_metadata
from .saving import save, save_into

__all__ = [
    "Checkpoints", "FileError", "RestoredCheckpoint", "TreeMismatchError", "load", "load_from",
    "load_tensors", "read_metadata", "save", "save_into",
]  # fmt: skip
