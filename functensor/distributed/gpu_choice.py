"""The choice of a GPU for each process of a host."""

from __future__ import annotations

from typing import Any

from ..backends import BackendUnavailable
from ..backends import get as get_backend
from ..backends.optional_modules import MissingExtraError
from ..primitives.core.errors import message

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
    if not count:
        return "cpu"
    if local is None:
        return backend.device("cuda")
    import cupy

    number = local.rank % count
    # Where each process sees one GPU alone, all have the number 0.
    buses = local.allgather(cupy.cuda.runtime.deviceGetPCIBusId(number))
    if len(set(buses)) < len(buses):
        raise RuntimeError(
            message(
                f"{local.size} processes on one host would share {len(set(buses))} GPUs",
                fix=f"mpirun -n {len(set(buses))}, or ft.distributed.initialize(device='cpu')",
            )
        )
    from cupy.cuda import nccl

    if not nccl.available:
        raise MissingExtraError(
            "processes with GPUs need NCCL, which CuPy does not find\n"
            "  fix: pip install 'functensor[nccl]'"
        )
    cupy.cuda.Device(number).use()
    return backend.device(f"cuda:{number}")
