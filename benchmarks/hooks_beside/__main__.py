"""Prints the table of `docs/hooks_compared.md`: `python -m benchmarks.hooks_beside`.

A cell has the lines of user code, and the time over that of the same work without the tool in the
same library, measured in turns. A dash means that the library has no such tool. The command fails
where a job does not find what it should, or a library does what `limits` says that it cannot.
Libraries that are not installed are left out, and without PyTorch and JAX the limits.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.hooks_beside import jobs
from benchmarks.hooks_beside.jobs import Compile, Run
from benchmarks.peers.functional import identity
from benchmarks.report import status
from benchmarks.run import positive

NAN_INPUTS: dict[str, float] = {"first NaN, forward": -1.0, "first NaN, backward": 0.0}
SECONDS = 0.3
# The modules of the other libraries.
PEERS = {"PyTorch": "torch", "JAX": "jax", "TensorFlow": "tensorflow"}
# Those whose limits are looked at.
LIMITED = {"PyTorch", "JAX"}


def columns() -> dict[str, tuple[Any, Compile]]:
    """Returns the jobs of each column's library that is installed, and what compiles there."""
    import functensor as ft

    found: dict[str, tuple[Any, Compile]] = {}
    ours = import_module("benchmarks.hooks_beside.functensor_jobs")
    found["functensor"], found["functensor, jit"] = (ours, identity), (ours, ft.jit)
    if "PyTorch" not in missing():
        found["PyTorch"] = import_module("benchmarks.hooks_beside.torch_jobs"), identity
    if "JAX" not in missing():
        import jax

        found["JAX, jit"] = import_module("benchmarks.hooks_beside.jax_jobs"), jax.jit
    if "TensorFlow" not in missing():
        found["TensorFlow"] = import_module("benchmarks.hooks_beside.tensorflow_jobs"), identity
    return found


def missing() -> list[str]:
    """Returns the libraries that are not installed."""
    return [title for title, module in PEERS.items() if find_spec(module) is None]


def raised_by(run: Callable[[Any], Any], x: Any) -> str:
    """Returns what the error that a bad input raises says, and the line that its cause shows."""
    try:
        run(x)
    except Exception as error:
        cause = error.__cause__
        shown = traceback.extract_tb(cause.__traceback__)[-1:] if cause else []
        return "\n".join([str(error), *(frame.line or "" for frame in shown)])
    return ""


def ratio(run: Run, plain: Run, rounds: int) -> float:
    """Returns a job's time over the plain work's: the least of each, in turns."""
    clock = time.perf_counter
    best = [float("inf")] * 2
    for _ in range(3):
        run(), plain()
    for _ in range(rounds):
        for i, work in enumerate((run, plain)):
            end = clock() + SECONDS / rounds
            while True:
                start = clock()
                work()
                best[i] = min(best[i], clock() - start)
                if clock() > end:
                    break
    return best[0] / best[1]


def cell(title: str, name: str, rounds: int, library: Any, compile: Compile) -> tuple[str, str]:
    """Returns what the table says of a job in a library, and what is wrong with it."""
    if name not in library.JOBS:
        return "–", ""
    job, beside = library.JOBS[name]
    run = job(compile)
    if name in NAN_INPUTS:
        found: Any = raised_by(run, library.POSITIVE * NAN_INPUTS[name])
    else:
        run(), run()
        found = run()
    right = jobs.EXPECTED[name](found)
    cost = ratio(run, library.plain(beside, compile), rounds)
    problem = "" if right else f"{title}: {name}: found {str(found)[:300]!r}"
    return f"{jobs.lines_of(job)}, {cost:.2f}", problem


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table in Markdown; 1 if a job or a limit is not as it is said to be."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.hooks_beside", description=__doc__)
    options.add_argument("--rounds", type=positive, default=5, help="default: 5")
    rounds = options.parse_args(arguments).rounds
    # PyTorch warns that anomaly detection is slow, and of a module whose inputs need no gradient.
    warnings.filterwarnings("ignore", category=UserWarning, module="torch|benchmarks")
    # NumPy warns of the inputs that are to make NaN.
    warnings.filterwarnings("ignore", category=RuntimeWarning, message="invalid value|divide by")
    problems = []
    libraries = columns()
    print(f"| job | {' | '.join(libraries)} |\n|---|{'---|' * len(libraries)}")
    for name in jobs.EXPECTED:
        cells = []
        for title, (library, compile) in libraries.items():
            text, problem = cell(title, name, rounds, library, compile)
            cells.append(text)
            problems += [problem] if problem else []
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if missing():
        names = " and ".join(missing())
        advice = "pip install 'functensor[bench]'"
        print(f"\nnot installed, and so not measured: {names}\n  fix: {advice}", file=sys.stderr)
    if LIMITED.intersection(missing()):
        return status(problems)
    limits = import_module("benchmarks.hooks_beside.limits")
    print("\n| limit | what happens |\n|---|---|")
    for limit, shown in limits.LIMITS.items():
        try:
            print(f"| {limit} | {shown()} |")
        except AssertionError as error:
            problems.append(f"{limit}: {error}")
    return status(problems)


if __name__ == "__main__":
    sys.exit(main())
