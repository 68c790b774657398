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
    from ..backends.annotations import Buffer
    from ..primitives.core.annotations import Value

__all__ = ["constant_folding"]

# Constants of more bytes are kept only where staging keeps them.
LARGEST_FOLDED_BYTES = 1 << 20
# Primitives whose elements are elements of their operands.
CHEAP_MOVES = frozenset({"astype", "concatenate", "flip", "index", "roll", "stack"})


def constant_folding(program: Program) -> Program:
    """Returns a program in which equations of constants are replaced by their results.

    That is done where staging would do it: small results of small constants, and views; for arrays
    that are one number everywhere, which take no memory; and for those of up to a MiB, of cheap
    functions, that take no more memory than their operands. Others are computed in every run rather
    than kept. Equations that would warn or raise are left to the
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
        if _foldable(equation):
            return _folded_constant(equation)
        if _is_one_number(equation):
            return _folded_number(equation)
        return _folded_constant(equation) if _saves_memory(equation) else None

    return with_substitutes(program, folded)


def _foldable(equation: Equation) -> bool:
    primitive = equation.primitive
    if not isinstance(primitive, Primitive) or primitive.creates or equation.exchanges():
        return False
    out = equation.outputs[0]
    types = [type_of(x) for x in equation.operands]
    return out.device == "cpu" and is_at_once(primitive, types, out.type)


def _saves_memory(equation: Equation) -> bool:
    """Says whether a constant takes no more memory than the constants of which it is computed.

    Elementwise functions and moves of elements take no longer for it than a run does.
    """
    primitive, out = equation.primitive, equation.outputs[0]
    if not isinstance(primitive, Primitive) or primitive.creates or out.device != "cpu":
        return False
    if primitive.family != "elementwise" and primitive.name not in CHEAP_MOVES:
        return False
    size = out.type.size * out.type.dtype.itemsize
    return size <= LARGEST_FOLDED_BYTES and size <= sum(
        [bytes_taken(constant_buffer(x)) for x in equation.operands]
    )


def bytes_taken(buffer: Any) -> int:
    """Returns how many bytes a constant takes, if none of its elements is repeated; 0 if one is."""
    return buffer.nbytes if type(buffer) is np.ndarray and 0 not in buffer.strides else 0


def _is_one_number(equation: Equation) -> bool:
    """Says whether an equation is elementwise, and its operands are one number everywhere each."""
    primitive, out = equation.primitive, equation.outputs[0]
    if not isinstance(primitive, Primitive) or primitive.creates or out.device != "cpu":
        return False
    if not out.type.size or not (primitive.family == "elementwise" or primitive.name == "astype"):
        return False
    buffers = map(constant_buffer, equation.operands)
    return all(type(b) in WEAK_TYPES or not any(getattr(b, "strides", (1,))) for b in buffers)


def _folded_number(equation: Equation) -> Value | None:
    """Returns a result that is one number everywhere, or None as for other constants."""
    known = equation.outputs[0].type
    buffers = map(constant_buffer, equation.operands)
    operands = [b if type(b) in WEAK_TYPES else wrap(one_element(b)) for b in buffers]
    one = Variable(ShapeDtype((1,), known.dtype), "cpu")
    value = _folded_constant(equation.by(equation.primitive, operands, equation.params, [one]))
    return None if value is None else wrap(np.broadcast_to(constant_buffer(value), known.shape))


def one_element(buffer: Buffer) -> Buffer:
    """Returns the first element of an array, as an array with one axis."""
    return buffer[(slice(1),) * buffer.ndim].reshape(1)


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
