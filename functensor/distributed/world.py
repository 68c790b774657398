"""The processes that run a program together: how many they are, which one this is, its device."""

from __future__ import annotations

import atexit
import builtins
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

from ..backends.optional_modules import MissingExtraError, extra
from ..primitives.core.errors import message
from .failures import begin_news, end_at_once
from .launched import launched_processes
from .roll_call import roll_call

__all__ = ["World", "info", "initialize", "print_once", "rank", "size", "world"]


@dataclass(frozen=True)
class World:
    """The processes of a program, as one of them sees them.

    Attributes:
        rank: the number of this process.
        size: how many there are.
        local_rank: the number of this process among those of its host.
        local_size: how many are on this host.
        host: the host's name.
        device: where this process computes: ``"cpu"``, or the GPU that is its own.
        engines: what carries collectives, by the kind of device.
        comm: the communicator of all; None where this process is alone.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    host: str = field(default_factory=socket.gethostname)
    device: str = "cpu"
    engines: tuple[str, ...] = ()
    comm: Any = field(default=None, repr=False, compare=False)


class Current:
    """The world of this process; None before `initialize`."""

    world: World | None = None


def initialize(comm: Any = None, *, device: str | None = None) -> World:
    """Finds the processes that run this program together, and gives each its device.

    Processes are started by ``mpirun -n 4 python train.py``, or ``srun``. Without a launcher the
    process is a world of its own, of size 1, and MPI is not looked for. Other functions of this
    module call ``initialize()`` themselves where it has not been called.

    Args:
        comm: a communicator of mpi4py in place of MPI's ``COMM_WORLD``, where a launcher is not
            known by its environment, or where only some processes take part.
        device: ``"cpu"`` or ``"cuda"``. By default the GPU with the number of the local rank, where
            CuPy is installed and finds GPUs, and else the CPU.

    Returns:
        The same as `info`.

    Raises:
        MissingExtraError: a launcher started several processes and mpi4py is not installed, or
            processes have GPUs and NCCL is not installed.
        RuntimeError: MPI knows of another number of processes than the launcher; two processes
            would share a GPU; some processes have a GPU, and others none or ask for the CPU; or the
            call is not the first and asks for something else.
        DistributedError: another process has not called it in time, or failed in it.

    >>> import functensor as ft
    >>> ft.distributed.initialize().size
    1
    """
    known = Current.world
    if known is not None:
        if comm is not None or (device is not None and not known.device.startswith(device)):
            raise RuntimeError(
                message(
                    f"distributed.initialize was called before, and computes on {known.device}",
                    fix="call it once, first of all",
                )
            )
        return known
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"distributed.initialize: device is 'cpu' or 'cuda', not {device!r}")
    Current.world = found = _found_world(comm, device)
    return found


def _found_world(comm: Any, device: str | None) -> World:
    count, launcher = launched_processes()
    if comm is None:
        if count == 1 and sys.modules.get("mpi4py.MPI") is None:
            return World(device=_own_device(None, None, device))
        try:
            comm = extra("mpi4py.MPI", "mpi").COMM_WORLD
        except (MissingExtraError, RuntimeError) as error:
            # mpi4py raises a RuntimeError where it finds no library of MPI.
            raise MissingExtraError(
                f"{launcher} started {count} processes, which need MPI: {error}\n"
                "  fix: pip install 'functensor[mpi]', and mpich where the machine has no MPI"
            ) from error
        if comm.size != count and count > 1:
            raise RuntimeError(
                message(
                    f"{launcher} started {count} processes, but MPI finds {comm.size}: it is "
                    "another MPI than the launcher's",
                    fix="start with the mpirun beside python, or build mpi4py with the launcher's "
                    "MPI: pip install --no-binary=mpi4py mpi4py",
                )
            )
    if comm.size == 1:
        return World(device=_own_device(None, None, device))
    # MPI makes communicators by calls that block, and waits for all at its end.
    atexit.register(end_at_once)
    roll_call(comm, range(comm.size), "call of distributed.initialize")
    atexit.unregister(end_at_once)
    # Messages of ours meet none of the user's.
    comm = comm.Dup()
    begin_news(comm)
    local = comm.Split_type(extra("mpi4py.MPI", "mpi").COMM_TYPE_SHARED, comm.rank)
    own = _own_device(comm, local, device)
    return World(
        comm.rank,
        comm.size,
        local.rank,
        local.size,
        device=own,
        engines=("MPI",) if own == "cpu" else ("MPI", "NCCL"),
        comm=comm,
    )


def _own_device(comm: Any, local: Any, device: str | None) -> str:
    """Returns the device of this process, given the communicators of all and of its host."""
    if comm is None and device == "cpu":
        return "cpu"
    from .gpu_choice import own_device  # CuPy is looked for where it is wanted

    return own_device(comm, local, device)


def world() -> World:
    """Returns the world of this process, which is found where it was not yet."""
    return Current.world or initialize()


def info() -> World:
    """Returns what this process knows of the processes that run the program.

    Returns:
        An object with ``rank``, ``size``, ``local_rank``, ``local_size``, ``host``, ``device`` and
        ``engines``, the names of what carries collectives.

    >>> import functensor as ft
    >>> ft.distributed.info().rank, ft.distributed.info().size
    (0, 1)
    """
    return world()


def rank() -> int:
    """Returns the number of this process, from 0 on.

    >>> import functensor as ft
    >>> ft.distributed.rank()
    0
    """
    return world().rank


def size() -> int:
    """Returns how many processes run the program.

    >>> import functensor as ft
    >>> ft.distributed.size()
    1
    """
    return world().size


def print_once(*values: Any, **options: Any) -> None:
    """Prints as Python's ``print`` does, on the process of rank 0 alone.

    Args:
        values, options: those of ``print``.

    >>> import functensor as ft
    >>> ft.distributed.print_once("loss", 0.5)
    loss 0.5
    """
    if rank() == 0:
        builtins.print(*values, **options)
