"""Devices: their names, the one where arrays are made, and the one where a buffer lies."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from operator import methodcaller
from typing import Any, TypeVar

from .messages import message
from .protocol import BACKENDS, Backend, get, loaded, no_device, to_host
from .restoring import InC, in_turn, leaving, taken_off

__all__ = [
    "backend_of", "default_device", "device_of", "devices", "is_device", "on_device", "resolved",
    "set_default_device", "to_host",
]  # fmt: skip

# Leaves a context that nothing was raised in.
called = methodcaller("__call__", None, None, None)
F = TypeVar("F", bound=Callable[..., Any])


class Placement(threading.local):
    """The device on which a thread makes arrays when nothing says where."""

    device = "cpu"


placement = Placement()


def is_device(name: object) -> bool:
    """Says whether a name is written as a device's, like ``cuda:0``."""
    if not isinstance(name, str):
        return False
    kind, colon, number = name.partition(":")
    return kind in BACKENDS and (not colon or number.isdecimal())


def resolved(device: str | None = None) -> tuple[Backend, str]:
    """Returns the backend of a device and the device's full name.

    Args:
        device: a name, ``cuda`` for the current GPU; None for the default device.

    Raises:
        BackendUnavailable: the device's backend is not installed, or there is no such machine.
        DeviceError: there is no such device.
    """
    name = placement.device if device is None else device
    if not is_device(name):
        raise no_device(name, devices())
    backend = get(BACKENDS[name.partition(":")[0]])
    return backend, backend.device(name)


def backend_of(buffer: Any) -> Backend:
    """Returns the backend that a buffer belongs to; NumPy's for Python's numbers."""
    return loaded(type(buffer)) or get("numpy")


def device_of(buffer: Any) -> str:
    """Returns the name of the device where a buffer lies."""
    backend = loaded(type(buffer))
    return "cpu" if backend is None else backend.device_of(buffer)


def on_device(buffer: Any, device: str) -> Any:
    """Returns a buffer with the same values on a device: itself, if it lies there already.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.
    """
    backend, name = resolved(device)
    return buffer if device_of(buffer) == name else backend.put(buffer, name)


def devices() -> list[str]:
    """Returns the names of the devices that are present: the CPU, every GPU that works, others.

    >>> devices()[0]
    'cpu'
    """
    found: list[str] = []
    for name in list(BACKENDS.values()):
        with suppress(ImportError):
            found += get(name).devices()
    return found


class DefaultDevice(ContextDecorator):
    """The result of `default_device`: a context, which decorates functions too."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.used = False
        self.before: list[str] = []
        # Functions that leave the devices on which CuPy computes.
        self.leaving: list[Callable[..., Any]] = []

    def __call__(self, function: F) -> F:
        self.used = True
        return super().__call__(function)

    def __enter__(self) -> str:
        self.used = True
        backend, name = resolved(self.device)
        current = backend.current(name)
        leave = current.__exit__
        end = len(self.before)
        try:
            current.__enter__()
            # No call, after which an interrupt could come.
            self.leaving[end:] = (leave,)
            self.before[end:] = (placement.device,)
            placement.device = name
        except KeyboardInterrupt:
            leave(None, None, None)
            raise
        return name

    @InC
    def __exit__(self) -> Any:
        set_back = taken_off(self.before, setattr, placement, "device")
        return leaving(in_turn([set_back, taken_off(self.leaving, called)]))

    def __del__(self) -> None:
        if not self.used:
            warnings.warn(
                message(
                    f"default_device({self.device!r}) without `with` does nothing",
                    fix=f"ft.set_default_device({self.device!r}), or "
                    f"with ft.default_device({self.device!r}): ...",
                ),
                stacklevel=2,
            )


def default_device(device: str) -> DefaultDevice:
    """Makes arrays on a device, for the length of a ``with`` block, when nothing says where.

    Args:
        device: its name; ``cuda`` is the current GPU.

    Returns:
        The context, which gives the device's full name. It decorates functions too.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.

    >>> with default_device("cpu") as name:
    ...     name
    'cpu'
    """
    return DefaultDevice(device)


def set_default_device(device: str) -> None:
    """Makes arrays on a device from here on, when nothing says where, in this thread.

    Args:
        device: its name; ``cuda`` is the current GPU.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.

    >>> set_default_device("cpu")
    """
    backend, name = resolved(device)
    # CuPy's devices are made the current one by this; NumPy's needs nothing.
    use = getattr(backend.current(name), "use", None)
    if use is not None:
        use()
    placement.device = name
