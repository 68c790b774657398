"""The primitives of regions by what they do there.

The fusion asks when it makes regions, and so does whatever prints these: blocks of NumPy's
functions, and kernels.
"""

from __future__ import annotations

__all__ = [
    *("CHANNEL_ORDER_KEEPING", "GATHERS", "LABELLED", "LAST_AXIS_FUNCTIONS", "REDUCTION_UFUNCS"),
    *("ROW_FUNCTIONS", "WINDOWED"),
]

# Reductions, with the ufuncs that put their parts together.
REDUCTION_UFUNCS = {
    "sum": "add", "mean": "add", "max": "maximum", "min": "minimum", "prod": "multiply",
}  # fmt: skip
# Functions that need whole rows along their ``axis``, and along the last axis.
ROW_FUNCTIONS = frozenset({"log_softmax", "softmax", "softmax_grad", "var"})
LAST_AXIS_FUNCTIONS = frozenset(
    {"affine_normalize", "cross_entropy", "cross_entropy_grad", "normalize", "normalize_grad"}
)
# Those whose last operand is labels.
LABELLED = frozenset({"cross_entropy", "cross_entropy_grad"})
# Primitives that take elements of windows, or of the windows that have an element. Most keep the
# order of their operand's axes in memory.
CHANNEL_ORDER_KEEPING = frozenset(
    {"avg_pool", "avg_pool_grad", "max_pool", "max_pool_argmax", "pool_scatter"}
)
WINDOWED = CHANNEL_ORDER_KEEPING | {"pool_take"}
# Primitives that take elements of a whole array, which is no part of the grid.
GATHERS = WINDOWED | {"index", "roll"}
