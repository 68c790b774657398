"""Plans of the CPU: programs as generated Python over NumPy's functions and reused buffers.

The CPU backend makes them for jitted functions. ``annotations.py`` has the part of a program that
plans know.
"""

from .loops.loop import LoopPlan, loop_plan
from .plan import CpuPlan, cpu_plan, shown_functions

__all__ = ["CpuPlan", "LoopPlan", "cpu_plan", "loop_plan", "shown_functions"]
