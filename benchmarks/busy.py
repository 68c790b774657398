"""Other processes that want the cores while something is measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["busy_cores"]

COUNTS_FOREVER = "while True: pass"


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """Keeps so many cores busy within it, each by a process that only counts."""
    processes = [subprocess.Popen([sys.executable, "-c", COUNTS_FOREVER]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
