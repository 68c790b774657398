"""Names of devices that know their parts, as PyTorch's ``device``."""

from __future__ import annotations

from functools import lru_cache

from ..backends.devices import resolved

__all__ = ["device", "named_device"]


class device(str):
    """The name of a device, which is a string, with its parts.

    Args:
        type: ``"cpu"``, ``"cuda"`` or ``"cuda:0"``, or another device.
        index: the number of a GPU.

    Raises:
        DeviceError: there is no device of such a name.

    >>> import functensor.torch as torch
    >>> gpu = torch.device("cuda", 1)
    >>> gpu, gpu.type, gpu.index
    ('cuda:1', 'cuda', 1)
    """

    __slots__ = ()

    def __new__(cls, type: str, index: int | None = None) -> device:
        name = str(type) if index is None else f"{type}:{index}"
        if name.partition(":")[0] not in ("cpu", "cuda"):
            resolved(name)
        return super().__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device: ``"cpu"`` or ``"cuda"``."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # a string has a method of this name
        """The number of a GPU, or None."""
        number = str(self).partition(":")[2]
        return int(number) if number else None


# Tensors ask for theirs all the time.
@lru_cache(maxsize=64)
def named_device(name: str) -> device:
    """Returns the device of a full name."""
    return device(name)
