"""The buffers of tensors: made of what users give, and moved between devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import get as get_backend
from ..primitives.array import Array, Tracer
from ..primitives.buffers import to_buffer
from ..primitives.errors import DeviceError
from ..primitives.protocols import conversion_error

__all__ = ["buffer_of", "is_device", "on_device"]

# Python's own numbers become these, as tensor users expect.
NARROW = {"float64": np.dtype("float32"), "complex128": np.dtype("complex64")}

# Which backend holds a device's buffers.
BACKENDS = {"cpu": "numpy", "cuda": "cupy"}


def is_device(name: Any) -> bool:
    """Says whether a name is a device's, like ``cuda:0``, and not a dtype's."""
    return isinstance(name, str) and name.partition(":")[0] in BACKENDS


def on_device(buffer: Any, device: str) -> Any:
    """Returns a buffer of the same values on a device.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.
    """
    if not is_device(device):
        raise DeviceError(f"there is no device {device!r}: write 'cpu', 'cuda' or 'cuda:0'")
    return get_backend(BACKENDS[device.partition(":")[0]]).asarray(buffer)


def buffer_of(data: Any, dtype: Any) -> Any:
    """Returns a buffer that nobody else will write to.

    Args:
        data: an array, a tensor, or numbers in nested lists.
        dtype: the dtype that it is to have; None keeps that of arrays.
    """
    if isinstance(data, Tracer) and not data.owner.standing:
        raise conversion_error(data, "Tensor(...)")
    if isinstance(data, Array):
        buffer = data._data
    else:
        buffer = np.array(to_buffer(data))
        if dtype is None and _is_plain(data):
            dtype = NARROW.get(buffer.dtype.name)
    return buffer if dtype is None else buffer.astype(dtype, copy=False)


def _is_plain(data: Any) -> bool:
    """Says whether data is made of Python's own numbers, which have no dtype yet."""
    while isinstance(data, list | tuple):
        if not data:
            return True
        data = data[0]
    return type(data) in (float, int, bool, complex)
