"""Values of the process of rank 0, given to all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..backends.devices import on_device, to_host
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of, to_buffer, wrap
from ..tensors import Tensor
from .waiting import wait
from .world import world

__all__ = ["broadcast", "broadcast_object", "broadcast_tensors"]


def broadcast(values: Any) -> Any:
    """Returns a tree with the arrays that the process of rank 0 has in it.

    All processes call it, with trees of the same structure, shapes and dtypes. So parameters that
    were drawn in each process by itself become the same.

    Args:
        values: a tree of arrays and numbers; other leaves stay as they are.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.distributed.broadcast({"w": np.ones(2)})
    {'w': Array([1., 1.], dtype=float64, device='cpu')}
    """
    return tree.map(lambda x: wrap(_broadcast(to_buffer(x))) if is_array_like(x) else x, values)


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Gives tensors the values that they have on the process of rank 0."""
    if world().size > 1:
        for tensor in tensors:
            tensor.put_buffer(_broadcast(tensor._data))


def broadcast_object(
    value: Any, comm: Any = None, what: str = "broadcast", ranks: Sequence[int] | None = None
) -> Any:
    """Returns an object of the process of rank 0, which is pickled for the others.

    Args:
        value: the object; others than that of rank 0 are not looked at.
        comm: a communicator; by default that of all.
        what: what is broadcast, for messages.
        ranks: the processes of the communicator; None for all.
    """
    here = world()
    if here.size == 1:
        return value
    import pickle  # of our own processes

    comm = here.comm if comm is None else comm
    text = np.frombuffer(pickle.dumps(value), np.uint8) if comm.rank == 0 else None
    length = np.array([0 if text is None else text.size])
    wait(comm.Ibcast(length, 0), what, ranks)
    out = np.empty(int(length[0]), np.uint8) if text is None else text.copy()
    wait(comm.Ibcast(out, 0), what, ranks)
    return pickle.loads(out.tobytes())


def _broadcast(x: Any) -> Any:
    here = world()
    if here.size == 1:
        return x
    out = np.array(to_host(x), order="C", ndmin=0)
    wait(here.comm.Ibcast(out.reshape(-1).view(np.uint8), 0), "broadcast")
    place = device_of(x)
    return out if place == "cpu" else on_device(out, place)
