"""Work on parts of arrays that lie apart, shared among threads while BLAS keeps to one.

Elsewhere BLAS has its own threads. These look for more work for a while after each product, on
cores for which other threads would wait.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_calls import FEWEST_PARALLEL_ELEMENTS
from ..blas_threads import alone, controlled, held

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = [
    "ThreadMemory", "each", "is_done_side_by_side", "is_parallel", "is_sharing_possible",
    "kept_calm", "line_bytes", "side_by_side",
]  # fmt: skip

# The pool is loaded with the first plan.
POOL = f"{__package__}.plan.threads.pool"
SHARED_PARTS = f"{__package__}.plan.threads.shared_parts"
# So many blocks take long enough to wake a thread.
FEWEST_PARTS_OUTSIDE_OF_PLANS = 4
CACHE_LINE_BYTES = 64


class ThreadMemory(threading.local):
    """Memory of a thread for one block of work, kept from call to call.

    Freed megabytes go back to the system, and new ones cost page faults.
    """

    _memory = np.empty(0, np.uint8)

    def bytes(self, size: int) -> Buffer:
        """Returns bytes without values from a cache line on; the next call takes them again."""
        if self._memory.size < size:
            self._memory = line_bytes(size)
        return self._memory


def line_bytes(size: int) -> Buffer:
    """Returns bytes without values from a cache line on, a part of a longer array."""
    memory = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[start : start + size]


def is_parallel() -> bool:
    """Says whether parts of the current work may be computed side by side."""
    return POOL in sys.modules and held() and sys.modules[POOL].threads.number > 1


def each(work: Callable[[Any], Any], parts: Iterable[Any]) -> None:
    """Calls a function with each of some parts, at once or in any order."""
    if not is_parallel():
        for part in parts:
            work(part)
        return
    pool = sys.modules[POOL]
    listed = list(parts)
    waiting = iter(listed)

    def some() -> None:
        for part in waiting:
            work(part)

    pool.share(some, min(pool.threads.number, len(listed)))


def is_sharing_possible() -> bool:
    """Says whether threads may share large work outside of plans now."""
    return not held() and bool(import_module(SHARED_PARTS).are_threads_free())


def is_done_side_by_side(work: Callable[[Iterable[Any]], Any], parts: Sequence[Any]) -> bool:
    """Has several threads call a function, with those parts of some work that each of them takes.

    Args:
        work: a function of an iterator, from which all threads take parts. It writes the same
            however often it is called.
        parts: the parts, in any order. Each of them has the same bits whoever computes it.

    Returns:
        False where the caller is to do all the work.
    """
    number = len(parts)
    if number < 2 or not (is_parallel() if held() else number >= FEWEST_PARTS_OUTSIDE_OF_PLANS):
        return False
    return bool(import_module(SHARED_PARTS).done_by_threads(work, parts))


def side_by_side(work: Callable[[Iterable[Any]], Any], parts: Sequence[Any]) -> None:
    """Does some work as `is_done_side_by_side`, or else in this thread."""
    if not is_done_side_by_side(work, parts):
        work(iter(parts))


def kept_calm(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a kernel of many products that has BLAS compute each of them on one thread.

    For a large first operand, the threads of plans share the products.
    """

    @wraps(kernel)
    def calm(x: Buffer, *operands: Any, **params: Any) -> Any:
        control = controlled()
        if control is None or not control.several():
            return kernel(x, *operands, **params)
        if x.size >= FEWEST_PARALLEL_ELEMENTS:
            import_module(POOL)  # loads the pool of threads
        with alone():
            return kernel(x, *operands, **params)

    return calm
