"""Computes equations of constants once, while the program is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.restoring import errstate
from ..primitives.core.buffers import WEAK_TYPES, wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import shape_dtype
from ..programs.program import Equation, Program, Variable, type_of, with_substitutes
from ..programs.staged_tracers import is_at_once
from .constants import constant_buffer

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["constant_folding"]


def constant_folding(program: Program) -> Program:
    """Returns a program in which equations of constants are replaced by their results.

    That is done where staging would do it: small results of small constants, and views. Larger ones
    are computed in every run rather than kept. Equations that would warn or raise are left to the
    runs, and so are those that create arrays on a default device, which may be another one by then.

    Args:
        program: any program; the one itself is returned where nothing is constant.

    >>> from functensor.primitives import registry
    >>> from functensor.primitives.core.shape_dtype import ShapeDtype
    >>> out = Variable(ShapeDtype((), "float64", float))
    >>> sum_of_two = Equation(registry["add"], [1.5, 2.0], {}, [out])
    >>> print(constant_folding(Program("f", [], [sum_of_two], [out])))
    f():
        return 3.5
    """

    def folded(equation: Equation) -> Value | None:
        for x in equation.operands:
            if type(x) is Variable:
                return None
        return _folded_constant(equation) if _foldable(equation) else None

    return with_substitutes(program, folded)


def _foldable(equation: Equation) -> bool:
    primitive = equation.primitive
    if not isinstance(primitive, Primitive) or primitive.creates:
        return False
    out = equation.outputs[0]
    types = [type_of(x) for x in equation.operands]
    return out.device == "cpu" and is_at_once(primitive, types, out.type)


def _folded_constant(equation: Equation) -> Value | None:
    """Returns the result, or None where there is none of the type that was inferred."""
    known = equation.outputs[0].type
    buffers = [constant_buffer(x) for x in equation.operands]
    if not all(isinstance(b, np.ndarray | np.generic) or type(b) in WEAK_TYPES for b in buffers):
        return None
    try:
        with errstate(divide="raise", over="raise", invalid="raise"):
            if equation.primitive.name == "broadcast_to":
                value: Any = wrap(np.broadcast_to(buffers[0], known.shape))
            else:
                value = equation.primitive.impl(*buffers, **equation.params)
                value = value.item() if known.weak else wrap(value)
    except Exception:  # whatever it is, the run raises it at the user's line
        return None
    return value if shape_dtype(value) == known else None
