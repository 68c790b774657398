"""The first call of a jitted function: `python -m benchmarks.first_call`.

Every figure is of a fresh process, the least of `--rounds`; no library reads from a cache what
another process has compiled. `eager` is functensor's first and second call without `jit`;
`functensor-jit-numpy` the first call with it, which waits for no machine code, and what is in it:
`trace`, `passes`, `plan` and `run`, timed in a process of their own. The limits: 5 times the second
eager call and 20 ms; for gpt-small and cnn also a tenth of JAX's first call.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.case import Unsupported
from benchmarks.client import WorkerError, ask_once
from benchmarks.data import WORKLOADS
from benchmarks.report import aligned, decimal, milliseconds, status
from benchmarks.run import installed, positive, workload_names

# Its first call waits for no machine code, as that of users does not.
SUBJECT = "functensor-jit-numpy"
PARTS = ("trace", "passes", "plan", "run")
OTHERS = ("jax-jit", "torch-compile")
EAGER_CALLS, SECONDS_MORE = 5, 0.020
JAX_SHARE, BESIDE_JAX = 0.1, ("gpt-small", "cnn")


@dataclass
class FirstCalls:
    """Seconds of one workload; None where a peer cannot."""

    workload: str
    eager: tuple[float | None, float | None] = (None, None)
    jitted: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    others: dict[str, float | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def limit(self) -> float | None:
        """The most that the jitted first call may take by functensor's own eager call."""
        eager = self.eager[1]
        return None if eager is None else EAGER_CALLS * eager + SECONDS_MORE

    @property
    def jax_limit(self) -> float | None:
        """The most that it may take by JAX's first call, where that is a limit."""
        jax = self.others.get("jax-jit")
        return None if jax is None or self.workload not in BESIDE_JAX else JAX_SHARE * jax

    def verdict(self) -> str:
        """Says whether the first call keeps to its limits."""
        limits = [limit for limit in (self.limit, self.jax_limit) if limit is not None]
        if self.jitted is None or not limits:
            return "-"
        return "yes" if self.jitted <= min(limits) else "NO"


HEADER = (
    "workload", "eager 1st", "2nd", SUBJECT, *PARTS, "limit", "[of it]", "jax-jit", "[x]",
    "tenth", "torch-compile", "[x]", "within",
)  # fmt: skip


def quotient(seconds: float | None, others: float | None) -> str:
    """One time over another, in brackets."""
    return f"[{decimal(None if seconds is None or others is None else seconds / others)}]"


def cells(row: FirstCalls) -> list[str]:
    """The row's line: milliseconds; in brackets ratios to the jitted first call."""
    limit = row.limit
    jax, torch = (row.others.get(peer) for peer in OTHERS)
    return [
        row.workload,
        *map(milliseconds, (*row.eager, row.jitted)),
        *(milliseconds(row.parts.get(part)) for part in PARTS),
        milliseconds(limit),
        quotient(row.jitted, limit),
        *(milliseconds(jax), quotient(jax, row.jitted), milliseconds(row.jax_limit)),
        *(milliseconds(torch), quotient(torch, row.jitted), row.verdict()),
    ]


def measure(workload: str, peers: Sequence[str], rounds: int, threads: int) -> FirstCalls:
    """Start the processes of one workload, peers in turn."""
    row = FirstCalls(workload)
    calls: dict[str, list[list[float]]] = {}
    parts: list[dict[str, float]] = []
    wanted = [(peer, "calls") for peer in peers] + [(SUBJECT, "stages")]
    for _ in range(rounds):
        for peer, command in list(wanted):
            words = ("calls", workload, 2) if command == "calls" else (command, workload)
            try:
                answer = ask_once(peer, threads, *words)
            except Unsupported:
                wanted.remove((peer, command))
            except WorkerError as error:
                wanted.remove((peer, command))
                row.problems.append(f"{workload}: {peer}: {error}")
            else:
                if command == "calls":
                    calls.setdefault(peer, []).append(answer["seconds"])
                else:
                    parts.append(answer)
    least = {peer: [min(column) for column in zip(*times)] for peer, times in calls.items()}
    if "functensor" in least:
        row.eager = (least["functensor"][0], least["functensor"][1])
    if SUBJECT in least:
        row.jitted = least[SUBJECT][0]
    row.parts = {part: min(times[part] for times in parts) for part in PARTS if parts}
    row.others = {peer: least[peer][0] for peer in OTHERS if peer in least}
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a workload; 1 if a peer fails."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__)
    options.add_argument("--workloads", type=workload_names, metavar="A,B", help="default: all")
    options.add_argument("--rounds", type=positive, default=3, help="default: 3")
    options.add_argument("--threads", type=positive, default=2, help="default: 2")
    options.add_argument("--no-others", action="store_true", help="functensor alone")
    parsed = options.parse_args(arguments)
    peers = ["functensor", SUBJECT, *([] if parsed.no_others else installed(OTHERS))]
    # Leaves bytecode of whatever is imported late.
    ask_once(SUBJECT, parsed.threads, "stages", "mlp-small")
    rows = []
    for workload in parsed.workloads or WORKLOADS:
        print(f"{workload} ...", end="\r", file=sys.stderr, flush=True)
        rows.append(measure(workload, peers, parsed.rounds, parsed.threads))
    print(aligned([HEADER, *map(cells, rows)]))
    print(f"Milliseconds of first calls; [x]: as many times {SUBJECT}'s first call.")
    return status([problem for row in rows for problem in row.problems])


if __name__ == "__main__":
    sys.exit(main())
