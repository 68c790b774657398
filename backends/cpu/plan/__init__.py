"""Plans of the CPU: programs as generated Python over NumPy's functions and reused buffers.

A program is known here by its shape alone: ``inputs``, ``equations``, ``outputs``, and of an
equation its ``primitive``, ``operands``, ``params``, ``outputs`` and ``line``.
"""

from .loops.loop import Loop, LoopPlan, loop_plan
from .plan import CpuPlan, cpu_plan

__all__ = ["CpuPlan", "Loop", "LoopPlan", "cpu_plan", "loop_plan"]
