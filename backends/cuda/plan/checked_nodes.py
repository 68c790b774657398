"""Checks what the nodes of a recorded graph do."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ..capturing import NotCaptured
from .first_node import KERNEL_NODE, driver, kind_of_node, told

__all__ = ["NODES_OF_NCCL", "check_nodes"]

COPY_NODE, FILL_NODE = 1, 2
EMPTY_NODE = 5
# What NCCL adds to a graph: work of its own on the host, and events by which it orders its calls.
HOST_NODE, WAIT_NODE, EVENT_NODE = 3, 6, 7
PLAIN_NODES = KERNEL_NODE, FILL_NODE, EMPTY_NODE
NODES_OF_NCCL = HOST_NODE, WAIT_NODE, EVENT_NODE
DEVICE_MEMORY, ANY_MEMORY = 2, 4
MEMORY_TYPE_ATTRIBUTE = 2


def check_nodes(graph: int, others: Sequence[int]) -> None:
    """Checks that a graph computes, copies and fills within the memory of GPUs alone.

    Args:
        graph: the graph.
        others: the kinds of nodes that are right too.

    Raises:
        NotCaptured: it does something else, such as a copy from the host, which would be made of
            what lies there whenever the graph runs.
    """
    count = ctypes.c_size_t()
    told(driver().cuGraphGetNodes(graph, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    told(driver().cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
    for node in filter(None, nodes):
        kind = kind_of_node(node)
        if kind == COPY_NODE:
            check_copy(node)
        elif kind not in PLAIN_NODES and kind not in others:
            raise NotCaptured(f"a node of kind {kind}")


def check_copy(node: int) -> None:
    """Checks that a node copies within the memory of GPUs."""
    # Words of the driver's description: the kinds of memory and the addresses of both ends.
    words = (ctypes.c_ulonglong * 25)()
    told(driver().cuGraphMemcpyNodeGetParams(node, words))
    for kind_word, host_word in ((4, 5), (15, 16)):
        kind = words[kind_word] & 0xFFFFFFFF
        if kind == ANY_MEMORY:
            known = ctypes.c_uint()
            address = words[host_word + 1]
            place = ctypes.byref(known)
            told(driver().cuPointerGetAttribute(place, MEMORY_TYPE_ATTRIBUTE, address))
            kind = known.value
        if kind != DEVICE_MEMORY:
            raise NotCaptured("a copy from the host, or to it")
