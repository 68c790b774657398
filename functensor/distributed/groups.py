"""Groups of processes by their ranks, made when they first exchange something."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..backends.devices import backend_of
from ..primitives.core.errors import message
from .failures import ranks_in_words
from .lone_group import LoneGroup
from .roll_call import call_tag, roll_call
from .world import world

__all__ = ["is_capturing", "process_group"]

# The communicators and groups of this process, by the ranks of their processes.
_comms: dict[tuple[int, ...], Any] = {}
_groups: dict[tuple[tuple[int, ...], bool], Any] = {}
LONE = LoneGroup()


def process_group(ranks: tuple[int, ...], buffer: Any) -> Any:
    """Returns the group of processes that exchanges buffers like one.

    The first call is one of all these processes, and of no others.

    Args:
        ranks: of the processes, in their order in the group; this one is among them.
        buffer: an array of NumPy's or CuPy's.
    """
    if len(ranks) == 1:
        return LONE
    on_host = isinstance(buffer, np.ndarray | np.generic)
    group = _groups.get((ranks, on_host))
    if group is None:
        if on_host:
            from .mpi_group import MpiGroup

            group = MpiGroup(communicator_of(ranks), ranks)
        else:
            if backend_of(buffer).name != "cupy":
                name = backend_of(buffer).name
                raise NotImplementedError(
                    message(
                        f"no collective takes arrays of the {name} backend to other processes",
                        fix='ft.to_device(x, "cpu") before it',
                    )
                )
            from .nccl_group import NcclGroup

            group = NcclGroup(communicator_of(ranks), ranks)
        _groups[ranks, on_host] = group
    return group


def is_capturing() -> bool:
    """Says whether this thread records work for a CUDA graph instead of doing it."""
    module = sys.modules.get("functensor.backends.cuda.capturing")
    return module is not None and module.captured_here.kept is not None


def communicator_of(ranks: tuple[int, ...]) -> Any:
    """Returns the communicator of processes, made by a call of all of them and of no others.

    Raises:
        DistributedError: one of them has ended, or did not come in time.
    """
    comm = _comms.get(ranks)
    if comm is None:
        whole = world().comm
        # MPI makes communicators by calls that block.
        roll_call(whole, ranks, f"first exchange of ranks {ranks_in_words(sorted(ranks))}")
        everybody = whole.Get_group()
        comm = _comms[ranks] = whole.Create_group(everybody.Incl(ranks), call_tag(ranks))
    return comm
