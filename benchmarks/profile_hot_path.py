"""The time of scalar-ops by lines: `python -m benchmarks.profile_hot_path` (POSIX only).

First the cost of an operation: NumPy alone, functensor forward, under `vjp`, and with gradient.
Then a sampling profile: a timer interrupts the program and counts the line that it was in, which
slows nothing down as tracing each call would.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from benchmarks.data import SCALAR_OPS_STEPS, problem
from benchmarks.peers.functensor_peer import LOSSES
from benchmarks.peers.numpy_losses import NumpyLosses

INTERVAL_SECONDS = 0.001
OPERATIONS = 2 * SCALAR_OPS_STEPS


def microseconds(function: Callable[[], object], seconds: float) -> float:
    """The median time of an operation, of calls that go on for so many seconds."""
    calls = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        function()
        calls.append(time.perf_counter() - start)
    return float(np.median(calls)) * 1e6 / OPERATIONS


def place(frame: FrameType) -> str:
    """Function, file and line of a frame."""
    path = Path(frame.f_code.co_filename)
    return f"{frame.f_code.co_qualname}  {path.parent.name}/{path.name}:{frame.f_lineno}"


def sample(function: Callable[[], object], seconds: float) -> tuple[Counter[str], Counter[str]]:
    """Samples by line, and by function with all that it calls."""
    lines: Counter[str] = Counter()
    functions: Counter[str] = Counter()

    def count(_signal: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        lines[place(frame)] += 1
        callers = set()
        caller: FrameType | None = frame
        while caller is not None:
            callers.add(caller.f_code.co_qualname)
            caller = caller.f_back
        functions.update(callers)

    before = signal.signal(signal.SIGPROF, count)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    try:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            function()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return lines, functions


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.profile_hot_path", description=__doc__
    )
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--top", type=int, default=25)
    options.add_argument("--mode", choices=("grad", "forward"), default="grad")
    parsed = options.parse_args(arguments)

    start = np.asarray(problem("scalar-ops").params)
    x = fnp.asarray(start)
    scalar_ops, in_numpy = LOSSES.scalar_ops, NumpyLosses().scalar_ops
    value_and_grad = ft.value_and_grad(scalar_ops)
    stages: dict[str, Callable[[], object]] = {
        "NumPy": lambda: in_numpy(start),
        "forward": lambda: scalar_ops(x),
        "forward under vjp": lambda: ft.vjp(scalar_ops, x),
        "value and gradient": lambda: value_and_grad(x),
    }
    print(f"microseconds an operation, of {OPERATIONS} on {start.size} floats")
    for name, stage in stages.items():
        print(f"{name:>20} {microseconds(stage, parsed.seconds / 4):6.2f}")

    stage = stages["value and gradient" if parsed.mode == "grad" else "forward"]
    lines, functions = sample(stage, parsed.seconds)
    total = max(lines.total(), 1)
    for heading, counter in (("lines", lines), ("functions, with their callees", functions)):
        print(f"\n{heading} ({total} samples)")
        for name, samples in counter.most_common(parsed.top):
            print(f"{100 * samples / total:6.1f} %  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
