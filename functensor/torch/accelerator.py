"""PyTorch's names for the kind of device beside the CPU, a GPU or none: ``torch.accelerator``.

>>> import functensor.torch as torch
>>> torch.accelerator.is_available() == torch.cuda.is_available()
True
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ..faces.publish import publish
from ..tensors.device_names import device
from . import cuda

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "device_index", "empty_cache", "get_memory_info", "is_available", "memory_allocated",
    "memory_reserved", "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Says whether there is a GPU."""
    return bool(cuda.is_available())


def device_count() -> int:
    """Returns the number of GPUs."""
    return int(cuda.device_count())


def current_accelerator(check_available: bool = False) -> device | None:
    """Returns the kind of device, ``"cuda"``, or None where there is no GPU.

    ``check_available`` has no effect.
    """
    return device("cuda") if is_available() else None


def current_device_index() -> int:
    """Returns the number of the current GPU."""
    return int(cuda.current_device())


current_device_idx = current_device_index


def set_device_index(device: Any, /) -> None:
    """Makes a GPU the one that ``"cuda"`` stands for, in this thread."""
    cuda.set_device(device)


set_device_idx = set_device_index


def device_index(device: int | None, /) -> Any:
    """Makes a GPU the current one for a ``with`` block; None changes nothing."""
    return nullcontext() if device is None else cuda.device(device)


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the GPU."""
    cuda.empty_cache()


def memory_allocated(device_index: Any = None, /) -> int:
    """Returns the bytes that tensors use on a GPU."""
    return int(cuda.memory_allocated(device_index))


def memory_reserved(device_index: Any = None, /) -> int:
    """Returns the bytes that are held for tensors on a GPU, in use or not."""
    return int(cuda.memory_reserved(device_index))


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Returns how many bytes of a GPU are free, and how many it has."""
    free, total = cuda.mem_get_info(device_index)
    return int(free), int(total)


def synchronize(device: Any = None) -> None:
    """Waits until a GPU, by default the current one, has done its work."""
    cuda.synchronize(device)


publish(globals())
