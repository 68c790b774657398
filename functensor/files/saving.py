"""Writes trees into safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..backends.annotations import Buffer
from ..backends.optional_modules import extra
from ..primitives.core.errors import failure
from .file_errors import path_text
from .reading import LONGEST_HEADER, NOTE, array_checksum, checksum_of_text
from .safe_write import write_whole
from .stored_dtypes import dtype_code
from .tree_format import TreeWriter

__all__ = ["content_of", "save"]


def save(
    path: str | PathLike[str], tree: Any, *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Writes a tree into a safetensors file, which takes the place of an old one in one step.

    Needs the extra ``serialization``. Nothing is pickled. Arrays on a GPU are copied to the host.
    The file is on the disk when the function returns; until then the old one stays.

    Args:
        path: the file, by custom with the ending ``.safetensors``.
        tree: nested dicts, lists, tuples, named tuples and dataclasses of arrays, NumPy arrays,
            tensors, numbers, text and None. Objects with ``state_dict`` and ``load_state_dict``,
            as modules and optimizers, are saved by their state; `random.KeyStream` and
            ``torch.Generator`` too.
        metadata: what else is to be in the file, of text, numbers, booleans, None, lists and
            dicts; `read_metadata` returns it.

    Raises:
        ConcretizationError: an array's values are not known, under vmap or while staging.
        MissingExtraError: safetensors is not installed.
        OSError: the file cannot be written.
        TypeError: a leaf, or the metadata, is nothing that files hold.
        ValueError: the tree has too many leaves, millions of numbers for instance.

    >>> import tempfile
    >>> import functensor as ft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ft.save(f"{folder}/tree.safetensors", {"w": ft.numpy.ones(2), "step": 3})
    ...     ft.load(f"{folder}/tree.safetensors")
    {'w': Array([1., 1.], dtype=float64, device='cpu'), 'step': 3}
    """
    name = path_text(path)
    library = extra("safetensors", "serialization")
    numpy_files = extra("safetensors.numpy", "serialization")
    arrays, notes = _contents(tree, metadata)

    def write(temporary: Path) -> None:
        try:
            numpy_files.save_file(arrays, temporary, notes)
        except library.SafetensorError as error:
            raise OSError(f"{name} was not written: {error}") from None

    write_whole(Path(name), write)


def content_of(tree: Any) -> bytes:
    """Returns the bytes of the file that `save` would write."""
    numpy_files = extra("safetensors.numpy", "serialization")
    arrays, notes = _contents(tree, None)
    content: bytes = numpy_files.save(arrays, notes)
    return content


def _contents(
    tree: Any, metadata: Mapping[str, Any] | None
) -> tuple[dict[str, Buffer], dict[str, str]]:
    """Returns the arrays of a file by their names, and its notes."""
    writer = TreeWriter()
    structure: dict[str, Any] = {"version": 1, "tree": writer.whole(tree)}
    if metadata is not None:
        structure["metadata"] = _as_json(metadata)
    structure["checksums"] = {
        name: array_checksum(name, dtype_code(x.dtype), x.shape, x.reshape(-1).view(np.uint8))
        for name, x in writer.arrays.items()
    }
    text = json.dumps(structure, allow_nan=False, separators=(",", ":"))
    # Quotes are written as two characters, and every array has a line of its own.
    length = len(text) + text.count('"') + text.count("\\")
    length += sum(2 * len(name.encode()) + LINE_OF_ARRAY for name in writer.arrays)
    if length > LONGEST_HEADER:
        raise failure(
            ValueError,
            f"save: the tree has so many leaves that the header would have {length} bytes, and "
            f"files have at most {LONGEST_HEADER}",
            fix="np.stack(arrays) of small arrays, or np.asarray(numbers) of a list of numbers",
            number=None,
        )
    return writer.arrays, {NOTE: f"{checksum_of_text(text):08x} {text}"}


# The header has so many bytes for an array, at most, beside its name and its axes.
LINE_OF_ARRAY = 160


def _as_json(metadata: Mapping[str, Any]) -> Any:
    """Returns metadata as JSON has them.

    Raises:
        TypeError: they are no tree of text, finite numbers, booleans and None.
    """
    try:
        found = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_metadata(str(error)) from None
    if not isinstance(found, dict):
        raise _no_metadata(f"it is of type {type(metadata).__name__}")
    return found


def _no_metadata(reason: str) -> TypeError:
    return failure(
        TypeError,
        f"save: metadata is no dict that JSON can hold: {reason}",
        fix='metadata={"name": "first", "loss": float(loss)}; arrays belong into the tree',
        number=None,
    )
