"""The memory that a training step takes: `python -m benchmarks.jit_memory`.

Every line is a fresh process on Linux. Figures are MiB of resident memory beyond `base`, what the
process has after its imports and with the data as NumPy arrays: `first` is the peak of making the
library's arrays and of the first step, with whatever that compiles; `steps` the peak of the steps
after it; `held` what stays between steps. `donating` gives the parameters and the optimizer's state
to the compiled step. `in place`: how many parameters are after a step where they were before it;
`--addresses` prints where.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.case import Unsupported
from benchmarks.client import WorkerError, ask_once
from benchmarks.report import aligned, decimal, status
from benchmarks.run import installed, peer_names, positive, workload_names

TRAINED = ("mlp-medium", "cnn", "gpt-small")
VARIANTS = (
    ("functensor", "plain"),
    ("functensor-jit", "plain"),
    ("functensor-jit", "donating"),
    ("torch", "plain"),
    ("torch-compile", "plain"),
    ("jax-eager", "plain"),
    ("jax-jit", "plain"),
    ("jax-jit", "donating"),
    ("autograd", "plain"),
)
SUBJECT = ("functensor-jit", "donating")
STEPS = 10
MIB = 2**20
FIGURES = ("base", "first", "steps", "held")

Answer = dict[str, Any]


def in_place(answer: Answer) -> str:
    """The number of parameters that stayed in place."""
    before, after = answer["before"], answer["after"]
    if not before:
        return "-"
    return f"{sum(after[name] == where for name, where in before.items())} of {len(before)}"


def lines_of(workload: str, answers: dict[tuple[str, str], Answer]) -> list[list[str]]:
    """The workload's lines; in brackets, donating functensor-jit's `steps` over the line's."""
    subject = answers.get(SUBJECT)
    lines = []
    for (peer, how), answer in answers.items():
        ratio = None if subject is None else subject["steps"] / max(answer["steps"], 1)
        name = f"{peer} donating" if how == "donating" else peer
        figures = [f"{answer[figure] / MIB:.1f}" for figure in FIGURES]
        lines.append([f"{workload} {name}", *figures, f"[{decimal(ratio)}]", in_place(answer)])
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each process; 1 if a peer fails."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.jit_memory", description=__doc__)
    options.add_argument("--workloads", type=workload_names, metavar="A,B", default=list(TRAINED))
    options.add_argument("--peers", type=peer_names, metavar="A,B", help="default: those installed")
    options.add_argument("--rounds", type=positive, default=1, help="least of so many; default: 1")
    options.add_argument("--threads", type=positive, default=2, help="default: 2")
    options.add_argument("--addresses", action="store_true", help="of donated parameters")
    parsed = options.parse_args(arguments)
    peers = parsed.peers or installed([peer for peer, _ in VARIANTS])
    lines = [["MiB", *FIGURES, "[steps]", "in place"]]
    problems: list[str] = []
    moved: list[str] = []
    for workload in parsed.workloads:
        answers: dict[tuple[str, str], Answer] = {}
        for peer, how in [variant for variant in VARIANTS if variant[0] in peers]:
            print(f"{workload} {peer} ...   ", end="\r", file=sys.stderr, flush=True)
            words = ("footprint", workload, how, STEPS)
            try:
                rounds = [ask_once(peer, parsed.threads, *words) for _ in range(parsed.rounds)]
            except Unsupported:
                continue
            except WorkerError as error:
                problems.append(f"{workload}: {peer} {how}: {error}")
                continue
            least = {figure: min(answer[figure] for answer in rounds) for figure in FIGURES}
            answers[peer, how] = rounds[0] | least
        lines += lines_of(workload, answers)
        if SUBJECT in answers:
            before, after = answers[SUBJECT]["before"], answers[SUBJECT]["after"]
            moved += [f"{workload} {x}: {where:#x} -> {after[x]:#x}" for x, where in before.items()]
    print(aligned(lines))
    print("[steps]: peak of functensor-jit's steps, donating, over the line's.")
    if parsed.addresses:
        print("\n".join(moved))
    return status(problems)


if __name__ == "__main__":
    sys.exit(main())
