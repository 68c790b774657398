"""The host's share of jitted calls on a GPU, and first calls in fresh processes.

`python -m benchmarks.gpu --host --first-calls mlp-small` prints both. Run by itself with a peer and
a workload, it makes first calls and prints their seconds as JSON.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

# JAX is to leave the others some memory; set before it is imported.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

from benchmarks.gpu_workloads import PEERS, WORKLOADS, Step, functensor_jitted

COUNTS = (1, 10, 400)
ROUNDS, CALLS = 7, 100
# Calls behind the one that finds the plan, until it is a graph.
CALLS_UNTIL_GRAPH = 4
LONGEST_WAIT_SECONDS = 120
FIRST_CALL_PEERS = "functensor", "functensor-jit", "torch", "torch-compile", "jax-jit"
# The folders in which compiled kernels are kept.
CACHES = {"CUPY_CACHE_DIR": "cupy", "TORCHINDUCTOR_CACHE_DIR": "torch"}
CACHES |= {"TRITON_CACHE_DIR": "triton"}
JAX_CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
JAX_CACHE |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def synchronize() -> None:
    """Waits for the GPU, whoever gave it work."""
    import cupy

    cupy.cuda.runtime.deviceSynchronize()


def one_of(xs: list[Any]) -> Any:
    """Computes with the first leaf."""
    return xs[0] * 2 + 1


def all_of(xs: list[Any]) -> list[Any]:
    """Computes with every leaf."""
    return [x * 0.5 + 1 for x in xs]


def host_seconds(call: Step) -> float:
    """Returns what a call costs the host, which only queues: the median of rounds of calls."""
    times = []
    for _ in range(ROUNDS):
        synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS)
    return median(times)


def with_leaves(jitted: Any, leaves: list[Any], gives_away: bool) -> Step:
    """Returns a call of a jitted function; of what it returns where leaves are given away."""
    if not gives_away:
        return lambda: jitted(leaves)
    held = [leaves]

    def call() -> None:
        held[0] = jitted(held[0])

    return call


def print_host_times() -> None:
    """Prints microseconds of calls of trees of 1, 10 and 400 leaves of 4 floats."""
    import functensor as ft

    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        jax = None
    print(f"\n{'microseconds of a call on the host':44}{'functensor':>12}{'jax':>12}")
    for count in COUNTS:
        for what, function, donated in (
            ("reads one leaf", one_of, ()),
            ("updates all, donated", all_of, (0,)),
        ):
            x = np.ones(4, np.float32)
            ours = ft.jit(function, donate_argnums=donated)
            leaves = [ft.to_device(x, "cuda") for _ in range(count)]
            ours.compile(leaves)
            calls = [with_leaves(ours, leaves, bool(donated))]
            if jax is not None:
                theirs = jax.jit(function, donate_argnums=donated)
                there = [jnp.asarray(x) + 0 for _ in range(count)]
                calls.append(with_leaves(theirs, there, bool(donated)))
            for call in calls:
                for _ in range(5):
                    call()
            cells = [f"{1e6 * host_seconds(call):12.1f}" for call in calls]
            print(f"{f'{count} leaves, {what}':44}{''.join(cells)}", flush=True)


def timed(call: Callable[[], Any]) -> float:
    """Returns the seconds until a call's results are there."""
    start = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - start


def first_calls(peer: str, workload: str) -> dict[str, float]:
    """Returns the seconds of a peer's first and second call, and until what runs stays the same."""
    import cupy

    make, dtype = WORKLOADS[workload]
    problem = make(np.random.default_rng(2026))
    cupy.ones(8).sum()
    jitted: Any = None
    if peer == "functensor-jit":
        jitted, _, step = functensor_jitted(problem, dtype)
    else:
        step = PEERS[peer](problem, dtype)
    synchronize()
    start = time.perf_counter()
    found = {"first": timed(step), "second": timed(step)}
    if jitted is not None:
        while "by kernels" not in str(jitted.explain()):
            timed(step)
            if time.perf_counter() - start > LONGEST_WAIT_SECONDS:
                raise TimeoutError("no plan is made")
    for _ in range(CALLS_UNTIL_GRAPH):
        timed(step)
    found["settled"] = time.perf_counter() - start
    return found


def print_first_calls(workloads: list[str], peers: tuple[str, ...] = FIRST_CALL_PEERS) -> None:
    """Prints first calls with empty caches on the disk, and with what these left there."""
    print(f"\n{'first calls, milliseconds':44}{'first':>10}{'second':>10}{'settled':>10}")
    for workload in workloads:
        for peer in peers:
            with tempfile.TemporaryDirectory() as folder:
                caches = {name: f"{folder}/{part}" for name, part in CACHES.items()}
                caches |= {"JAX_COMPILATION_CACHE_DIR": f"{folder}/jax", **JAX_CACHE}
                for state in ("cold", "warm"):
                    title = f"{workload}, {peer}, {state}"
                    print(f"{title:44}{asked(peer, workload, caches)}", flush=True)


def asked(peer: str, workload: str, caches: dict[str, str]) -> str:
    """Returns a line of figures of a fresh process, or why it has none."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_calls", peer, workload],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **caches},
    )
    if done.returncode:
        return f"  {(done.stderr.strip().splitlines() or ['failed'])[-1][:100]}"
    found = json.loads(done.stdout.splitlines()[-1])
    return "".join([f"{1e3 * found[name]:10.1f}" for name in ("first", "second", "settled")])


if __name__ == "__main__":
    print(json.dumps(first_calls(*sys.argv[1:])))
