"""The C library's way to give memory back, which decides what a large temporary array costs.

By default glibc returns freed memory to the system as soon as a few arrays lie free, and every new
array then faults its pages in again: half of the time of elementwise work on megabytes. Kept
memory is reused instead, as the memory pools of GPU libraries do.
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["LARGEST_FREE_BYTES", "keep_freed_memory"]

# Arrays up to this size come from the heap, and so much of it may lie free.
LARGEST_FREE_BYTES = 1 << 29
# The environment variable that says otherwise; 0 leaves the C library alone.
VARIABLE = "FUNCTENSOR_KEEP_MEMORY"

# Parameters of glibc's mallopt, from malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def keep_freed_memory(limit: int | None = None) -> bool:
    """Has the process keep freed memory for its next arrays.

    Args:
        limit: how many bytes may lie free; by default what the environment variable
            ``FUNCTENSOR_KEEP_MEMORY`` says, or 512 MiB. Zero changes nothing.

    Returns:
        True where the C library took it; only glibc does.
    """
    if limit is None:
        limit = int(os.environ.get(VARIABLE, LARGEST_FREE_BYTES))
    # Settings of the user stay.
    own = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"}
    if limit <= 0 or sys.platform != "linux" or not own.isdisjoint(os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    bounded = min(limit, 2**31 - 1)
    return bool(mallopt(M_TRIM_THRESHOLD, bounded)) and bool(mallopt(M_MMAP_THRESHOLD, bounded))
