"""Graphs that run what was recorded on streams of a higher priority before the rest."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import cupy

from .first_node import driver, told

__all__ = ["GraphByPriority"]

# The driver's flag for graphs whose nodes have priorities of their own.
USE_NODE_PRIORITY = 8


class GraphByPriority:
    """A graph whose nodes have the priorities of the streams on which they were recorded.

    Attributes:
        graph, graphExec: the driver's addresses of it, as those of CuPy's graphs.

    Args:
        recorded: CuPy's graph, whose nodes all have the same.

    Raises:
        NotCaptured: the driver does not make it.
    """

    def __init__(self, recorded: Any) -> None:
        self._recorded = recorded
        self.graph: int = recorded.graph
        made = ctypes.c_void_p()
        told(
            driver().cuGraphInstantiateWithFlags(
                ctypes.byref(made), self.graph, USE_NODE_PRIORITY
            )
        )
        self.graphExec = made.value
        weakref.finalize(self, cupy.cuda.runtime.graphExecDestroy, made.value).atexit = False

    def launch(self, stream: Any) -> None:
        """Queues the graph on a stream."""
        cupy.cuda.runtime.graphLaunch(self.graphExec, stream.ptr)
