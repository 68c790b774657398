"""Sparse Jacobians and Hessians, whose nonzero elements are read off the program.

The function is staged, and the program tells the inputs on which every element of every value
depends. Columns that meet in no row then share a colour, and one directional derivative gives
all columns of a colour at once: a banded Jacobian of any size costs a handful of them.
"""

from __future__ import annotations

from ..faces.publish import publish
from .derivatives import hessian, hessian_pattern, jacobian, jacobian_pattern
from .triplets import Pattern, Triplets

__all__ = ["Pattern", "Triplets", "hessian", "hessian_pattern", "jacobian", "jacobian_pattern"]

publish(globals())
