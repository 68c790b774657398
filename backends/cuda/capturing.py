"""Notes about a thread that records work for a CUDA graph instead of doing it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Capturing", "NotCaptured", "captured_here", "copied_once", "kept_by_graph"]


class NotCaptured(RuntimeError):
    """Work cannot be recorded for a graph."""


class Capturing(threading.local):
    """The notes of a thread.

    Attributes:
        cublas: the calls of cuBLAS that take the place of CuPy's, which refuse to be recorded.
        stream: the stream on which a graph that is being recorded will run; None elsewhere.
        kept: arrays that recorded work reads and that caches may let go; None where nothing is
            recorded.
        launched: what is called before each launch of the graph that is being recorded, and what
            is called behind it.
    """

    cublas: Any = None
    stream: int | None = None
    kept: list[Any] | None = None
    launched: tuple[tuple[Callable[[], None], Callable[[], None]], ...] = ()


captured_here = Capturing()


def kept_by_graph(array: Any) -> Any:
    """Returns an array of a cache, which a graph keeps that is being recorded."""
    if captured_here.kept is not None:
        captured_here.kept.append(array)
    return array


def copied_once() -> None:
    """Is called before something is copied from the host to be kept in a cache.

    Raises:
        NotCaptured: work is recorded: the copy would be made later, when a graph runs.
    """
    if captured_here.kept is not None:
        raise NotCaptured("something is copied from the host")
