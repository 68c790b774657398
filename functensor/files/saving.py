"""Writes trees into safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..backends.annotations import Buffer
from ..backends.optional_modules import extra
from ..primitives.core.errors import failure
from .file_errors import path_text
from .reading import LONGEST_HEADER, NOTE, array_checksum, checksum_of_text
from .safe_write import write_whole
from .stored_dtypes import dtype_code
from .tree_format import TreeWriter

__all__ = ["save", "save_into"]


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
    header, arrays = _contents(tree, metadata)

    def check(temporary: Path) -> None:
        # The library's own reader is asked before the old file is gone.
        with library.safe_open(temporary, "numpy") as opened:
            opened.keys()

    try:
        write_whole(Path(name), lambda file: _write(file, header, arrays), check)
    except OSError as error:
        # A full disk has no name, and the temporary file's is nobody's business.
        raise OSError(error.errno, error.strerror, name) from None


def save_into(file: IO[bytes], tree: Any) -> None:
    """Writes the file that `save` would write into an open one."""
    _write(file, *_contents(tree, None))


def _write(file: IO[bytes], header: bytes, arrays: Sequence[Buffer]) -> None:
    """Writes a safetensors file."""
    file.write(len(header).to_bytes(8, "little"))
    file.write(header)
    for x in arrays:
        file.write(_bytes_of(x).data)


def _bytes_of(x: Buffer) -> Buffer:
    """Returns a contiguous array's bytes, without a copy."""
    return x.reshape(-1).view(np.uint8)


def _contents(tree: Any, metadata: Mapping[str, Any] | None) -> tuple[bytes, list[Buffer]]:
    """Returns the header of a file, and the arrays in their order.

    Raises:
        ValueError: the header would be too long to be read.
    """
    writer = TreeWriter()
    structure: dict[str, Any] = {"version": 1, "tree": writer.whole(tree)}
    if metadata is not None:
        structure["metadata"] = _as_json(metadata)
    structure["checksums"] = {
        name: array_checksum(name, dtype_code(x.dtype), x.shape, _bytes_of(x))
        for name, x in writer.arrays.items()
    }
    text = json.dumps(structure, allow_nan=False, separators=(",", ":"))
    header: dict[str, Any] = {"__metadata__": {NOTE: f"{checksum_of_text(text):08x} {text}"}}
    # Wide elements first: all begin at a multiple of their width.
    order = sorted(writer.arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    at = 0
    for name, x in order:
        places = [at, at + x.nbytes]
        header[name] = {
            "dtype": dtype_code(x.dtype), "shape": list(x.shape), "data_offsets": places
        }  # fmt: skip
        at += x.nbytes
    raw = json.dumps(header, separators=(",", ":")).encode()
    if len(raw) > LONGEST_HEADER:
        raise failure(
            ValueError,
            f"save: the tree has so many leaves that the header would have {len(raw)} bytes, and "
            f"files have at most {LONGEST_HEADER}",
            fix="np.stack(arrays) of small arrays, or np.asarray(numbers) of a list of numbers",
            number=None,
        )
    # The elements begin at a multiple of 8.
    return raw + b" " * (-len(raw) % 8), [x for _, x in order]


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
