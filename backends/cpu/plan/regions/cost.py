"""The work of a block's steps, which decides whether threads share a region."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .grid import Grid
from .steps import Step, Value

__all__ = ["SHARED", "effort"]

# The unit is a pass of a ufunc of a few instructions over four bytes: a fifth of a nanosecond.
# What is less than this is done before another thread has begun with it.
SHARED = 3 << 19
QUICK = frozenset(
    {
        "absolute", "add", "clip", "conjugate", "divide", "equal", "floor", "greater",
        "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or", "mask",
        "maximum", "minimum", "multiply", "negative", "not_equal", "reciprocal", "rint", "square",
        "subtract",
    }
)  # fmt: skip
MOVES = "np.bitwise", "np.broadcast_to", "np.copyto"
# Of exp, sqrt and their like; and of functions, which take several passes.
SLOW, CALL = 3, 5
# As long as it takes to begin with a row, where an operand is not as large as the result.
BEGIN = 50


def effort(steps: Sequence[Step], grid: Grid) -> int:
    """Returns the work of all steps over a grid."""
    return sum(_of_step(step, grid) for step in steps)


def _of_step(step: Step, grid: Grid) -> int:
    values = [x for x in (step.made, *step.operands) if type(x) is Value]
    groups = frozenset[int]().union(*(x.groups for x in values))
    if not groups:
        return 0
    size = prod(grid.shape[g] for g in groups)
    width = max([x.dtype.itemsize for x in values if not x.weak], default=4)
    spread = len({x.groups for x in values if x.groups}) > 1
    if step.made is None or step.kind in QUICK or step.form.startswith(MOVES):
        weight = 1
    else:
        weight = SLOW if step.form.startswith("np.") else CALL
    return size * width * weight // 4 + spread * BEGIN * (size // grid.shape[max(groups)])
