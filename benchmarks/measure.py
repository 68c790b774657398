"""Measures workloads in the peers' workers, and compares what they compute."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.case import Mode, Unsupported
from benchmarks.client import Client, WorkerError
from benchmarks.program_cases import program_name

Statistic = Literal["median", "minimum"]

RELATIVE_TOLERANCE = 1e-3
# Programs compute in float64. Solvers of differential equations keep errors near 1e-8.
PROGRAM_TOLERANCE = 1e-6
# Adam divides a gradient by its own size, and so turns rounding of the smallest into whole steps.
TRAINED_TOLERANCE = 1e-2
TRAINED = "loss after training"
ABSOLUTE_TOLERANCE = 1e-6
MIN_REPEATS, MAX_REPEATS = 3, 2000
SETTLE_SECONDS = 0.05
PROC_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Plan:
    """The length of a measurement: rounds, and the seconds that a peer gets in each."""

    rounds: int
    seconds: float


@dataclass
class Row:
    """One line of the table: the rounds' figures of each peer, and what went wrong.

    `rounds[peer]` holds one {"minimum", "median"} in seconds a round; `unsupported` the peers that
    cannot run the workload; `others` how many cores other processes took meanwhile (None where the
    system does not tell); `notes` what a reader should know; `problems` what makes the run fail.
    """

    workload: str
    mode: Mode
    threads: int
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    others: float | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def seconds(self, peer: str, statistic: Statistic) -> float | None:
        """The median over rounds; None where the peer has no figure."""
        rounds = self.rounds.get(peer)
        return statistics.median(figures[statistic] for figures in rounds) if rounds else None

    def ratio(self, subject: str, peer: str, statistic: Statistic) -> float | None:
        """The median over rounds of the subject's time over the peer's in the same round."""
        pairs = list(zip(self.rounds.get(subject, ()), self.rounds.get(peer, ())))
        if not pairs:
            return None
        return statistics.median(ours[statistic] / theirs[statistic] for ours, theirs in pairs)


def measure(
    clients: Mapping[str, Client], workload: str, mode: Mode, threads: int, plan: Plan
) -> Row:
    """Load and check a workload in every peer, then time it in interleaved rounds."""
    row = Row(workload, mode, threads)
    repeats: dict[str, int] = {}
    for peer, client in clients.items():
        try:
            seconds = client.ask("load", workload, mode)["seconds"]
            row.outcomes[peer] = client.ask("check")
        except Unsupported:
            row.unsupported.append(peer)
        except WorkerError as error:
            row.problems.append(f"{peer}: {error}")
        else:
            repeats[peer] = min(max(round(plan.seconds / seconds), MIN_REPEATS), MAX_REPEATS)
    is_program = program_name(workload) is not None
    tolerance = PROGRAM_TOLERANCE if is_program else RELATIVE_TOLERANCE
    row.problems += disagreements(row.outcomes, tolerance)
    row.notes += other_dtypes(row.outcomes, "float64" if is_program else "float32")
    wall = others = 0.0
    for round_index in range(plan.rounds):
        order = list(repeats)
        start = round_index % len(order) if order else 0
        for peer in order[start:] + order[:start]:
            # The threads of the peer before this one spin for a while before they sleep.
            time.sleep(SETTLE_SECONDS)
            clock, busy = time.perf_counter(), busy_seconds()
            try:
                figures = clients[peer].ask("time", repeats[peer])
            except WorkerError as error:
                row.problems.append(f"{peer}: {error}")
                row.rounds.pop(peer, None)
                del repeats[peer]
                continue
            others += busy_seconds() - busy - figures["cpu"]
            wall += time.perf_counter() - clock
            row.rounds.setdefault(peer, []).append(figures)
    if wall and PROC_STAT.exists():
        row.others = max(0.0, others / wall)
    return row


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have taken, where Linux tells."""
    if not PROC_STAT.exists():
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(
        int, PROC_STAT.read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def other_dtypes(outcomes: Mapping[str, dict[str, Any]], expected: str) -> list[str]:
    """Returns a sentence for each gradient whose dtype is not that of the inputs."""
    return [
        f"{peer}'s gradient {name} is {dtype}"
        for peer, outcome in outcomes.items()
        for name, dtype in outcome["dtypes"].items()
        if dtype != expected
    ]


def disagreements(outcomes: Mapping[str, dict[str, Any]], relative: float) -> list[str]:
    """Returns a sentence for each figure that differs between peers beyond the tolerance."""
    figures: dict[str, dict[str, float]] = {}
    sentences = []
    for peer, outcome in outcomes.items():
        named = {"loss": outcome["loss"], TRAINED: outcome["trained"]}
        named |= {f"norm of d{name}": norm for name, norm in outcome["norms"].items()}
        for name, figure in named.items():
            if figure is not None:
                figures.setdefault(name, {})[peer] = figure
    for name, by_peer in figures.items():
        tolerance = TRAINED_TOLERANCE if name == TRAINED else relative
        if not agree(list(by_peer.values()), tolerance):
            listed = ", ".join(f"{peer} {figure:.7g}" for peer, figure in by_peer.items())
            sentences.append(f"{name} differs: {listed}")
    return sentences


def agree(figures: Sequence[float], tolerance: float) -> bool:
    """Says whether all are finite and within the relative tolerance of their median."""
    middle = np.median(figures)
    absolute = ABSOLUTE_TOLERANCE * min(1.0, tolerance / RELATIVE_TOLERANCE)
    return bool(np.allclose(figures, middle, rtol=tolerance, atol=absolute))
