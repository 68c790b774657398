"""Processes that keep cores busy while something is measured, for `--busy`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["busy_cores"]

ENDLESS_LOOP = "while True: pass"


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """Keeps a number of cores busy within a block, each by a process of its own."""
    processes = [subprocess.Popen([sys.executable, "-c", ENDLESS_LOOP]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
