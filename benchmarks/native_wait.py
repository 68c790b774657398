"""The wait for machine code: `python -m benchmarks.native_wait`.

Every line is of fresh processes that call a jitted step again and again until `explain()` says what
stays: first without a cache on the disk, then with one that an earlier process has filled.
`wait` is from the first call until then, `of it first` the first call, and `calls` how many there
were. `cpu` is the time that the thread which compiles had a core: on a busy machine it tells more;
it has nothing to do where an earlier process has decided for machine code. The least of `--rounds`
is printed, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.client import environment
from benchmarks.data import problem
from benchmarks.report import aligned, milliseconds
from benchmarks.run import positive, workload_names

WORKLOADS = ("gpt-small", "cnn", "mlp-small", "logreg")
FIGURES = ("wait", "first", "cpu")
HEADER = ("workload", "cache", "wait", "of it first", "cpu", "calls", "what stays")
# Seconds after which a process gives up.
LONGEST = 60.0


def wait_for(workload: str) -> dict[str, Any]:
    """Call a step until it is decided what runs; in the process that measures."""
    import functensor as ft
    from benchmarks.peers.functensor_peer import EAGER
    from functensor.jitting.tiers import Tiers

    compiling = []
    make = Tiers.make

    def timed(tiers: Tiers) -> None:
        begun = time.thread_time()
        make(tiers)
        compiling.append(time.thread_time() - begun)

    Tiers.make = timed  # type: ignore[method-assign]
    function, arguments = EAGER.build(problem(workload), "grad").call()  # type: ignore[union-attr]
    jitted = ft.jit(function)
    begun, calls, first, stays = time.perf_counter(), 0, 0.0, ""
    while not stays and time.perf_counter() - begun < LONGEST:
        jitted(*arguments)
        calls += 1
        first = first or time.perf_counter() - begun
        last = jitted.explain().splitlines()[-1]
        stays = next((how for how in ("as machine code", "over NumPy") if how in last), "")
    wait = time.perf_counter() - begun
    return {
        "wait": wait,
        "first": first,
        "cpu": sum(compiling) or None,
        "calls": calls,
        "stays": stays,
    }


def measured(workload: str, folder: str, threads: int) -> dict[str, Any]:
    """Ask a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.native_wait", "--within", workload],
        env={**environment(threads), "FUNCTENSOR_CACHE_DIR": folder},
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def line_of(workload: str, cache: str, answers: Sequence[dict[str, Any]]) -> list[str]:
    """The line of some processes."""
    times = [[a[figure] for a in answers if a[figure] is not None] for figure in FIGURES]
    least = [milliseconds(min(found, default=None)) for found in times]
    calls = str(min(answer["calls"] for answer in answers))
    return [workload, cache, *least, calls, answers[-1]["stays"] or "not decided"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print two lines a workload."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.native_wait", description=__doc__)
    options.add_argument("--workloads", type=workload_names, metavar="A,B")
    options.add_argument("--rounds", type=positive, default=3, help="default: 3")
    options.add_argument("--threads", type=positive, default=2, help="default: 2")
    options.add_argument("--within", metavar="A", help=argparse.SUPPRESS)
    parsed = options.parse_args(arguments)
    if parsed.within:
        print(json.dumps(wait_for(parsed.within)))
        return 0
    lines = []
    for workload in parsed.workloads or WORKLOADS:
        empty, filled = [], []
        for _ in range(parsed.rounds):
            with TemporaryDirectory() as folder:
                empty.append(measured(workload, os.path.join(folder, "objects"), parsed.threads))
                filled.append(measured(workload, os.path.join(folder, "objects"), parsed.threads))
        lines += [line_of(workload, "empty", empty), line_of(workload, "filled", filled)]
    print(aligned([HEADER, *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
