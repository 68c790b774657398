"""Work on parts of arrays that lie apart, shared among threads while BLAS keeps to one.

Elsewhere BLAS has its own threads. These look for more work for a while after each product, on
cores for which other threads would wait.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_calls import FEWEST_PARALLEL_ELEMENTS
from ..blas_threads import alone, controlled, held

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["ThreadMemory", "each", "is_parallel", "kept_calm", "spans"]

# Arrays of fewer elements are done before a second thread has begun.
FEWEST_SHARED_ELEMENTS = 65536
# The pool is loaded with the first plan.
POOL = f"{__package__}.plan.threads.pool"
CACHE_LINE_BYTES = 64


class ThreadMemory(threading.local):
    """Memory of a thread for one block of work, kept from call to call.

    Freed megabytes go back to the system, and new ones cost page faults.
    """

    _memory = np.empty(0, np.uint8)

    def bytes(self, size: int) -> Buffer:
        """Returns bytes without values from a cache line on; the next call takes them again."""
        if self._memory.size < size:
            memory = np.empty(size + CACHE_LINE_BYTES, np.uint8)
            start = -memory.ctypes.data % CACHE_LINE_BYTES
            self._memory = memory[start : start + size]
        return self._memory


def is_parallel() -> bool:
    """Says whether parts of the current work may be computed side by side."""
    return POOL in sys.modules and held() and sys.modules[POOL].threads.number > 1


def spans(length: int, size: int) -> list[slice]:
    """Returns slices of an axis, one for each thread if there are enough elements."""
    number = (
        min(sys.modules[POOL].threads.number, length)
        if is_parallel() and size >= FEWEST_SHARED_ELEMENTS
        else 1
    )
    edges = [length * i // max(number, 1) for i in range(number + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


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
