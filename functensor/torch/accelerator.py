"""PyTorch's names for the kind of device beside the CPU, a GPU or none: ``torch.accelerator``.

>>> import functensor.torch as torch
>>> torch.accelerator.is_available() == torch.cuda.is_available()
True
"""

from __future__ import annotations

from typing import Any

from ..faces.publish import publish
from ..tensors.device_names import device
from . import cuda

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "is_available", "synchronize",
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


def synchronize(device: Any = None) -> None:
    """Waits until a GPU, by default the current one, has done its work."""
    cuda.synchronize(device)


publish(globals())
