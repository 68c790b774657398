"""Values of the process of rank 0, given to all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import tree
from ..backends.devices import on_device, to_host
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of, to_buffer, wrap
from ..primitives.core.errors import describe, failure
from ..primitives.core.shape_dtype import shape_dtype
from ..tensors import Tensor
from .checking import compare_processes
from .waiting import wait
from .world import world

__all__ = ["broadcast", "broadcast_tensors"]


def broadcast(values: Any) -> Any:
    """Returns a tree with the arrays that the process of rank 0 has in it.

    All processes call it, with trees of the same structure, shapes and dtypes. So parameters that
    were drawn in each process by itself become the same.

    Args:
        values: a tree of arrays and numbers; other leaves stay as they are.

    Raises:
        CollectiveError: a process has arrays at other places of the tree, or other shapes or
            dtypes.
        ValueError: it is called under a transformation.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.distributed.broadcast({"w": np.ones(2)})
    {'w': Array([1., 1.], dtype=float64, device='cpu')}
    """
    found, treedef = tree.flatten_with_path(values)
    leaves = [leaf for _, leaf in found]
    places = [i for i, leaf in enumerate(leaves) if is_array_like(leaf)]
    if any(isinstance(leaves[i], Tracer) and not isinstance(leaves[i], Tensor) for i in places):
        raise failure(
            ValueError,
            "distributed.broadcast takes values as they are, and was called under a transformation",
            fix="call it before, outside of jit, grad and vmap",
            number=None,
        )
    buffers = [to_buffer(leaves[i]) for i in places]
    # What else a tree has may differ, and be written by an address.
    names = ", ".join(tree.keystr(found[i][0]) for i in places)
    check_kinds(f"broadcast of {names or 'arrays'}", buffers)
    for i, buffer in zip(places, buffers, strict=True):
        leaves[i] = wrap(_broadcast(buffer))
    return treedef.unflatten(leaves)


def check_kinds(what: str, buffers: Iterable[Any]) -> None:
    """Checks that all processes have arrays of the same shapes and dtypes."""
    if world().size > 1:
        compare_processes(f"{what} with {', '.join(map(describe, map(shape_dtype, buffers)))}")


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Gives tensors the values that they have on the process of rank 0."""
    if world().size > 1:
        found = list(tensors)
        check_kinds("broadcast of tensors", [tensor._data for tensor in found])
        for tensor in found:
            tensor.put_buffer(_broadcast(tensor._data))


def _broadcast(x: Any) -> Any:
    here = world()
    if here.size == 1:
        return x
    out = np.array(to_host(x), order="C", ndmin=0)
    wait(here.comm.Ibcast(out.reshape(-1).view(np.uint8), 0), "broadcast")
    place = device_of(x)
    return out if place == "cpu" else on_device(out, place)
