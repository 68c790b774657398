"""A hook that moves what the backward pass needs out of a device's memory, or out of memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from typing import Any
from weakref import finalize

import numpy as np

from ..backends.devices import device_of, on_device, to_host
from ..primitives.core.array import Array
from ..primitives.core.buffers import wrap
from .memory_order import inverse, memory_order
from .operation import Operation
from .residuals import ResidualHook

__all__ = ["OffloadHook"]

PLACES = ("host", "disk")


class OffloadHook(ResidualHook):
    """Moves residuals to the memory of the host, or into files, until the backward pass needs them.

    Gradients stay the same to the last bit. With ``"host"``, arrays of the host stay where they
    are, so that it is of use for those of GPUs. With ``"disk"`` each residual is a file in a new
    temporary folder. A file is removed when nobody needs its residual any more, also after an
    exception. The folder goes when that holds for all, and the hook is gone; at the latest it goes
    when Python ends.

    Args:
        to: ``"host"`` or ``"disk"``.
        folder: the folder in which the temporary one is made; None for that of the system.
        min_bytes: smaller residuals stay where they are.

    Attributes:
        moved: how many bytes it has moved so far, each residual counted once.

    Raises:
        ValueError: ``to`` is another word.

    >>> import functensor as ft, functensor.numpy as np
    >>> offload = ft.hooks.OffloadHook("disk", min_bytes=0)
    >>> with ft.hooks.use(offload):
    ...     value, pull = ft.vjp(lambda x: np.sum(np.exp(np.sin(x))), np.zeros(1000))
    >>> offload.moved
    8000
    >>> bool((pull(1.0)[0] == 1).all())
    True
    """

    def __init__(self, to: str = "host", folder: Any = None, min_bytes: int = 1024) -> None:
        if to not in PLACES:
            raise ValueError(f'OffloadHook moves to "host" or "disk", not to {to!r}')
        super().__init__()
        self.to = to
        self.min_bytes = min_bytes
        self.moved = 0
        self._files = Folder(folder) if to == "disk" else None

    def __repr__(self) -> str:
        return f"<OffloadHook to {self.to}: {self.moved:,} bytes moved>"

    def pack(self, op: Operation, value: Array) -> Any:
        """Returns what stands for a residual elsewhere, or the residual where it stays."""
        buffer = value._data
        size = buffer.size * buffer.dtype.itemsize
        device = device_of(buffer)
        if size < self.min_bytes or (self._files is None and device == "cpu"):
            return value
        host = to_host(buffer)
        packed = host if self._files is None else self._files.written(host)
        self.moved += size
        return packed, device

    def unpack(self, op: Operation, packed: Any) -> Array:
        """Returns the residual, in the memory of its device."""
        held, device = packed
        host = held if self._files is None else held.read()
        return wrap(on_device(host, device))


class Folder:
    """A temporary folder, which is removed with the last one who knows it."""

    def __init__(self, folder: Any) -> None:
        self.path = tempfile.mkdtemp(prefix="functensor-", dir=folder)
        self.next = count().__next__
        finalize(self, in_process, os.getpid(), shutil.rmtree, self.path, True)

    def written(self, array: np.ndarray[Any, Any]) -> File:
        """Returns the new file of an array."""
        return File(self, array)


class File:
    """An array in a file, which is removed when nobody needs it."""

    def __init__(self, folder: Folder, array: np.ndarray[Any, Any]) -> None:
        self.folder = folder
        self.path = os.path.join(folder.path, str(folder.next()))
        self.axes = memory_order(array)
        self.dtype = array.dtype
        in_order = np.ascontiguousarray(array.transpose(self.axes))
        self.shape = in_order.shape
        end = finalize(self, in_process, os.getpid(), removed, self.path)
        # The end of Python removes the folder.
        end.atexit = False
        with open(self.path, "wb") as file:
            file.write(bytes_of(in_order))

    def read(self) -> np.ndarray[Any, Any]:
        """Returns the array."""
        out = np.empty(self.shape, self.dtype)
        with open(self.path, "rb") as file:
            got = file.readinto(bytes_of(out))
        if got != out.nbytes:
            raise OSError(f"{self.path} has {got} of the {out.nbytes} bytes of a residual")
        return out.transpose(inverse(self.axes))


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Returns the memory of an array without gaps; bfloat16 has no format that Python knows."""
    return array.reshape(-1).view(np.uint8).data


def in_process(process: int, action: Any, *args: Any) -> None:
    """Does something in the process that it is for, and not in a fork of it."""
    if os.getpid() == process:
        action(*args)


def removed(path: str) -> None:
    """Removes a file, which may be gone with its folder."""
    if os.path.exists(path):
        os.remove(path)
