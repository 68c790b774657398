"""Regions and products that do not need each other, shared among threads all at once.

A thread that has nothing left to do of one goes on with the next, so that nobody waits for others
but in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ....blas_threads import controlled
from .pool import share, threads

__all__ = ["run_side_by_side"]


def run_side_by_side(*calls: tuple[Any, tuple[Any, ...], Any]) -> list[Any]:
    """Returns what several calls return.

    Args:
        calls: what runs a region or a product; its operands; and the memory that its results take.
    """
    begun = [run.begun(operands, into) for run, operands, into in calls]
    # Threads that call a BLAS which has threads of its own get into each other's way.
    number = 1 if controlled() is None else threads.number
    share(partial(work_through, [work for _, work in begun]), number)
    return [run.finished(out) for (run, *_), (out, _) in zip(calls, begun, strict=True)]


def work_through(works: Iterable[Callable[[], None]]) -> None:
    """Does what is left of one after the other."""
    for work in works:
        work()
