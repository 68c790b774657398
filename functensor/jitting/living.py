"""All jitted functions that live: they forget their programs, or renew their locks, together."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

__all__ = ["clear_all", "jitted_functions"]

jitted_functions: WeakSet[Any] = WeakSet()


def clear_all() -> None:
    """Has all jitted functions forget their programs."""
    for function in list(jitted_functions):
        function.clear_cache()


def renew_locks() -> None:
    """Gives jitted functions new locks: threads that held the old ones do not exist in a child."""
    for function in list(jitted_functions):
        function._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew_locks)
