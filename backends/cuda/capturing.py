"""Notes about a thread that records work for a CUDA graph instead of doing it."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Capturing", "NotCaptured", "capturing", "copied_once", "held"]


class NotCaptured(RuntimeError):
    """Work cannot be recorded for a graph."""


class Capturing(threading.local):
    """The notes of a thread.

    Attributes:
        cublas: the calls of cuBLAS that take the place of CuPy's, which refuse to be recorded.
        kept: arrays that recorded work reads and that caches may let go; None where nothing is
            recorded.
    """

    cublas: Any = None
    kept: list[Any] | None = None


capturing = Capturing()


def held(array: Any) -> Any:
    """Returns an array of a cache, which a graph keeps that is being recorded."""
    if capturing.kept is not None:
        capturing.kept.append(array)
    return array


def copied_once() -> None:
    """Is called before something is copied from the host to be kept in a cache.

    Raises:
        NotCaptured: work is recorded: the copy would be made later, when a graph runs.
    """
    if capturing.kept is not None:
        raise NotCaptured("something is copied from the host")
