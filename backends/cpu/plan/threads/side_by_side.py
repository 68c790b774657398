"""Independent regions and products, shared among threads at once.

A thread that finds nothing left of one goes on with the next. So threads wait only at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ....blas_threads import controlled
from .pool import share, threads

__all__ = ["run_side_by_side"]


def run_side_by_side(*calls: tuple[Any, tuple[Any, ...], Any]) -> list[Any]:
    """Returns the results of several runs.

    Args:
        calls: for each the run of a region or a product, its operands, and memory for its results.
    """
    begun = [run.begun(operands, into) for run, operands, into in calls]
    # Threads that call a BLAS with threads of its own slow each other down.
    number = 1 if controlled() is None else threads.number
    share(partial(work_through, [work for _, work in begun]), number)
    return [run.finished(out) for (run, *_), (out, _) in zip(calls, begun, strict=True)]


def work_through(works: Iterable[Callable[[], None]]) -> None:
    """Does the rest of one work after the other."""
    for work in works:
        work()
