"""Data-parallel training on the GPUs of one host: `python -m benchmarks.gpu_processes`.

Each process trains on one GPU with a batch of its own, as large as that of one GPU alone. A cell of
the table has the milliseconds of a step, and the time of one GPU over it: 1 where the exchange of
gradients costs nothing. functensor's step is jitted as a whole with `data_parallel`; PyTorch's is
eager, with its DistributedDataParallel and fused Adam. The second table has the time of a sum over
all processes, and what each link carries.

With ``--spread GIB`` parameters of so many GiB are trained with Adam, of which each GPU has the
whole state, and with the state, gradients and parameters spread over all (`sharded`, stages 1 to
3, and 3 where each layer gathers its own parameters). A cell has the milliseconds of a step and the
GiB that one GPU's memory holds.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Problem
from benchmarks.data import LEARNING_RATE
from benchmarks.gpu_workloads import WORKLOADS, functensor_parts, torch_losses
from benchmarks.report import aligned
from benchmarks.run import positive

Step = Callable[[], Any]

WARM_UP = 8
SUMS = (1, 16, 256, 1024)
# The rows and columns of each matrix of the network that is spread.
WIDTH = 16_384
MIB = 2**20
# A port of this host, at which PyTorch's processes meet.
PORT = 29517


def functensor_step(problem: Problem, dtype: str) -> tuple[Step, Step]:
    """Returns a jitted data-parallel step, and what waits for it."""
    import cupy

    import functensor as ft

    ft.distributed.initialize()
    loss_and_grad, held, batch = functensor_parts(problem, dtype)
    adam = ft.optim.adam(LEARNING_RATE)
    held.append(adam.init(held[0]))

    def update(params: Any, state: Any, *batch: Any) -> Any:
        loss, grads = loss_and_grad(params, *batch)
        return *adam.update(params, state, grads), loss

    stepped = ft.jit(ft.distributed.data_parallel(update), donate_argnums=(0, 1))
    stepped.compile(*held, *batch)

    def step() -> Any:
        *held[:], loss = stepped(*held, *batch)
        return loss

    return step, cupy.cuda.Device().synchronize


def torch_step(problem: Problem, dtype: str) -> tuple[Step, Step]:
    """Returns a step by DistributedDataParallel, and what waits for it."""
    import torch
    from mpi4py import MPI
    from torch.nn.parallel import DistributedDataParallel

    world = MPI.COMM_WORLD
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.cuda.set_device(world.rank)
    torch.distributed.init_process_group(
        "nccl", f"tcp://127.0.0.1:{PORT}", rank=world.rank, world_size=world.size
    )
    loss = torch_losses().of(problem.workload)

    def placed(name: str, x: Any) -> Any:
        weight = name.endswith("_w") and x.ndim == 2
        there = torch.from_numpy(np.ascontiguousarray(x.T) if weight else x).cuda()
        return there.to(getattr(torch, dtype)) if there.dtype == torch.float32 else there

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            tensors = {name: placed(name, x) for name, x in problem.params.items()}
            self.own = torch.nn.ParameterDict(tensors)

        def forward(self, *batch: Any) -> Any:
            return loss(dict(self.own.items()), *batch)

    net = DistributedDataParallel(Net(), device_ids=[world.rank])
    adam = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE, fused=True)
    batch = [placed("", x) for x in problem.batch]

    def step() -> Any:
        adam.zero_grad()
        value = net(*batch)
        value.backward()
        adam.step()
        return value.detach()

    return step, torch.cuda.synchronize


PEERS = {"functensor": functensor_step, "torch": torch_step}
# The names of optimizers that are whole, and spread.
STAGES = ("whole", "stage 1", "stage 2", "stage 3", "stage 3 by layers")


def measured(peer: str, workload: str, steps: int) -> tuple[float, float]:
    """Returns the milliseconds of a step of this process, and the last loss."""
    from mpi4py import MPI

    make, dtype = WORKLOADS[workload]
    step, wait = PEERS[peer](make(np.random.default_rng(2026 + MPI.COMM_WORLD.rank)), dtype)
    return timed(step, wait, steps)


def timed(step: Step, wait: Step, steps: int) -> tuple[float, float]:
    """Returns the milliseconds of a step, and the last loss."""
    from mpi4py import MPI

    best = float("inf")
    for _ in range(WARM_UP):
        step()
    for _ in range(3):
        wait()
        MPI.COMM_WORLD.Barrier()
        begun = time.perf_counter()
        for _ in range(steps):
            loss = step()
        wait()
        best = min(best, (time.perf_counter() - begun) / steps)
    return 1e3 * best, float(loss)


def sums() -> list[tuple[int, float]]:
    """Returns the microseconds of sums over all processes by their MiB."""
    import cupy

    import functensor as ft

    ft.distributed.initialize()
    group_of = ft.distributed.mesh({"all": -1}).group
    found = []
    for size in SUMS:
        x = cupy.ones(size * MIB // 4, "float32")
        group = group_of(["all"], x)
        calls = max(5, min(200, 4096 // size))
        for part in (3, calls):
            cupy.cuda.Device().synchronize()
            begun = time.perf_counter()
            for _ in range(part):
                group.sum(x)
            cupy.cuda.Device().synchronize()
        found.append((size, 1e6 * (time.perf_counter() - begun) / calls))
    return found


def spread_step(stage: int, gib: float) -> tuple[Step, Step]:
    """Returns a step of Adam on a deep network, spread over GPUs, and what waits for it.

    Args:
        stage: 0 for an optimizer that each process has whole, 4 for stage 3 of `sharded` where each
            layer gathers its parameters when it needs them, else the stage.
        gib: how large the parameters are.
    """
    import cupy

    import functensor as ft

    info = ft.distributed.initialize(device="cuda")
    optimizer: Any = ft.optim.adam(LEARNING_RATE)
    if stage:
        optimizer = ft.distributed.sharded(optimizer, stage=min(stage, 3), gathers=stage != 4)
    scale = WIDTH**-0.5

    def layer(w: Any, y: Any) -> Any:
        return ft.numpy.tanh(y @ (ft.distributed.gather(w) if stage == 4 else w))

    if stage == 4:
        layer = ft.checkpoint(layer)

    def loss(params: Any, x: Any) -> Any:
        y = x
        for w in params:
            y = layer(w, y)
        return ft.numpy.mean((y - x) ** 2)

    params: Any = []
    for key in ft.random.split(ft.random.key(0), max(1, round(gib * 2**30 / (4 * WIDTH**2)))):
        there = ft.to_device(key, info.device)
        w = scale * ft.random.normal(there, (WIDTH, WIDTH), dtype="float32")
        params.append(optimizer.shard(w) if stage > 2 else w)
    x = ft.to_device(np.ones((128, WIDTH), "float32"), info.device)
    stepped = ft.jit(ft.distributed.data_parallel(optimizer.minimize(loss)), donate_argnums=(0, 1))
    held = [params, optimizer.init(params)]
    del params
    stepped.compile(*held, x)

    def step() -> Any:
        held[:] = stepped(*held, x)
        return held[1].loss

    return step, cupy.cuda.Device().synchronize


def spread(stage: int, gib: float) -> tuple[float, float]:
    """Returns the milliseconds of a step, and the GiB of the GPU's memory that are taken."""
    import cupy

    step, wait = spread_step(stage, gib)
    milliseconds, _ = timed(step, wait, 5)
    free, total = cupy.cuda.runtime.memGetInfo()
    return milliseconds, (total - free) / 2**30


def started(count: int, *options: str) -> list[str]:
    """Returns the words that the first of so many processes prints last."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("mpirun", path=places)
    if program is None:
        raise RuntimeError("there is no mpirun: pip install 'functensor[mpi]' mpich")
    command = [program, "-n", str(count), sys.executable, "-m", __spec__.name, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
        return ["failed"]
    return done.stdout.split()


def table(counts: Sequence[int], workloads: Sequence[str], peers: Sequence[str], steps: int) -> str:
    """Milliseconds of a step, and the time of one GPU over it."""
    lines = [["workload", "", *(f"{count} GPUs" for count in counts)]]
    for workload in workloads:
        for peer in peers:
            cells, alone = [], 0.0
            for count in counts:
                found = started(count, "--peer", peer, "--steps", str(steps), workload)
                try:
                    milliseconds = float(found[0])
                except ValueError:
                    cells.append("failed")
                    continue
                alone = alone or milliseconds
                cells.append(f"{milliseconds:.2f}, {alone / milliseconds:.3f}")
            lines.append([workload, peer, *cells])
    return aligned(lines)


def spread_table(counts: Sequence[int], gib: float) -> str:
    """Milliseconds of a step, and the GiB that one GPU holds."""
    lines = [["Adam", *(f"{count} GPUs" for count in counts)]]
    for name in STAGES:
        cells = []
        for count in counts:
            found = started(count, "--peer", name, "--spread", str(gib))
            try:
                cells.append(f"{float(found[0]):.0f} ms, {float(found[1]):.1f} GiB")
            except ValueError:
                cells.append("failed")
        lines.append([name, *cells])
    return aligned(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or what one of several processes measures."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_processes", description=__doc__
    )
    options.add_argument("workloads", nargs="*", help="default: gpt gpt-bf16")
    options.add_argument("--gpus", default="1,2,4", help="default: 1,2,4")
    options.add_argument("--steps", type=positive, default=20, help="default: 20")
    options.add_argument("--peers", default=",".join(PEERS), help="default: all")
    options.add_argument("--spread", type=float, metavar="GIB", help="measure sharded training")
    options.add_argument("--peer", choices=[*PEERS, "sums", *STAGES], help=argparse.SUPPRESS)
    parsed = options.parse_args(arguments)
    workloads = parsed.workloads or ["gpt", "gpt-bf16"]
    if parsed.peer:
        from mpi4py import MPI

        if parsed.peer == "sums":
            words = [f"{microseconds:.0f}" for _, microseconds in sums()]
        elif parsed.peer in STAGES:
            words = [f"{x}" for x in spread(STAGES.index(parsed.peer), parsed.spread)]
        else:
            words = [f"{x}" for x in measured(parsed.peer, workloads[0], parsed.steps)]
        if MPI.COMM_WORLD.rank == 0:
            print(*words)
        return 0
    counts = [int(count) for count in parsed.gpus.split(",")]
    if parsed.spread:
        print(spread_table(counts, parsed.spread))
        return 0
    print(table(counts, workloads, parsed.peers.split(","), parsed.steps), end="\n\n")
    lines = [["MiB", *(f"{count} GPUs" for count in counts if count > 1)]]
    columns = [started(count, "--peer", "sums") for count in counts if count > 1]
    for place, size in enumerate(SUMS):
        cells = []
        for count, column in zip([c for c in counts if c > 1], columns, strict=True):
            microseconds = float(column[place]) if len(column) == len(SUMS) else float("nan")
            carried = 2 * (count - 1) / count * size * MIB / microseconds / 1e3
            cells.append(f"{microseconds:.0f} us, {carried:.0f} GB/s")
        lines.append([str(size), *cells])
    print(aligned(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
