"""Plans of the CPU: programs as generated Python over NumPy's functions and reused buffers.

A program is known here by its shape alone: ``inputs``, ``equations``, ``outputs``, and of an
equation its ``primitive``, ``operands``, ``params``, ``outputs`` and ``line``.
"""

from .loops.loop import Loop, LoopPlan, looped
from .plan import Plan, planned

__all__ = ["Loop", "LoopPlan", "Plan", "looped", "planned"]
