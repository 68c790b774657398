"""Work that threads share while no plan runs, and errands: work that goes on beside the caller.

A backend brings the threads. The results are the same whoever computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .annotations import Buffer

__all__ = [
    "FEWEST_SHARED_ELEMENTS", "SENDERS", "SHARERS", "Errand", "by_flat_parts", "flattened", "sent",
]  # fmt: skip

# Elements of a part: a few arrays of so many stay in the cache of a core.
PART_ELEMENTS = 1 << 16
# Fewer elements take about as long as it takes to hand half of them over.
FEWEST_SHARED_ELEMENTS = 1 << 18


class Errand(Protocol):
    """Work that was sent."""

    def result(self) -> Any:
        """Returns what the work returned, or raises what it raised; waits for it."""

    def call_back(self) -> None:
        """Gives up the work, unless a thread has begun it."""


# Sends a function on an errand, or returns None where the caller is to call it; a backend's.
SENDERS: list[Callable[[Callable[[], Any]], Errand | None]] = []
# Calls a function with each of some parts, on several threads; a backend's.
SHARERS: list[Callable[[Callable[[Any], Any], Sequence[Any]], None]] = []


def sent(work: Callable[[], Any]) -> Errand | None:
    """Returns the errand of a function, None where no other thread has time for it."""
    return SENDERS[0](work) if SENDERS else None


def flattened(arrays: Sequence[Buffer]) -> list[Buffer] | None:
    """Returns arrays of one shape as vectors in the order of their memory.

    None where they do not lie alike, or have gaps.
    """
    first = arrays[0]
    if any(x.shape != first.shape for x in arrays):
        return None
    if not all(x.flags.c_contiguous for x in arrays):
        order = sorted(range(first.ndim), key=lambda axis: -first.strides[axis])
        arrays = [x.transpose(order) for x in arrays]
        if not all(x.flags.c_contiguous for x in arrays):
            return None
    return [x.reshape(-1) for x in arrays]


def by_flat_parts(work: Callable[..., Any], arrays: Sequence[Buffer]) -> bool:
    """Calls a function with matching parts of arrays, side by side if they are large.

    Args:
        work: works on vectors element by element, and writes into some of them.
        arrays: of one shape.

    Returns:
        False, and does nothing, where the arrays do not lie alike in memory.
    """
    flat = flattened(arrays)
    if flat is None:
        return False
    size = flat[0].size
    parts = [[x[i : i + PART_ELEMENTS] for x in flat] for i in range(0, size, PART_ELEMENTS)]
    if size < FEWEST_SHARED_ELEMENTS or not SHARERS:
        for part in parts:
            work(*part)
    else:
        SHARERS[0](lambda part: work(*part), parts)
    return True
