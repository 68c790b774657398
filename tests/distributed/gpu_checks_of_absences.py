"""Checks on a process for each GPU of a rank that does not come while others block on their GPUs.

Communicators of NCCL are given up then, so there is one check, and the processes end by
the exit code 1. On two GPUs they take half a minute, and write the check's name into a file:

    mpirun -n 2 python tests/support/rank_program.py tests/distributed/gpu_checks_of_absences.py OUT
"""

import numpy as np
import pytest
from mpi4py import MPI

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, mesh, spmd
from functensor.errors import DistributedError

INFO = ft.distributed.initialize(device="cuda")
COUNT, RANK = INFO.size, INFO.rank
# Graphs are recorded after some calls of a plan, which another thread makes.
CALLS = 8


def check_a_rank_that_does_not_come_is_named():
    def total(x):
        return ft.psum(fnp.tanh(x @ x.T), "i")

    step = ft.jit(spmd(total, mesh({"i": COUNT}), P(), P()))
    x = ft.to_device(np.eye(4), "cuda")
    for _ in range(CALLS):
        step(x)
    step.compile(x)
    for _ in range(CALLS):
        np.testing.assert_allclose(ft.to_device(step(x), "cpu"), COUNT * np.tanh(np.eye(4)))
    MPI.COMM_WORLD.Barrier()
    ft.distributed.set_timeout(3.0)
    if RANK != 1:
        outs = [step(x) for _ in range(3)]
        with pytest.raises(DistributedError, match=r"within 3 seconds: 1\n    ranks? 0"):
            ft.to_device(outs[-1], "cpu")
        with pytest.raises(DistributedError, match="within 3 seconds: 1\n"):
            step(x)
    MPI.COMM_WORLD.Barrier()
