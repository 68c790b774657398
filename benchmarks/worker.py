"""A peer's process: it answers one line of JSON on stdout for each line on stdin.

    load WORKLOAD MODE   -> {"seconds": of a warm call}
    check                -> the outcome of the loaded case
    time REPEATS         -> {"minimum", "median"} of the calls' seconds, and "cpu": the CPU seconds
                            that the whole command took
    memory               -> {"bytes": the process's peak resident memory}
    calls WORKLOAD COUNT -> {"seconds": of the first calls of a gradient, one by one}
    stages WORKLOAD      -> {"trace", "passes", "plan", "run"}: seconds of a first call's parts
    footprint WORKLOAD HOW COUNT
                         -> see `benchmarks.footprint`; HOW is `plain` or `donating`
    small TREE LEAVES KIND
                         -> {"seconds": of a call that has next to nothing to do}
    quit

A failure is answered by {"unsupported": reason} or {"error": text}, and the worker goes on.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO, cast

from benchmarks.case import Case, Mode, Peer, Unsupported
from benchmarks.data import problem
from benchmarks.footprint import footprint
from benchmarks.peers import PEERS
from benchmarks.small_calls import small_call

MAX_WARM_UP = 20
# The methods of a worker that a line on stdin may call.
COMMANDS = ("load", "check", "time", "memory", "calls", "stages", "footprint", "small")


class Worker:
    """A peer and the case it has loaded."""

    def __init__(self, name: str, threads: int) -> None:
        entry = PEERS[name]
        self._peer: Peer = getattr(importlib.import_module(entry.module), entry.attribute)
        self._peer.set_threads(threads)
        self._case: Case | None = None

    @property
    def case(self) -> Case:
        """The loaded case."""
        if self._case is None:
            raise RuntimeError("load a workload first")
        return self._case

    def hello(self) -> dict[str, Any]:
        """The version that answers."""
        return {"version": self._peer.version()}

    def load(self, workload: str, mode: str) -> dict[str, Any]:
        """Replace the loaded case, and let it compile whatever it compiles."""
        self._case = None
        gc.collect()
        self._case = self._peer.build(problem(workload), cast(Mode, mode))
        seconds = self._calls(3)
        self._case.reset()
        return {"seconds": min(seconds)}

    def check(self) -> dict[str, Any]:
        """The outcome of the loaded case."""
        return self.case.outcome().to_json()

    def time(self, repeats: str) -> dict[str, Any]:
        """Time calls from the initial parameters, after calls that are not counted."""
        cpu = time.process_time()
        self.case.reset()
        self._calls(min(int(repeats), MAX_WARM_UP))
        self.case.reset()
        gc.collect()
        seconds = self._calls(int(repeats))
        return {
            "minimum": min(seconds),
            "median": statistics.median(seconds),
            "cpu": time.process_time() - cpu,
        }

    def memory(self) -> dict[str, Any]:
        """Peak resident memory since the process started."""
        return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def calls(self, workload: str, count: str) -> dict[str, Any]:
        """Time the first calls of a gradient or step, each."""
        self._case = self._peer.build(problem(workload), "grad")
        return {"seconds": self._calls(int(count))}

    def stages(self, workload: str) -> dict[str, Any]:
        """Time the parts of a first call."""
        measured = getattr(self._peer, "stages", None)
        if measured is None:
            raise Unsupported("its first call is a whole")
        case: Any = self._peer.build(problem(workload), "grad")
        seconds: dict[str, Any] = measured(*case.call())
        return seconds

    def footprint(self, workload: str, how: str, count: str) -> dict[str, Any]:
        """Measure the memory that training takes."""
        peer: Any = self._peer
        if how == "donating":
            if getattr(peer, "donating", None) is None:
                raise Unsupported("gives nothing away")
            peer = replace(peer, compile=peer.donating)
        return footprint(peer, workload, int(count))

    def small(self, tree: str, leaves: str, kind: str) -> dict[str, Any]:
        """Time a small call."""
        return {"seconds": small_call(self._peer, tree, int(leaves), kind)}

    def _calls(self, repeats: int) -> list[float]:
        step, clock = self.case.step, time.perf_counter
        seconds = []
        for _ in range(repeats):
            start = clock()
            step()
            seconds.append(clock() - start)
        return seconds


def answer(command: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The command's answer, or its failure."""
    try:
        return command(*arguments)
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"error": f"{type(error).__name__}: {error}"}


def serve(name: str, threads: int, replies: TextIO) -> None:
    """Answer commands until `quit` or the end of stdin."""

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        worker = Worker(name, threads)
    except Exception as error:
        reply({"error": f"{type(error).__name__}: {error}"})
        return
    reply(answer(worker.hello))
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "quit":
            return
        assert command in COMMANDS
        reply(answer(getattr(worker, command), *arguments))


def main() -> None:
    """`python -m benchmarks.worker PEER THREADS`."""
    # Whatever a library prints goes to stderr: stdout speaks the protocol alone.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.argv[1], int(sys.argv[2]), replies)


if __name__ == "__main__":
    main()
