"""Products, reductions and functions of rows of bfloat16, in float32 between two casts.

Eager mode computes them so, too, within one call. As parts of their own the casts are fused with
what stands beside them.
"""

from __future__ import annotations

import numpy as np

from ..backends.region_functions import LABELLED, LAST_AXIS_FUNCTIONS
from ..primitives.core.registry import registry
from ..programs.program import Equation, type_of
from .region_proofs import REGION_REDUCTIONS, ROW_OPERATIONS
from .rewriter import RewriteRule, Rewritten, Sweep

__all__ = ["SINGLE_FORMS"]

WIDENED_CHAR = "E"


def _in_single(sweep: Sweep, equation: Equation) -> Rewritten:
    """Casts operands to float32, and the result back."""
    (out,) = equation.outputs
    types = [type_of(x) for x in equation.operands]
    if out.device != "cpu" or out.type.dtype.char != WIDENED_CHAR:
        return None
    if any(known.dtype != out.type.dtype for known in types) or equation.params.get("dtype"):
        return None
    single = {"dtype": np.dtype(np.float32)}
    operands = [sweep.add("astype", [x], single, equation) for x in equation.operands]
    found = sweep.add(equation.primitive, operands, equation.params, equation)
    return equation.by(registry["astype"], [found], {"dtype": out.type.dtype})


SINGLE_FORMS: dict[str, tuple[RewriteRule, ...]] = dict.fromkeys(
    ["matmul", *sorted((REGION_REDUCTIONS | ROW_OPERATIONS | LAST_AXIS_FUNCTIONS) - LABELLED)],
    (_in_single,),
)
