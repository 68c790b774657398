"""The equations that kernels of regions compute on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cupy import ndarray

from ...cpu.plan.codegen.operands import constant, is_variable
from ...cpu.plan.native.elementwise_nodes import operand_dtype
from ...cpu.plan.native.region_graph import is_native

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike

__all__ = ["is_fused"]

# Those that others are better at, or that look at elements of their own.
LEFT_ALONE = frozenset(
    {
        *("avg_pool", "avg_pool_grad", "cross_entropy", "cross_entropy_grad", "index", "matmul"),
        *("max_pool", "max_pool_argmax", "pool_scatter", "pool_take", "roll"),
    }
)


def is_fused(equation: EquationLike) -> bool:
    """Says whether kernels of regions compute an equation that can be a part of one."""
    (out,) = equation.outputs
    device = getattr(out, "device", "cpu")
    if device == "cpu" or equation.primitive.name in LEFT_ALONE:
        return False
    for x in equation.operands:
        if is_variable(x):
            if x.type.shape and getattr(x, "device", "") != device:
                return False
        elif isinstance(constant(x), ndarray) and not constant(x).shape:
            return False
    dtypes = [operand_dtype(x) for x in (*equation.operands, out)]
    if any(dtype.kind == "c" for dtype in dtypes):
        return False
    # Out of range, a GPU's conversion differs from that of a processor.
    narrows = dtypes[0].kind in "fV" and dtypes[-1].kind in "iu"
    if equation.primitive.name == "astype" and narrows:
        return False
    return is_native(equation, on_gpu=True)
