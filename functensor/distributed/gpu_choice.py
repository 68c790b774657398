"""The choice of a GPU for each process of a host."""

from __future__ import annotations

from typing import Any

from ..backends import BackendUnavailable
from ..backends import get as get_backend
from ..backends.optional_modules import MissingExtraError
from ..primitives.core.errors import message
from .objects import gathered_words

__all__ = ["own_gpu"]


def own_gpu(local: Any, wanted: bool) -> str:
    """Returns the device of this process, which CuPy computes on from then on.

    Args:
        local: the communicator of the processes on this host; None for a process alone.
        wanted: whether a GPU was asked for; where not, the CPU does where there is none.
    """
    try:
        backend = get_backend("cupy")
        count = len(backend.devices())
    except (ImportError, BackendUnavailable):
        if wanted:
            raise
        count = 0
    if local is None:
        return backend.device("cuda") if count else "cpu"
    number, bus = 0, ""
    if count:
        import cupy

        number = local.rank % count
        # Where each process sees one GPU alone, all have the number 0.
        bus = cupy.cuda.runtime.deviceGetPCIBusId(number)
    buses = gathered_words(local, bus, "choice of a GPU")
    if not any(buses):
        return "cpu"
    check_buses(buses)
    from cupy.cuda import nccl

    if not nccl.available:
        raise MissingExtraError(
            "processes with GPUs need NCCL, which CuPy does not find\n"
            "  fix: pip install 'functensor[nccl]'"
        )
    cupy.cuda.Device(number).use()
    return backend.device(f"cuda:{number}")


def check_buses(buses: list[str]) -> None:
    """Checks that each process of a host has a GPU of its own.

    Args:
        buses: what tells GPUs from each other, by local rank; empty where a process finds none.

    Raises:
        RuntimeError: some have none, or two have the same.

    >>> check_buses(["0000:18:00.0", "0000:2A:00.0"])
    """
    count = len({*buses} - {""})
    if not all(buses):
        raise RuntimeError(
            message(
                f"{buses.count('')} of {len(buses)} processes on one host find no GPU",
                fix="let all of them see GPUs, or ft.distributed.initialize(device='cpu')",
            )
        )
    if count < len(buses):
        raise RuntimeError(
            message(
                f"{len(buses)} processes on one host would share {count} GPUs",
                fix=f"mpirun -n {count}, or ft.distributed.initialize(device='cpu')",
            )
        )
