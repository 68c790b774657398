"""What a backend is, and the registry of those that can be had."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Backend", "BackendUnavailable", "DeviceError", "get", "info", "register"]


class BackendUnavailable(ImportError):
    """A backend was asked for that is not installed; the message has the command that brings it."""


class DeviceError(ValueError):
    """Arrays of different devices meet, or a device does not exist."""


class Backend(Protocol):
    """One array module and what it does better than by the module's own functions.

    Attributes:
        name: the name that ``get`` takes.
        xp: the array module (NumPy's functions over its buffers).
        kernels: functions that replace ``xp``'s, by the name of the primitive.
    """

    name: str
    xp: Any
    kernels: dict[str, Callable[..., Any]]

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        """Returns a buffer that holds the values, without a copy where that is possible."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Returns a buffer of zeros."""

    def ones(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Returns a buffer of ones."""

    def to_host(self, buffer: Any) -> Any:
        """Returns the buffer's values as a ``numpy.ndarray``."""

    def synchronize(self) -> None:
        """Waits until all work that was queued is done."""

    def devices(self) -> list[str]:
        """Returns the names of the devices that are present."""

    def memory(self) -> dict[str, int]:
        """Returns memory figures in bytes: ``used`` and ``peak``."""

    def info(self) -> dict[str, Any]:
        """Returns versions and the libraries below."""


_MODULES = {"numpy": "functensor.backends.numpy"}
_INSTALL = {"cupy": "pip install 'functensor[cuda12]'   (CUDA 13: 'functensor[cuda13]')"}
_loaded: dict[str, Backend] = {}
_lock = threading.RLock()


def register(backend: Backend) -> Backend:
    """Makes a backend known under its name and returns it; the name must be free."""
    with _lock:
        if _loaded.setdefault(backend.name, backend) is not backend:
            raise ValueError(f"a backend named {backend.name!r} is registered already")
    return backend


def get(name: str = "numpy") -> Backend:
    """Returns the backend of that name, importing it when it is first asked for.

    Raises:
        BackendUnavailable: it is not installed; the message has the pip command.

    >>> get("numpy").zeros((2,), "float32").dtype
    dtype('float32')
    """
    with _lock:
        if name not in _loaded and name in _MODULES:
            importlib.import_module(_MODULES[name])
        if name in _loaded:
            return _loaded[name]
    known = ", ".join(sorted({*_MODULES, *_loaded}))
    fix = f"install it: {_INSTALL[name]}" if name in _INSTALL else f"available: {known}"
    raise BackendUnavailable(f"no backend named {name!r}; {fix}")


def info() -> dict[str, dict[str, Any]]:
    """Returns, for every backend that is loaded, its versions and the libraries below it.

    >>> sorted(info()["numpy"])
    ['blas', 'devices', 'version']
    """
    get("numpy")
    return {name: backend.info() for name, backend in _loaded.items()}
