"""Elementwise functions of joined and padded arrays, as joins of their results; updates as well.

The parts are moved once then, by what computes them. Otherwise they are joined first, and the
function reads all of them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.core.buffers import wrap
from ..primitives.core.registry import registry
from ..programs.program import Equation, Operand, Program, Variable, type_of
from .common_subexpressions import common_subexpressions
from .constant_folding import constant_folding
from .constants import constant_buffer
from .dead_code import dead_code
from .rewriter import ELEMENTWISE, RewriteRule, Rewritten, Sweep, swept

__all__ = ["joined_forms"]

# Each part has a kernel of its own.
MOST_JOINED = 4
# Smaller arrays are moved in less time than kernels take to begin.
SMALLEST_JOINED = 1 << 14
JOINING_NAMES = ("concatenate", "stack", "pad")


def joined_forms(program: Program) -> Program:
    """Returns a program whose elementwise functions stand before joins, not behind them.

    Args:
        program: any program; the one itself is returned where nothing changes.

    >>> import functensor as ft, functensor.numpy as np
    >>> x = np.zeros((100, 200))
    >>> program = ft.make_program(lambda x: np.concatenate([x, x + 1]) * 2)(x)
    >>> [equation.primitive.name for equation in joined_forms(program).equations]
    ['add', 'multiply', 'multiply', 'concatenate']
    """
    better = swept(program, JOINED_FORMS)
    if better is program:
        return program
    return dead_code(common_subexpressions(constant_folding(better)))


def _of_joined(sweep: Sweep, equation: Equation) -> Rewritten:
    """A function of a joined array and of numbers joins its results of the parts."""
    out, x = equation.outputs[0], joined_operand(equation)
    if x is None or out.device != "cpu" or not sweep.once(x) or x.type.size < SMALLEST_JOINED:
        return None
    joined = next(filter(None, [sweep.maker(x, name) for name in JOINING_NAMES]), None)
    if joined is None or out.type.shape != x.type.shape:
        return None
    parts: list[Any] = list(joined.operands)
    if joined.primitive.name == "pad":
        parts[1] = number_of(parts[1], x.type.dtype)
        if parts[1] is None:
            return None
    if len(parts) > MOST_JOINED or any(type_of(part).dtype != x.type.dtype for part in parts):
        return None

    def of_part(part: Operand) -> Variable:
        operands = [part if v is x else v for v in equation.operands]
        return sweep.add(equation.primitive, operands, equation.params, equation)

    made = [of_part(part) for part in parts]
    return equation.by(joined.primitive, made, joined.params)


def _updated_part(sweep: Sweep, equation: Equation) -> Rewritten:
    """Makes of what is added to a part of an array a sum that the part is set to."""
    (x, value, *indices), (out,) = equation.operands, equation.outputs
    params = {"key": equation.params["key"]}
    if indices or out.device != "cpu" or out.type.size < SMALLEST_JOINED:
        return None
    if out.type.dtype.char not in "fd" or not is_box(params["key"].native):
        return None
    known = type_of(value)
    if known.dtype != out.type.dtype and not known.weak:
        return None
    part = sweep.add("index", [x], params, equation)
    if part.type.size < out.type.size // 2:
        return None
    joined = sweep.add(BOX_UPDATES[equation.primitive.name], [part, value], {}, equation)
    if joined.type != part.type:
        return None
    return equation.by(registry["index_set"], [x, joined], params)


def is_box(key: Sequence[Any]) -> bool:
    """Says whether a key names neighbouring elements along each axis."""
    return all(
        item is Ellipsis
        or type(item) is int
        or (isinstance(item, slice) and item.step in (None, 1))
        for item in key
    )


BOX_UPDATES = {"index_add": "add", "index_multiply": "multiply"}
JOINED_FORMS: dict[str, tuple[RewriteRule, ...]] = {
    ELEMENTWISE: (_of_joined,),
    **dict.fromkeys(BOX_UPDATES, (_updated_part,)),
}


def joined_operand(equation: Equation) -> Variable | None:
    """Returns the only operand of an equation that has axes, if it is one variable."""
    found = [x for x in equation.operands if type_of(x).shape]
    return found[0] if len(found) == 1 and type(found[0]) is Variable else None


def number_of(x: Operand, dtype: Any) -> Operand | None:
    """Returns the number that an array is padded with, in a dtype; None of several numbers."""
    if type_of(x).shape:
        return None
    if isinstance(x, Variable):
        return x if x.type.dtype == dtype and not x.type.weak else None
    return wrap(np.asarray(constant_buffer(x), dtype))
