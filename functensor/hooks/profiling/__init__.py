"""``profile``: a run of a function, operation by operation, as one page to look at."""

from __future__ import annotations

from .profiler import profile
from .report import Report

__all__ = ["Report", "profile"]
