"""Files of trees: saved and loaded through safetensors, checked, and never pickled."""

from .checkpoints import Checkpoints, RestoredCheckpoint
from .file_errors import FileError, TreeMismatchError
from .loading import load, load_from, load_tensors, read_metadata
from .saving import content_of, save

__all__ = [
    "Checkpoints", "FileError", "RestoredCheckpoint", "TreeMismatchError", "content_of", "load",
    "load_from", "load_tensors", "read_metadata", "save",
]  # fmt: skip
