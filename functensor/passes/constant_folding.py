"""Computes equations of constants once, while the program is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.restoring import errstate
from ..primitives.core.buffers import WEAK_TYPES, wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..programs.program import Equation, Program, Variable, type_of, with_substitutes
from ..programs.staged_tracers import is_at_once
from .constants import constant_buffer

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["constant_folding"]



def constant_folding(program: Program) -> Program:
    """Returns a program in which equations of constants are replaced by their results.

    That is done where staging would do it: small results of small constants, and views. What is
    larger is computed in every run rather than kept. What would warn or raise is left to the runs,
    and so is what is made on a default device, which may be another one by then.

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
        if not equation.outputs:
            return None
        out = equation.outputs[0]
        return _folded_constant(equation, out) if _foldable(equation, out) else None

    return with_substitutes(program, folded)


def _foldable(equation: Equation, out: Variable) -> bool:
    primitive = equation.primitive
    if not isinstance(primitive, Primitive) or primitive.creates or out.device != "cpu":
        return False
    return is_at_once(primitive, [type_of(x) for x in equation.operands], out.type)


def _folded_constant(equation: Equation, out: Variable) -> Value | None:
    """Returns the result, or None where there is none of the type that was inferred."""
    buffers = [constant_buffer(x) for x in equation.operands]
    if not all(isinstance(b, np.ndarray | np.generic) or type(b) in WEAK_TYPES for b in buffers):
        return None
    try:
        with errstate(divide="raise", over="raise", invalid="raise"):
            value = _folded_value(equation, buffers, out.type)
    except Exception:  # whatever it is, the run raises it at the user's line
        return None
    return value if shape_dtype(value) == out.type else None


def _folded_value(equation: Equation, buffers: list[Any], known: ShapeDtype) -> Value | None:
    if equation.primitive.name == "broadcast_to":
        return wrap(np.broadcast_to(buffers[0], known.shape))
    value = equation.primitive.impl(*buffers, **equation.params)
    return value.item() if known.weak else wrap(value)
