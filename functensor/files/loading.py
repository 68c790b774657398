"""Loads trees from safetensors files."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..backends.devices import resolved
from .file_errors import path_text
from .fitting import fitted
from .reading import Reader
from .rebuilding import Rebuilder

__all__ = ["load", "load_from", "load_tensors", "read_metadata"]


def load(
    path: str | PathLike[str],
    like: Any = None,
    *,
    mmap: bool = False,
    device: str | None = None,
) -> Any:
    """Returns the tree that `save` wrote, or the arrays of any other safetensors file by name.

    All of the file is checked before anything of it is returned, or given to an object in
    ``like``. Nothing is unpickled or imported.

    Args:
        path: the file.
        like: a tree that gives structure, shapes, dtypes and devices; leaves may be
            `ShapeDtype`. Objects with ``load_state_dict``, generators and key streams in it take
            their states, and are in the result. None for plain containers: named tuples and
            dataclasses become dicts, and objects their states.
        mmap: arrays lie in the mapped file, and are read when they are used; their checksums are
            not compared. The file must not be changed in place meanwhile; `save` does not do that.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of ``like``, or the default device.

    Returns:
        The tree. Arrays are arrays again, NumPy arrays and tensors likewise.

    Raises:
        FileError: the file is damaged or of another format; nothing is loaded.
        OSError: there is no such file.
        TreeMismatchError: it does not fit ``like``; nothing is loaded.

    >>> import tempfile
    >>> import functensor as ft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ft.save(f"{folder}/tree.safetensors", [ft.numpy.arange(3), "text"])
    ...     ft.load(f"{folder}/tree.safetensors", [ft.ShapeDtype((3,), "int64"), ""])
    [Array([0, 1, 2], dtype=int64, device='cpu'), 'text']
    """
    name = path_text(path)
    with open(name, "rb") as file:
        return _whole(Reader(file, name, mmap), like, device)


def load_tensors(path: str | PathLike[str], mmap: bool, device: str | None) -> Any:
    """Returns the tree of a file as `load` does; arrays of another library's are tensors."""
    name = path_text(path)
    with open(name, "rb") as file:
        return _whole(Reader(file, name, mmap), None, device, "tensor")


def load_from(content: bytes, file: str, device: str | None) -> Any:
    """Returns the tree of a file of these bytes, with tensors; ``file`` is its name in messages."""
    return _whole(Reader(content, file), None, device, "tensor")


def _whole(reader: Reader, like: Any, device: str | None, kind: str = "array") -> Any:
    """Returns the tree of an open file; ``kind`` is that of arrays of another library's."""
    if device is not None:
        resolved(device)
    structure = reader.structure()
    checksums: Any = {}
    node: Any = None
    if structure is not None:
        checksums, node = structure.get("checksums"), structure.get("tree")
        if not isinstance(checksums, dict) or checksums.keys() != reader.entries.keys():
            raise reader.damaged("its arrays are not those of its structure", "the same names")
    rebuilder = Rebuilder(reader, checksums, device)
    if like is not None:
        return fitted(rebuilder, node, like, structure is not None)
    if structure is None:
        node = {"dict": [[name, {kind: name}] for name in reader.entries]}
    return rebuilder.plain(node)


def read_metadata(path: str | PathLike[str]) -> dict[str, Any]:
    """Returns the metadata that a file was saved with; the arrays are not read.

    Args:
        path: the file.

    Returns:
        What ``metadata`` of `save` was, or an empty dict; of a file of another library the texts
        that its header has.

    Raises:
        FileError: the file is damaged or of another format.
        OSError: there is no such file.

    >>> import tempfile
    >>> import functensor as ft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ft.save(f"{folder}/tree.safetensors", [], metadata={"step": 3})
    ...     ft.read_metadata(f"{folder}/tree.safetensors")
    {'step': 3}
    """
    name = path_text(path)
    with open(name, "rb") as file:
        reader = Reader(file, name)
    structure = reader.structure()
    if structure is None:
        return dict(reader.notes)
    found = structure.get("metadata", {})
    if not isinstance(found, dict):
        raise reader.damaged(f"its metadata is {found!r:.60}", "an object in JSON")
    return found
