"""Devices of arrays, and copies to other ones."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..backends.config import config
from ..backends.devices import default_device, devices, set_default_device
from ..backends.dtypes import is_number_dtype
from ..primitives.core.array_likes import is_array_like
from ..primitives.device import to_device as move
from ..traces.device_scalars import watch_scalars
from ..traces.forward import ForwardTrace
from ..traces.reverse import ReverseTrace

__all__ = ["config", "default_device", "devices", "set_default_device", "to_device"]


def to_device(values: Any, device: str) -> Any:
    """Returns a tree with its arrays on a device.

    A copy to a GPU is queued from pinned memory on CuPy's current stream: nothing waits for it.
    A copy to the CPU waits for the values. Derivatives flow back to where the arrays were.

    Args:
        values: a tree of arrays, NumPy arrays and numbers; other leaves stay as they are.
        device: ``"cpu"``, ``"cuda"`` (the current GPU) or ``"cuda:1"``.

    Returns:
        The same tree with arrays on that device. Arrays that are there already are not copied;
        NumPy arrays are.

    Raises:
        BackendUnavailable: CuPy is not installed, or there is no GPU.
        DeviceError: there is no such device.

    >>> import functensor as ft
    >>> ft.to_device({"w": [1.0, 2.0], "name": "first"}, "cpu")["w"][0]
    Array(1., dtype=float64, device='cpu')
    """
    return tree.map(lambda x: move(x, device) if is_movable(x) else x, values)


watch_scalars(ForwardTrace, "process")
watch_scalars(ReverseTrace, "process", "process2")


def is_movable(x: Any) -> bool:
    """Says whether a leaf holds numbers that can be on a device."""
    return is_array_like(x) and (not hasattr(x, "dtype") or is_number_dtype(x.dtype))
