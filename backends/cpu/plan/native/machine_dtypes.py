"""The dtypes of machine code, and of its reductions; what elementwise equations are of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.operands import constant, is_variable

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = [
    *("BFLOAT16_CHAR", "NATIVE_DTYPES", "ROW_FLOATS", "elementwise_kind", "folded_dtypes"),
    "is_machine_dtype",
]

ROW_FLOATS = "fd"
BFLOAT16_CHAR = "E"
WHOLE_DTYPES = "bBhHiIlLqQ"
# What kernels compute with; 16 bits are computed in 32, and complex numbers by their parts.
NATIVE_DTYPES = f"efdFD?{WHOLE_DTYPES}"
# The dtypes of reductions that kernels have of others than floats. Of complex numbers they add up
# parts.
FOLDED_DTYPES = {
    "matmul": f"{ROW_FLOATS}FD",
    "sum": f"{ROW_FLOATS}FD{WHOLE_DTYPES}",
    **dict.fromkeys(["max", "min", "prod"], ROW_FLOATS + WHOLE_DTYPES),
}


def folded_dtypes(name: str) -> str:
    """Returns the characters of the dtypes that a reduction is computed in."""
    return FOLDED_DTYPES.get(name, ROW_FLOATS)


def is_machine_dtype(dtype: DType, in_regions: bool = False) -> bool:
    """Says whether kernels compute with a dtype, its bytes in the machine's order.

    Those of regions compute bfloat16 in float32.
    """
    known = f"{NATIVE_DTYPES}{BFLOAT16_CHAR}" if in_regions else NATIVE_DTYPES
    return dtype.char in known and dtype.isnative


def elementwise_kind(equation: EquationLike) -> Any:
    """Returns what decides whether kernels compute an elementwise equation; None for others."""
    # Shapes decide nothing.
    if equation.primitive.family != "elementwise" or equation.params:
        return None
    kind: list[Any] = [equation.primitive]
    for x in (*equation.operands, *equation.outputs):
        number = None if is_variable(x) else constant(x)
        if number is None:
            kind.append((x.type.dtype, x.type.weak))
        elif isinstance(number, int | float | complex | np.generic):
            kind.append((type(number), number))
        else:
            return None
    return tuple(kind)
