"""A training on four processes, of which one or all fail in the way that the command line says.

Each process writes its errors to a file of its own: through a launcher they come mixed.
"""

import os
import signal
import sys
import time
from pathlib import Path

from mpi4py import MPI

import functensor as ft
import functensor.numpy as np
from functensor.distributed.failures import news
from functensor.distributed.watching import Watch


def fail(how):
    if how == "raises":
        raise FileNotFoundError("no such shard")
    if how == "is interrupted":
        raise KeyboardInterrupt
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "sleeps":
        time.sleep(600)
    if how == "ends":
        sys.exit(0)


def block():
    """Queues work that never gets done, and blocks as a GPU does that nobody can abort.

    Rank 0 ends its program.
    """
    watch = Watch(news())
    watch.queued("sum", range(4), lambda: False)
    if ft.distributed.rank() == 0:
        sys.exit(0)
    time.sleep(600)


def main(how, folder):
    with (Path(folder) / str(MPI.COMM_WORLD.rank)).open("w") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
    ft.distributed.set_timeout(60.0 if how in ("raises", "is interrupted", "dies") else 3.0)
    if how == "is not there" and MPI.COMM_WORLD.rank == 2:
        time.sleep(600)
    ft.distributed.initialize(device="cpu")
    optimizer = ft.optim.sgd(0.1)
    step = ft.jit(ft.distributed.data_parallel(optimizer.minimize(lambda w, x: np.sum(w * x))))
    if how == "blocks":
        block()
    w = np.ones(3)
    state = optimizer.init(w)
    for number in range(20):
        if number == 3 and ft.distributed.rank() == 2:
            fail(how)
        w, state = step(w, state, np.ones(3))
    print("the training ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
