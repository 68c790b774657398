"""The cost of calling a jitted function: `python -m benchmarks.jit_calls`.

Functions with next to nothing to do take a tree of small arrays and return one of its leaves
(`one`) or the tree itself (`same`); `x + 1` takes one array of four floats. Figures are
microseconds, the least of several turns; peers take turns too, and nobody waits for a result. In
brackets: functensor-jit's time over the peer's. The limit is 20 microseconds for 100 leaves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.case import Unsupported
from benchmarks.client import WorkerError, running
from benchmarks.report import aligned, decimal, status
from benchmarks.run import installed, positive
from benchmarks.small_calls import TREES

SUBJECT = "functensor-jit"
PEERS = (SUBJECT, "functensor", "jax-jit", "jax-eager")
COUNTS = (1, 10, 100)
LIMITED, LIMIT = 100, 20e-6

Question = tuple[str, int, str]


def questions() -> list[tuple[str, Question]]:
    """Returns titles, with the questions to workers."""
    trees = [
        (f"{count} leaves, {tree}, {kind}", (tree, count, kind))
        for kind in ("one", "same")
        for count in COUNTS
        for tree in TREES
    ]
    return [*trees, ("x + 1", ("flat", 1, "next"))]


def microseconds(seconds: float | None) -> str:
    """Two decimals, or a dash."""
    return decimal(None if seconds is None else 1e6 * seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a function; 1 if a peer fails."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.jit_calls", description=__doc__)
    options.add_argument("--rounds", type=positive, default=3, help="default: 3")
    options.add_argument("--threads", type=positive, default=1, help="default: 1")
    parsed = options.parse_args(arguments)
    best: dict[tuple[str, str], float] = {}
    with running(installed(PEERS), parsed.threads) as (clients, failures):
        problems = [f"{peer} does not start: {why}" for peer, why in failures.items()]
        for _ in range(parsed.rounds):
            for title, question in questions():
                for peer, client in clients.items():
                    try:
                        seconds = client.ask("small", *question)["seconds"]
                    except Unsupported:
                        continue
                    except WorkerError as error:
                        problems.append(f"{peer}: {title}: {error}")
                        continue
                    best[title, peer] = min(seconds, best.get((title, peer), seconds))
        peers = list(clients)
    others = [peer for peer in peers if peer != SUBJECT]
    lines = [["microseconds", SUBJECT, "within", *others]]
    for title, (_, count, kind) in questions():
        ours = best.get((title, SUBJECT))
        within = "-"
        if ours is not None and count == LIMITED and kind != "next":
            within = "yes" if ours <= LIMIT else "NO"
        line = [title, microseconds(ours), within]
        for peer in others:
            theirs = best.get((title, peer))
            ratio = None if ours is None or theirs is None else ours / theirs
            line.append(f"{microseconds(theirs)} [{decimal(ratio)}]")
        lines.append(line)
    print(aligned(lines))
    return status(problems)


if __name__ == "__main__":
    sys.exit(main())
