"""The first node of a graph, which writes what differs from call to call: one call of the driver.

It writes the numbers of the host that kernels read, and where results are to be, for the kernel
that copies them there. Both are parameters of the node.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_longlong, c_uint, c_ulonglong, c_void_p
from functools import cache
from typing import Any

import cupy

from ..capturing import NotCaptured
from ..kernels.plan import table_words
from .leaf_kernels import WORD_BYTES
from .words import Words

__all__ = ["KERNEL_NODE", "FirstNode", "driver", "kind_of_node", "told"]

KERNEL_NODE = 0


class NodeParameters(ctypes.Structure):
    """The driver's description of a node that launches a kernel."""

    _fields_ = (
        ("function", c_void_p),
        ("sizes", c_uint * 7),
        ("parameters", c_void_p),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    )


@cache
def driver() -> Any:
    """Returns the driver's library.

    Raises:
        NotCaptured: it is too old.
    """
    found = ctypes.CDLL("libcuda.so.1")
    found.cuGraphGetNodes.argtypes = (c_void_p, c_void_p, c_void_p)
    found.cuGraphNodeGetType.argtypes = (c_void_p, c_void_p)
    found.cuGraphMemcpyNodeGetParams.argtypes = (c_void_p, c_void_p)
    found.cuPointerGetAttribute.argtypes = (c_void_p, ctypes.c_int, c_ulonglong)
    try:
        found.cuGraphInstantiateWithFlags.argtypes = (c_void_p, c_void_p, c_ulonglong)
        found.cuGraphGetRootNodes.argtypes = (c_void_p, c_void_p, c_void_p)
        found.cuGraphKernelNodeGetParams_v2.argtypes = (c_void_p, c_void_p)
        found.cuGraphExecKernelNodeSetParams_v2.argtypes = (c_void_p, c_void_p, c_void_p)
    except AttributeError as error:
        raise NotCaptured(f"the driver is too old: {error}") from None
    return found


class Contexts(threading.local):
    """Notes of a thread.

    Attributes:
        devices: those whose contexts are current in the thread wherever they are.
    """

    devices: frozenset[int] = frozenset()


contexts = Contexts()


def have_context(device: int) -> None:
    """Has the context of the current device be current in a thread that has not used it before.

    CUDA's runtime sees to that by itself; the driver ends the process without one.
    """
    if device not in contexts.devices:
        # Any call of the runtime that needs a context.
        cupy.cuda.runtime.memGetInfo()
        contexts.devices |= {device}


class FirstNode:
    """The node by which a graph begins.

    Args:
        graph: the graph, whose first node sets words.
        slots: the array that they are written to.
        dtypes: the dtypes of the numbers, which come first.
        count: how many addresses there are behind them.

    Raises:
        NotCaptured: the driver does not say what the node is, or there are several.
    """

    def __init__(self, graph: Any, slots: Any, dtypes: Sequence[Any], count: int) -> None:
        self._graph = graph
        self._device: int = slots.data.device_id
        total = len(dtypes) + count
        self._table = bytearray(WORD_BYTES * table_words(total))
        self._words = Words(dtypes, count)
        # Those that the node writes.
        self._known = b""
        found = driver()
        self._node = first_kernel(graph.graph)
        self._parameters = NodeParameters()
        self._place = ctypes.addressof(self._parameters)
        told(found.cuGraphKernelNodeGetParams_v2(self._node, self._place))
        # They live as long as the node is set.
        table = (ctypes.c_char * len(self._table)).from_buffer(self._table)
        out, words = c_void_p(slots.data.ptr), c_longlong(total)
        self._held = table, out, words
        self._list = (c_void_p * 3)(*map(ctypes.addressof, self._held))
        self._parameters.parameters = ctypes.addressof(self._list)
        self._set = found.cuGraphExecKernelNodeSetParams_v2
        self._executable = graph.graphExec

    def set(self, numbers: Sequence[Any], addresses: Sequence[int]) -> None:
        """Sets what the next launch writes."""
        words = self._words.of(numbers, addresses)
        if words == self._known:
            return
        have_context(self._device)
        # An interrupt may come before it is known again.
        self._known = b""
        self._table[: len(words)] = words
        status = self._set(self._executable, self._node, self._place)
        if status:
            raise RuntimeError(f"the driver does not set a node: error {status}")
        self._known = words


def first_kernel(graph: int) -> Any:
    """Returns the node of the only kernel that waits for nothing; NCCL adds events beside it."""
    found, number = driver(), ctypes.c_size_t()
    told(found.cuGraphGetRootNodes(graph, None, ctypes.byref(number)))
    nodes = (c_void_p * number.value)()
    told(found.cuGraphGetRootNodes(graph, nodes, ctypes.byref(number)))
    kernels = [node for node in nodes if kind_of_node(node) == KERNEL_NODE]
    if len(kernels) != 1:
        raise NotCaptured(f"a graph that {len(kernels)} kernels begin")
    return kernels[0]


def kind_of_node(node: Any) -> int:
    """Returns the driver's number of a kind of nodes."""
    kind = ctypes.c_int()
    told(driver().cuGraphNodeGetType(node, ctypes.byref(kind)))
    return kind.value


def told(status: int) -> None:
    """Checks what the driver answers.

    Raises:
        NotCaptured: it does not say what was asked.
    """
    if status:
        raise NotCaptured(f"the driver does not tell of a node: error {status}")
