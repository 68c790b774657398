"""Hooks on every operation of unmodified functions, forward and backward.

`use` registers a hook for a block, `wrap` for a function. A hook sees every operation after it ran,
and its cotangents on the way back, under every transformation; it may return other values.
`profile` runs a function under a hook and reports where its time and memory went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..faces.publish import publish
from .functional import capture, capture_grads, clip_gradients, edit
from .handle import Handle, use, wrap
from .hook import FnHook, Hook
from .operation import Operation
from .registration import remove

__all__ = [
    "FnHook", "Handle", "Hook", "Operation", "capture", "capture_grads", "clip_gradients", "edit",
    "remove", "use", "wrap",
]  # fmt: skip

# Names by the module that has them, which is imported when they are first used.
LATE_NAMES = {
    "bins": "Histogram",
    "compressing": "CompressHook",
    "counting": "Count CountHook",
    "finite": "check_finite",
    "histograms": "HistogramHook",
    "memory": "Held MemoryHook ScopeMemory",
    "offloading": "OffloadHook",
    "printing": "PrintHook",
    "profiling": "profile",
    "queued": "QueuedHook",
    "residuals": "ResidualHook",
    "timer": "TimerHook Times",
    "values": "value",
}
for _names in LATE_NAMES.values():
    __all__ += _names.split()

if TYPE_CHECKING:
    from .bins import Histogram as Histogram
    from .compressing import CompressHook as CompressHook
    from .counting import Count as Count
    from .counting import CountHook as CountHook
    from .finite import check_finite as check_finite
    from .histograms import HistogramHook as HistogramHook
    from .memory import Held as Held
    from .memory import MemoryHook as MemoryHook
    from .memory import ScopeMemory as ScopeMemory
    from .offloading import OffloadHook as OffloadHook
    from .printing import PrintHook as PrintHook
    from .profiling import profile as profile
    from .queued import QueuedHook as QueuedHook
    from .residuals import ResidualHook as ResidualHook
    from .timer import TimerHook as TimerHook
    from .timer import Times as Times
    from .values import value as value

publish(globals(), late=LATE_NAMES)
