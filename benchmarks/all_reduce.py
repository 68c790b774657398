"""Times sums over processes, by size, as NCCL's own test of ``all_reduce`` reports them.

    mpirun -n 4 python -m benchmarks.all_reduce

A row has the bytes of an array of float32, the microseconds of a sum, and two bandwidths in GB/s:
bytes over time, and that times 2 (n - 1) / n, which is the traffic of every link of a ring of n
processes and is compared with the hardware's. Rows for ``psum`` go through the primitive, and rows
for ``group`` call MPI or NCCL with nothing between.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import functensor as ft
from functensor.distributed import P

__all__ = ["main"]

ROUNDS = 5
WARM_UP = 5


def main() -> None:
    """Prints a table on the process of rank 0."""
    parser = argparse.ArgumentParser(description="times sums over processes")
    parser.add_argument("--smallest", type=int, default=1 << 12, help="bytes")
    parser.add_argument("--largest", type=int, default=1 << 26, help="bytes")
    parser.add_argument("--calls", type=int, default=20, help="calls of a round")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    options = parser.parse_args()
    info = ft.distributed.initialize(device=options.device)
    ft.distributed.print_once(f"{info.size} processes, {info.device}, {info.engines}")
    ft.distributed.print_once(f"{'bytes':>12} {'by':>6} {'us':>10} {'GB/s':>8} {'of links':>8}")
    size = options.smallest
    while size <= options.largest:
        for name, call in calls_of(size, info).items():
            seconds = time_of(call, options.calls, info)
            rate = size / seconds / 1e9
            links = rate * 2 * (info.size - 1) / info.size
            ft.distributed.print_once(
                f"{size:12d} {name:>6} {seconds * 1e6:10.1f} {rate:8.2f} {links:8.2f}"
            )
        size *= 4


def calls_of(size: int, info: Any) -> dict[str, Callable[[], Any]]:
    """Returns what is timed for arrays of so many bytes, by name."""
    mesh = ft.distributed.mesh({"all": info.size})
    x = ft.to_device(np.ones(size // 4, np.float32), info.device)
    spec = P.local()
    total = ft.distributed.spmd(lambda x: ft.psum(x, "all"), mesh, spec, spec)
    buffer = np.asarray(x) if info.device == "cpu" else cupy_array(x)
    group = mesh.group(["all"], buffer)
    return {"psum": lambda: total(x), "group": lambda: group.sum(buffer)}


def cupy_array(x: Any) -> Any:
    """Returns an array on a GPU as CuPy's, without a copy."""
    import cupy

    return cupy.asarray(x)


def time_of(call: Callable[[], Any], count: int, info: Any) -> float:
    """Returns the seconds of a call, the median of rounds."""
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(ROUNDS):
        settle(info)
        begun = perf_counter()
        for _ in range(count):
            call()
        settle(info)
        times.append((perf_counter() - begun) / count)
    return median(times)


def settle(info: Any) -> None:
    """Waits until a GPU has done what is queued, and until all processes are here."""
    if info.device != "cpu":
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    if info.comm is not None:
        info.comm.Barrier()


if __name__ == "__main__":
    main()
