"""PyTorch's names for files: trees of tensors through safetensors, without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import IO, Any

from .. import files, tree
from ..primitives.core.errors import failure
from ..tensors import Tensor

__all__ = ["load", "save"]


def save(obj: Any, f: str | PathLike[str] | IO[bytes]) -> None:
    """Writes a tree into a safetensors file, as `functensor.save` does.

    Args:
        obj: tensors in nested containers, as a module's ``state_dict`` is; a module or an
            optimizer itself is saved by its state.
        f: a path, which a whole file takes in one step, or an open binary file.

    Raises:
        MissingExtraError: safetensors is not installed, which paths need.
        TypeError: a leaf is nothing that files hold.

    >>> import io
    >>> import functensor.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(io.BytesIO(file.getvalue()))
    {'w': Tensor([1., 1.], dtype=float32), 'epoch': 3}
    """
    if hasattr(f, "write"):
        files.save_into(f, obj)  # type: ignore[arg-type]
    else:
        files.save(f, obj)


def load(
    f: str | PathLike[str] | IO[bytes],
    map_location: Any = None,
    *,
    weights_only: Any = True,
    mmap: Any = None,
) -> Any:
    """Returns what `save` wrote, or the tensors of any other safetensors file by name.

    Named tuples, as in the states of optimizers, become dicts, which ``load_state_dict`` takes.

    Args:
        f: a path, or an open binary file, which is read to its end.
        map_location: the device of all tensors; None for the default device. A dictionary is asked
            for that of ``"cpu"``, where files keep tensors; a function is called with every tensor
            and ``"cpu"``, and returns what takes its place, or None.
        weights_only: True: nothing is unpickled.
        mmap: whether tensors lie in the mapped file until they are changed.

    Raises:
        FileError: the file is damaged, or PyTorch has pickled it; the message says how to convert.
        TypeError: ``map_location`` is no device.
        ValueError: ``weights_only`` is False.
    """
    if not weights_only:
        raise failure(
            ValueError,
            "load: weights_only=False asks for pickle, which runs code of the file; there is none "
            "here",
            fix="torch.load(f), of a file that torch.save of functensor or safetensors wrote",
            number=19,
        )
    if isinstance(map_location, Mapping):
        map_location = map_location.get("cpu", "cpu")
    if callable(map_location):
        moved = map_location

        def placed(x: Any) -> Any:
            found = moved(x, "cpu") if isinstance(x, Tensor) else None
            return x if found is None else found

        return tree.map(placed, load(f, "cpu", weights_only=weights_only, mmap=mmap))
    if map_location is not None and not isinstance(map_location, str):
        raise failure(
            TypeError,
            f"load: map_location is of type {type(map_location).__name__}",
            fix='torch.load(f, map_location="cpu"), for all tensors',
            number=None,
        )
    device = None if map_location is None else str(map_location)
    read = getattr(f, "read", None)
    if read is None:
        return files.load_tensors(f, mmap is True, device)  # type: ignore[arg-type]
    content = read()
    if type(content) is str:
        raise failure(
            TypeError, "load: the file is open for text", fix='open(path, "rb")', number=None
        )
    if type(content) is not bytes:
        content = bytes(content)
    return files.load_from(content, str(getattr(f, "name", "the open file")), device)
