"""The choice of a device for each process, of one kind for all."""

from __future__ import annotations

from socket import gethostname
from typing import Any

from ..backends import BackendUnavailable
from ..backends import get as get_backend
from ..backends.optional_modules import MissingExtraError
from ..primitives.core.errors import message
from .objects import gathered_words

__all__ = ["own_device"]

# A process has a GPU, finds none, or asks for the CPU.
FOUND, MISSED, ASKED = "+-c"


def own_device(comm: Any, local: Any, device: str | None) -> str:
    """Returns the device of this process, which CuPy computes on from then on if it is a GPU.

    All processes choose the same kind of device.

    Args:
        comm: the communicator of all processes; None for a process alone.
        local: that of the processes on this host; None for a process alone.
        device: what was asked for, ``"cpu"`` or ``"cuda"``; None for a GPU where there is one.

    Raises:
        RuntimeError: some processes have no GPU, or ask for the CPU, and others have one; or two
            would share a GPU.
    """
    count = 0 if device == "cpu" else _count_gpus(device is not None)
    if comm is None:
        return get_backend("cupy").device("cuda") if count else "cpu"
    number, bus = 0, ""
    if count:
        import cupy

        number = local.rank % count
        # Where each process sees one GPU alone, all have the number 0.
        bus = cupy.cuda.runtime.deviceGetPCIBusId(number)
    state = FOUND if bus else ASKED if device == "cpu" else MISSED
    said = gathered_words(comm, f"{state} {gethostname()}", "choice of a GPU", 256)
    # All exchange all there is to be said before some raise an error.
    buses = gathered_words(local, bus, "choice of a GPU")
    if not all_compute_on_gpus([(words[0], words[2:]) for words in said]):
        return "cpu"
    check_buses(buses)
    from cupy.cuda import nccl

    if not nccl.available:
        raise MissingExtraError(
            "processes with GPUs need NCCL, which CuPy does not find\n"
            "  fix: pip install 'functensor[nccl]'"
        )
    cupy.cuda.Device(number).use()
    return get_backend("cupy").device(f"cuda:{number}")


def _count_gpus(wanted: bool) -> int:
    try:
        return len(get_backend("cupy").devices())
    except (ImportError, BackendUnavailable):
        if wanted:
            raise
        return 0


def all_compute_on_gpus(said: list[tuple[str, str]]) -> bool:
    """Says whether all processes compute on GPUs, or none does.

    Args:
        said: of each process what it says, one of `FOUND`, `MISSED` and `ASKED`, and its host.

    Raises:
        RuntimeError: some do and others do not.

    >>> all_compute_on_gpus([(FOUND, "a"), (FOUND, "b")]), all_compute_on_gpus([(ASKED, "a")])
    (True, False)
    """
    states = {state for state, _ in said}
    if FOUND not in states:
        return False
    if states == {FOUND}:
        return True
    parts = []
    for state, words in (
        (FOUND, "have a GPU"),
        (MISSED, "find none"),
        (ASKED, "ask for the CPU"),
    ):
        hosts = [host for said_state, host in said if said_state == state]
        if hosts:
            parts.append(f"{len(hosts)} {words} ({', '.join(dict.fromkeys(hosts))})")
    raise RuntimeError(
        message(
            f"processes do not all compute on GPUs: {', '.join(parts)}",
            fix="let all of them see GPUs, or ft.distributed.initialize(device='cpu') in all",
        )
    )


def check_buses(buses: list[str]) -> None:
    """Checks that each process of a host has a GPU of its own.

    Args:
        buses: what tells GPUs from each other, by local rank.

    Raises:
        RuntimeError: two have the same.

    >>> check_buses(["0000:18:00.0", "0000:2A:00.0"])
    """
    count = len({*buses})
    if count < len(buses):
        raise RuntimeError(
            message(
                f"{len(buses)} processes on one host would share {count} GPUs",
                fix=f"mpirun -n {count}, or ft.distributed.initialize(device='cpu')",
            )
        )
