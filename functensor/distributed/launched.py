"""Reads what launchers, mpirun or srun, tell the processes that they start."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["launched_processes"]

# Variables with the number of processes, by the launcher that sets them. Slurm's are those of a
# step: a batch script has the number of tasks too, and is one process.
LAUNCHERS = {
    "PMI_SIZE": "mpirun of MPICH or of a relative",
    "OMPI_COMM_WORLD_SIZE": "mpirun of Open MPI",
    "MV2_COMM_WORLD_SIZE": "mpirun of MVAPICH",
    "PALS_NRANKS": "mpiexec of PALS",
    "SLURM_STEP_NUM_TASKS": "srun",
}


def launched_processes(environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Returns how many processes a launcher started, and which launcher; 1 without one.

    >>> launched_processes({"OMPI_COMM_WORLD_SIZE": "4"})
    (4, 'mpirun of Open MPI')
    >>> launched_processes({})
    (1, '')
    """
    found = os.environ if environment is None else environment
    for variable, launcher in LAUNCHERS.items():
        text = found.get(variable, "")
        if text.isdecimal() and int(text) > 1:
            return int(text), launcher
    return 1, ""
