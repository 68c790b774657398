"""The work of a block's steps, which decides whether threads share a region."""

from __future__ import annotations

from math import prod

from .grid import Grid
from .steps import BlockStep, BlockValue, joint_groups

__all__ = ["SMALLEST_SHARED_EFFORT", "step_effort"]

# The unit is a pass of a ufunc of a few instructions over four bytes: a fifth of a nanosecond.
# Smaller work is done before another thread has begun.
SMALLEST_SHARED_EFFORT = 3 << 19
ONE_PASS = frozenset(
    {
        "absolute", "add", "clip", "conjugate", "divide", "equal", "floor", "greater",
        "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or", "mask",
        "maximum", "minimum", "multiply", "negative", "not_equal", "reciprocal", "rint", "square",
        "subtract",
    }
)  # fmt: skip
MOVING_CALLS = "np.bitwise", "np.broadcast_to", "np.copyto"
# The work of exp, sqrt and their like, and that of functions with several passes.
SLOW_PASSES, CALL_PASSES = 3, 5
# The work of the beginning of a row, if an operand is smaller than the result.
BEGIN_PASSES = 50


def step_effort(step: BlockStep, grid: Grid) -> int:
    """Returns the work of a step over a grid."""
    values = [x for x in (step.made, *step.operands) if type(x) is BlockValue]
    groups = joint_groups(values)
    size = prod(grid.shape[g] for g in groups)
    if not groups or not size:
        return 0
    width = max([x.dtype.itemsize for x in values if not x.weak], default=4)
    spread = len({x.groups for x in values if x.groups}) > 1
    if step.made is None or step.kind in ONE_PASS or step.form.startswith(MOVING_CALLS):
        weight = 1
    else:
        weight = SLOW_PASSES if step.form.startswith("np.") else CALL_PASSES
    return size * width * weight // 4 + spread * BEGIN_PASSES * (size // grid.shape[max(groups)])
