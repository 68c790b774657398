"""Steps on a GPU beside PyTorch's and JAX's, with the kernels that each of them launches.

``python -m benchmarks.gpu`` runs all peers in one process on one GPU. They take turns; a turn
queues steps one after the other and waits at its end, and a figure is the median of the turns.
Storage is float32 with TF32 in matrix products, or bfloat16 where the name says so. ``--table``
prints the figures alone at the end; ``--host`` what a jitted call of many leaves costs the host;
``--first-calls mlp-small,gpt`` the first calls of fresh processes. ``--help`` has the options.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, misc, no-any-return"

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

# JAX is to leave the others some memory; set before it is imported.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

from benchmarks.gpu_calls import print_first_calls, print_host_times
from benchmarks.gpu_workloads import PEERS, WORKLOADS, Step

WARM_UP = 5
# Peers that are measured if they are named.
NAMED_ONLY = frozenset({"functensor-benchmark", "torch-compile"})
LONGEST = 400
MIB = 2**20


def synchronize() -> None:
    """Waits for the GPU, whoever gave it work."""
    import cupy

    cupy.cuda.runtime.deviceSynchronize()


class Peak:
    """The most memory that a peer's arrays took at once, and the most that its pool held."""

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def measure(self, step: Step, steps: int = 3) -> tuple[float, float] | None:
        """Returns both, in MiB, during some steps; None where that is not known."""
        if self.peer == "functensor":
            return self.of_cupy(step, steps)
        if self.peer.startswith("torch"):
            import torch

            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            run(step, steps)
            held = torch.cuda.max_memory_reserved()
            return torch.cuda.max_memory_allocated() / MIB, held / MIB
        return None

    def of_cupy(self, step: Step, steps: int) -> tuple[float, float]:
        """Returns both for CuPy's pool, whose changes a hook adds up."""
        import cupy

        pool = cupy.get_default_memory_pool()

        class Watch(cupy.cuda.MemoryHook):
            name = "Watch"
            used = most = pool.used_bytes()

            def malloc_postprocess(self, **what: Any) -> None:
                self.used += what["mem_size"]
                self.most = max(self.most, self.used)

            def free_postprocess(self, **what: Any) -> None:
                self.used -= what["mem_size"]

        pool.free_all_blocks()
        with Watch() as watch:
            run(step, steps)
        return watch.most / MIB, pool.total_bytes() / MIB


def run(step: Step, steps: int) -> float:
    """Returns the seconds that some steps take, queued one after the other."""
    synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize()
    return time.perf_counter() - start


def launched(step: Step) -> tuple[Counter[str], Counter[str]] | None:
    """Returns how often each kernel, copy or fill runs in a step, and its microseconds.

    Returns None where nobody counts.
    """
    try:
        from torch.profiler import ProfilerActivity, profile
    except ImportError:
        return None
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            step()
            synchronize()
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    events = [event for event in events if event.get("cat") in kinds]
    times: Counter[str] = Counter()
    for event in events:
        times[event["name"]] += event["dur"]
    return Counter(event["name"] for event in events), times


def short(name: str) -> str:
    """Returns a kernel's name without what only the compiler needs."""
    return name.replace("void ", "").replace("(anonymous namespace)::", "").partition("(")[0][:110]


def built(peer: str, workload: str) -> tuple[Step, float] | str:
    """Returns a peer's step after some runs, and the loss of the first, or why there is none."""
    make, dtype = WORKLOADS[workload]
    try:
        step = PEERS[peer](make(np.random.default_rng(2026)), dtype)
        # Of an array the mean size, which tells gradients from others.
        loss = float(np.mean(np.abs(np.asarray(as_host(step())).astype(np.float64))))
        run(step, WARM_UP)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return step, loss


def measured(workload: str, peers: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Returns what is found of every peer on a workload."""
    found: dict[str, Any] = {}
    steps: dict[str, Step] = {}
    for peer in peers:
        made = built(peer, workload)
        if isinstance(made, str):
            found[peer] = {"failed": made}
        else:
            steps[peer], loss = made
            found[peer] = {"loss": loss}
    counts = {
        peer: int(min(LONGEST, max(5, options.seconds / (run(step, 3) / 3))))
        for peer, step in steps.items()
    }
    rounds: dict[str, list[float]] = {peer: [] for peer in steps}
    gc.disable()
    for turn in range(options.rounds):
        first = turn % max(len(steps), 1)
        for peer in [*steps][first:] + [*steps][:first]:
            rounds[peer].append(run(steps[peer], counts[peer]) / counts[peer])
        gc.collect()
    gc.enable()
    for peer, step in steps.items():
        found[peer]["ms"] = 1e3 * median(rounds[peer])
        found[peer]["spread"] = 1e3 * (max(rounds[peer]) - min(rounds[peer]))
        found[peer]["peak"] = Peak(peer).measure(step)
        counted = launched(step) if options.kernels else None
        found[peer]["kernels"], found[peer]["times"] = counted or (None, None)
    return found


def as_host(x: Any) -> Any:
    """Returns a loss, or an array, as NumPy reads it."""
    import functensor as ft

    if hasattr(x, "cpu"):
        return x.detach().float().cpu()
    return ft.to_device(x, "cpu") if isinstance(x, ft.Array) else x


def report(workload: str, found: dict[str, Any], options: argparse.Namespace) -> None:
    """Prints a workload's row, and below it what each peer launches."""
    ours = found.get("functensor", {}).get("ms")
    for peer, what in found.items():
        if "failed" in what:
            print(f"{workload:17}{peer:15}{what['failed'][:150]}")
            continue
        ratio = f"{ours / what['ms']:8.3f}" if ours else f"{'':8}"
        peak = "{:10.0f}{:10.0f}".format(*what["peak"]) if what["peak"] else f"{'':20}"
        kernels = what["kernels"]
        number = f"{kernels.total():9}" if kernels else f"{'':9}"
        print(
            f"{workload:17}{peer:15}{what['ms']:10.4f}{what['spread']:9.4f}{ratio}{number}{peak}"
            f"{what['loss']:13.5f}"
        )
    for peer in ("functensor", "functensor-jit", "torch"):
        kernels = found.get(peer, {}).get("kernels")
        if kernels and options.names:
            times = found[peer]["times"]
            print(f"  launched by {peer}, microseconds together {times.total():.1f}:")
            for name, spent in times.most_common(options.names):
                print(f"    {kernels[name]:4} x {spent:9.1f} {short(name)}")
    sys.stdout.flush()


def print_table(everything: dict[str, Any], peers: list[str]) -> None:
    """Prints the milliseconds of all workloads as a table of Markdown."""
    print("\n| workload |", *[f"{peer} |" for peer in peers])
    print("|---|" + "---|" * len(peers))
    for workload, found in everything.items():
        cells = [found.get(peer, {}).get("ms") for peer in peers]
        print(f"| {workload} |", *[f"{ms:.3f} |" if ms else "- |" for ms in cells])
    sys.stdout.flush()


def problems(workload: str, found: dict[str, Any]) -> list[str]:
    """Returns in what the peers' losses differ more than the arithmetic explains."""
    losses = {peer: what["loss"] for peer, what in found.items() if "loss" in what}
    tolerance = 0.05 if workload.endswith("bf16") else 0.01
    reference = next(iter(losses.values()), 0.0)
    return [
        f"{workload}: the loss of {peer} is {loss}, that of {next(iter(losses))} {reference}"
        for peer, loss in losses.items()
        if not abs(loss - reference) <= tolerance * max(1.0, abs(reference))
    ]


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; returns 1 if something failed or losses differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--peers", default=",".join(p for p in PEERS if p not in NAMED_ONLY))
    parser.add_argument("--table", action="store_true", help="prints the figures once more, short")
    parser.add_argument("--host", action="store_true", help="what calls cost the host, too")
    parser.add_argument("--first-calls", metavar="WORKLOADS", help="of these first calls, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn")
    parser.add_argument("--names", type=int, default=12, help="kernels to name; 0 for none")
    parser.add_argument("--no-kernels", dest="kernels", action="store_false")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    print(
        f"{'workload':17}{'peer':15}{'ms':>10}{'spread':>9}{'ours/it':>8}{'launches':>9}"
        f"{'peak MiB':>10}{'held MiB':>10}{'loss':>13}"
    )
    everything: dict[str, Any] = {}
    wrong: list[str] = []
    for workload in options.workloads.split(","):
        found = measured(workload, options.peers.split(","), options)
        report(workload, found, options)
        wrong += problems(workload, found)
        wrong += [f"{workload}: {peer} failed" for peer, what in found.items() if "failed" in what]
        everything[workload] = found
        release()
    if options.table:
        print_table(everything, options.peers.split(","))
    if options.host:
        print_host_times()
    if options.first_calls:
        print_first_calls(options.first_calls.split(","))
    for line in wrong:
        print("PROBLEM", line)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))
    return 1 if wrong else 0


def release() -> None:
    """Gives back the memory that the peers' pools hold."""
    import cupy

    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    emptied: Callable[[], None] | None = None
    if "torch" in sys.modules:
        emptied = sys.modules["torch"].cuda.empty_cache
    if emptied is not None:
        emptied()


if __name__ == "__main__":
    sys.exit(main())
