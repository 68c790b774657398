"""The moment from which modules of the library are imported: files of it may change later.

It is among the first of these modules.
"""

from __future__ import annotations

from time import time_ns

__all__ = ["IMPORTED"]

# Nanoseconds, as files have them.
IMPORTED = time_ns()
