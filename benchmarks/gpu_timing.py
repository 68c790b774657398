"""Timing of calls on a GPU by events on CuPy's current stream, beside PyTorch's if it is there."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import cupy

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["milliseconds", "row", "torch"]

WARM_UP = 4


def milliseconds(call: Callable[[], Any], rounds: int, calls: int, ahead: int = 0) -> float:
    """Returns what a call costs where many are queued: the median of rounds of calls.

    Args:
        call: what is timed.
        rounds, calls: how many rounds, and how many calls each of them queues.
        ahead: how many copies of about half a millisecond the calls are queued behind, so that
            the host's share does not show.
    """
    for _ in range(WARM_UP):
        call()
    source = cupy.empty(1 << 28 if ahead else 0, "float32")
    target = cupy.empty_like(source)
    times = []
    for _ in range(rounds):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        for _ in range(ahead):
            cupy.copyto(target, source)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / calls)
    return median(times)


def row(
    name: str,
    amount: float,
    ours: Callable[[], Any],
    theirs: Callable[[], Any] | None,
    rounds: int,
    calls: int,
    decimals: int = 2,
) -> None:
    """Prints a row of a table: milliseconds, an amount a second in tera, PyTorch's milliseconds."""
    mine = milliseconds(ours, rounds, calls)
    text = f"{name:44} {mine:9.4f} {amount / mine / 1e9:8.{decimals}f}"
    if theirs is not None and torch is not None:
        other = milliseconds(theirs, rounds, calls)
        text += f" {other:9.4f} {mine / other:7.2f}"
    print(text, flush=True)
