"""The programs of `examples/programs` beside autograd and JAX: `python -m benchmarks.programs`.

Each program's inner work, at its size and in float64: a loss with its gradient, or the step that is
repeated. The first table has milliseconds of a call; its last line has the geometric mean of the
time of functensor-jit over the column's. The second table has milliseconds of the first call in a
fresh process: `functensor-jit-numpy` is what people wait for, and `functensor-jit` waits for
machine code, as `jax-jit` waits for its compiler. Both tables are Markdown. The command fails if
results differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.case import Unsupported
from benchmarks.client import WorkerError, ask_once, running
from benchmarks.measure import Row, measure
from benchmarks.program_cases import PREFIX, PROGRAMS
from benchmarks.report import decimal, markdown, mean_ratios, milliseconds, status
from benchmarks.run import FULL, QUICK, Plan, installed, not_negative, peer_names, positive

SUBJECT = "functensor-jit"
PEERS = ("functensor", "functensor-jit-numpy", SUBJECT, "autograd", "jax-jit")


def program_names(text: str) -> list[str]:
    """The programs in a list with commas."""
    names = text.split(",")
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        known = ", ".join(PROGRAMS)
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {known}")
    return names


def first_calls(
    names: Sequence[str], peers: Sequence[str], threads: int, rounds: int
) -> tuple[list[list[str]], list[str]]:
    """The lines of the table of first calls, the least of the rounds, and what went wrong."""
    lines, problems = [], []
    for name in names:
        cells = [f"`{name}`"]
        for peer in peers:
            print(f"{name}, first call ...", end="\r", file=sys.stderr, flush=True)
            try:
                answers = [
                    ask_once(peer, threads, "calls", PREFIX + name, 1) for _ in range(rounds)
                ]
            except Unsupported:
                cells.append("-")
            except WorkerError as error:
                problems.append(f"{name}: {peer}: {error}")
                cells.append("-")
            else:
                cells.append(milliseconds(min(answer["seconds"][0] for answer in answers)))
        lines.append(cells)
    return lines, problems


def call_lines(rows: Sequence[Row], peers: Sequence[str]) -> list[list[str]]:
    """The lines of the table of calls."""
    lines = [
        [
            f"`{row.workload.removeprefix(PREFIX)}`",
            *(milliseconds(row.seconds(peer, "median")) for peer in peers),
        ]
        for row in rows
    ]
    if SUBJECT in peers:
        means = mean_ratios(rows, SUBJECT, peers, "median")
        lines.append([f"{SUBJECT} over it", *(decimal(means[peer]) for peer in peers)])
    return lines


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    options.add_argument("--programs", type=program_names, metavar="A,B", help="default: all")
    options.add_argument("--peers", type=peer_names, metavar="A,B", help="default: those installed")
    options.add_argument("--rounds", type=positive, help=f"default: {FULL.rounds}")
    options.add_argument(
        "--first-calls", type=not_negative, default=1, help="of each peer; 0 leaves the table out"
    )
    options.add_argument("--threads", type=positive, default=2, help="default: 2")
    options.add_argument("--quick", action="store_true", help="few and short rounds")
    options.add_argument("--verbose", action="store_true", help="show what the workers print")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints both tables; returns 1 if a peer fails or results differ."""
    options = parser().parse_args(arguments)
    plan = QUICK if options.quick else FULL
    plan = Plan(options.rounds or plan.rounds, plan.seconds)
    names: list[str] = options.programs or list(PROGRAMS)
    rows = []
    with running(options.peers or installed(PEERS), options.threads, quiet=not options.verbose) as (
        clients,
        failures,
    ):
        problems = [f"{peer} does not start: {why}" for peer, why in failures.items()]
        peers = list(clients)
        for name in names:
            print(f"{name} ...", end="\r", file=sys.stderr, flush=True)
            rows.append(measure(clients, PREFIX + name, "grad", options.threads, plan))
        versions = ", ".join(f"{peer} {client.version}" for peer, client in clients.items())
    problems += [f"{row.workload}: {problem}" for row in rows for problem in row.problems]
    print(markdown([["a call, ms", *peers], *call_lines(rows, peers)]), end="\n\n")
    if options.first_calls:
        lines, wrong = first_calls(names, peers, options.threads, options.first_calls)
        problems += wrong
        print(markdown([["the first call, ms", *peers], *lines]), end="\n\n")
    others = [row.others for row in rows if row.others is not None]
    busy = f"; other processes kept up to {max(others):.1f} cores busy" if others else ""
    print(f"{options.threads} threads, {plan.rounds} rounds{busy}. {versions}")
    for note in dict.fromkeys(f"{row.workload}: {note}" for row in rows for note in row.notes):
        print(f"note: {note}")
    if not problems:
        print("All outcomes agree.")
    return status(problems)


if __name__ == "__main__":
    sys.exit(main())
