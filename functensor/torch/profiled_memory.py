"""A hook that measures the memory of results beside times, for profiles."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hooks.live_memory import Block, LiveMemory
from ..hooks.operation import Operation
from ..hooks.timer import TimerHook

__all__ = ["MemoryTimer"]


class MemoryTimer(TimerHook):
    """Measures operations as `TimerHook` does, and the bytes of memory that their results own.

    Memory that results share with others does not count, nor that of numbers without axes, which
    NumPy does not keep in arrays.
    """

    def __init__(self) -> None:
        super().__init__()
        self._following = threading.RLock()
        # Blocks whose arrays have died: this alone is changed where they do.
        self._dead: deque[Block] = deque()
        self._blocks = LiveMemory(self._dead.append)

    def _shown(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> dict[str, Any]:
        sizes = {"cpu_bytes": 0, "device_bytes": 0}
        with self._following:
            while self._dead:
                self._blocks.drop(self._dead.popleft())
            for block in self._blocks.met(made, given):
                of_cpu = isinstance(block(), np.ndarray)
                sizes["cpu_bytes" if of_cpu else "device_bytes"] += block.bytes
        return {**super()._shown(op, given, made), **sizes}
