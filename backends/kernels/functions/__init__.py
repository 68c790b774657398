"""Functions that processors lack, as formulas of operations that they have.

Printers of kernels for processors write a function by its graph.
"""

from .formulas import FORMULAS, JOINT_FUNCTIONS, expanded, expanded_together

__all__ = ["FORMULAS", "JOINT_FUNCTIONS", "expanded", "expanded_together"]
