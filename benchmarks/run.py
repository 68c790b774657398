"""The command: `python -m benchmarks`, or `python benchmarks/run.py`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.busy import busy_cores
from benchmarks.case import Mode
from benchmarks.client import running
from benchmarks.data import KNOWN, WORKLOADS, is_workload
from benchmarks.measure import Plan, Row, measure
from benchmarks.peers import GROUPS, PEERS
from benchmarks.report import as_json, table

FULL = Plan(rounds=7, seconds=0.2)
QUICK = Plan(rounds=3, seconds=0.05)
ONE_THREAD_WORKLOAD = "scalar-ops"


def workload_names(text: str) -> list[str]:
    """The names in a list with commas."""
    names = text.split(",")
    unknown = [name for name in names if not is_workload(name)]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {KNOWN}")
    return names


def peer_names(text: str) -> list[str]:
    """The peers in a list with commas, groups among them."""
    names = [member for name in text.split(",") for member in GROUPS.get(name, (name,))]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        known = ", ".join((*PEERS, *GROUPS))
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {known}")
    return list(dict.fromkeys(names))


def positive(text: str) -> int:
    """A number that is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def not_negative(text: str) -> int:
    """A number that is at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be at least 0")
    return value


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--workloads", type=workload_names, metavar="A,B", help="default: all")
    options.add_argument("--peers", type=peer_names, metavar="A,B", help="default: those installed")
    options.add_argument(
        "--subject", choices=PEERS, default="functensor", help="whose time is divided by the peers'"
    )
    options.add_argument("--rounds", type=positive, help=f"default: {FULL.rounds}")
    options.add_argument("--threads", type=positive, default=2, help="default: 2")
    options.add_argument(
        "--busy",
        type=not_negative,
        default=0,
        metavar="N",
        help="cores that other processes keep busy",
    )
    options.add_argument("--mode", choices=("grad", "forward"), default="grad")
    options.add_argument("--statistic", choices=("median", "minimum"), default="median")
    options.add_argument("--quick", action="store_true", help="few and short rounds")
    options.add_argument("--verbose", action="store_true", help="show what the workers print")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    return options


def installed(peers: Sequence[str]) -> list[str]:
    """The peers whose package can be found."""
    return [peer for peer in peers if importlib.util.find_spec(PEERS[peer].package) is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if peers disagree or one fails."""
    options = parser().parse_args(arguments)
    plan = QUICK if options.quick else FULL
    plan = Plan(options.rounds or plan.rounds, plan.seconds)
    workloads: list[str] = options.workloads or list(WORKLOADS)
    by_default = [peer for peer, entry in PEERS.items() if entry.by_default]
    peers: list[str] = options.peers or installed(by_default)

    parts: list[tuple[int, list[tuple[str, Mode]]]] = [
        (options.threads, [(workload, options.mode) for workload in workloads])
    ]
    if ONE_THREAD_WORKLOAD in workloads:
        alone: list[tuple[str, Mode]] = [(ONE_THREAD_WORKLOAD, "forward")]
        if options.threads != 1 or options.mode != "grad":
            alone.insert(0, (ONE_THREAD_WORKLOAD, "grad"))
        if options.threads == 1 and options.mode == "forward":
            alone.remove((ONE_THREAD_WORKLOAD, "forward"))
        parts.append((1, alone))

    tables: list[list[Row]] = []
    versions: dict[str, str] = {}
    problems: list[str] = []
    for threads, wanted in parts:
        with (
            busy_cores(options.busy),
            running(peers, threads, quiet=not options.verbose) as (clients, failures),
        ):
            versions |= {peer: client.version for peer, client in clients.items()}
            problems += [f"{peer} does not start: {why}" for peer, why in failures.items()]
            rows = []
            for workload, mode in wanted:
                print(f"{workload} ...", end="\r", file=sys.stderr, flush=True)
                rows.append(measure(clients, workload, mode, threads, plan))
        tables.append(rows)
        problems += [f"{row.workload}: {problem}" for row in rows for problem in row.problems]
        text = table(rows, options.subject, list(clients), options.statistic)
        print(text, end="\n\n", flush=True)

    ratios = f"in brackets: {options.subject}'s time over the peer's"
    print(f"Milliseconds; {ratios}. * with an Adam update.")
    print(", ".join(f"{peer} {version}" for peer, version in versions.items()))
    missing = [peer for peer in by_default if peer not in versions]
    if missing:
        print(f"not measured: {', '.join(missing)}")
    if options.json is not None:
        document = as_json(tables, options.subject, versions, options.statistic)
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for note in dict.fromkeys(
        f"{r.workload}: {n}" for rows in tables for r in rows for n in r.notes
    ):
        print(f"note: {note}")
    unique = list(dict.fromkeys(problems))
    print("\n".join(f"PROBLEM {problem}" for problem in unique) or "All outcomes agree.")
    return 1 if unique else 0


if __name__ == "__main__":
    sys.exit(main())
