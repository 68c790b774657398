"""The program that each process of `support.processes` runs: all checks of a file, in order.

A process whose check fails prints why and ends all others, which may be waiting for it.
"""

import runpy
import sys
import traceback
from time import perf_counter

from mpi4py import MPI


def main(file, done):
    """Runs the checks of a file, and notes in another one which are done on all processes."""
    rank = MPI.COMM_WORLD.rank
    try:
        names = runpy.run_path(file)
        for name, check in names.items():
            if name.startswith("check_"):
                begun = perf_counter()
                check()
                MPI.COMM_WORLD.Barrier()
                if rank == 0:
                    with open(done, "a") as out:
                        out.write(name + "\n")
                    print(f"{name}: {perf_counter() - begun:.2f} s")
    except BaseException:
        print(f"rank {rank} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
