"""Replaces equations by simpler ones with the same results."""

from __future__ import annotations

import math
from typing import Any

from ..primitives.core.buffers import WEAK_TYPES, wrap
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Operand, Program, Variable, type_of, used
from .constants import uniform_value
from .rewriter import ELEMENTWISE, RewriteRule, Rewritten, Sweep, behind, swept
from .simplify_shapes import SHAPE_RULES

__all__ = ["algebra"]


def algebra(program: Program) -> Program:
    """Returns a program in which equations are replaced by simpler ones with the same results.

    Not a bit of any result changes, NaN, infinities and zeros' signs included. A constant array
    counts as a number if all of its elements are that. c is a number, x and y are anything:

    * ``x * 1``, ``x / 1``, ``x - 0``, ``x + -0.0``, ``x ** 1``, of integers ``x + 0``: x. But
      ``x + 0.0`` stays, since it makes -0.0 positive; and so does all of this for complex x, where
      a number takes part as a complex one and infinities become NaN.
    * ``x / c``: ``x * (1 / c)``, where c is a power of two, so that both are exact.
    * ``x ** 2``: ``square(x)``; ``x ** 3``, ``x ** 4``, ``x ** -1`` and ``x ** 0.5`` of real arrays
      as the NumPy backend computes them: products, ``reciprocal`` and ``sqrt``.
    * ``log_ratio(x, c)``, the logarithm of ``exp(x) / exp(c)``: ``x - c``, where c is finite.
    * ``-(-x)``: x; ``x + (-y)``: ``x - y``; ``(-x) + y``: ``y - x``; ``x - (-y)``: ``x + y``;
      the same where y is a product or quotient with a negated factor, used once, of real numbers;
      ``(-x) * c``: ``x * (-c)``; ``(-x) / c``: ``x / (-c)``; ``(-x) * (-y)``: ``x * y``.
    * ``where(c, x, y)``: x or y; ``where(condition, x, x)``: x.
    * ``stop_gradient(x)``, ``positive(x)``, ``checkpoint_name``, ``to_device`` of what is there,
      ``conj`` and ``real`` of real numbers: x.
    * A constant array of one number as an operand of arithmetic: the number, or an array of it
      without axes.
    * ``astype`` of the same dtype: x; of what was cast to a wider dtype before: one cast.
    * ``reshape``, ``transpose``, ``broadcast_to`` and ``index`` that change nothing: x; two of a
      kind: one; ``index`` that takes all elements: ``reshape``; ``reshape`` of a reduction that
      keeps or drops its axes: the reduction that does.
    * ``concatenate`` of all slices of an array: its ``reshape``.
    * ``broadcast_to`` of an operand that is broadcast anyway: the operand.
    * ``transpose`` of the last axes of a product of matrices, one of which is transposed: the
      product of the transposed. This one may round its sums differently.
    * Reductions over axes of length 1 or none, of all but sums of floats, which make -0.0
      positive: x or its ``reshape``.

    Args:
        program: any program; the one itself is returned where nothing is simplified.

    >>> import functensor as ft, functensor.numpy as np
    >>> print(algebra(ft.make_program(lambda x: x.T.T / 4 - 0.0)(np.ones((2, 3)))))
    <lambda>(a: float64[2,3]):
        b: float64[3,2] = transpose(a, axes=(1, 0))
        c: float64[2,3] = multiply(a, 0.25)
        return c
    """
    return swept(program, ALGEBRA_RULES)


# A negated factor negates what these give.
SIGNED = frozenset({"multiply", "divide"})


# -- numbers among the operands


def _constant_number(x: Any) -> Any:
    """Returns the number that an operand is, of whatever shape; None where it is none."""
    if type(x) is Variable:
        return None
    return x if type(x) in (float, int) else uniform_value(x)


def _real_kind(known: ShapeDtype) -> bool:
    return known.dtype.kind in "fiu"


def _scalar_operands(sweep: Sweep, equation: Equation) -> Rewritten:
    """Replaces constant arrays of one number by it, where that decides no dtype and no shape.

    Where it decides the dtype, an array without axes takes its place.
    """
    for x in equation.operands:
        if type(x) is not Variable and type(x) not in WEAK_TYPES:
            break
    else:
        return None
    out = equation.outputs[0].type
    operands = list(equation.operands)
    changed = False
    for i, x in enumerate(operands):
        if type(x) is Variable or type(x) in WEAK_TYPES:
            continue
        value = uniform_value(x)
        if value is None:
            continue
        strong = [y.type for y in used(equation.operands) if not y.type.weak]
        if (out.shape, value.dtype) in [(y.shape, y.dtype) for y in strong]:
            operands[i] = value.item()
            changed = True
        elif type_of(x).shape and out.shape in [y.shape for y in strong]:
            operands[i] = wrap(value)
            changed = True
    return equation.with_operands(operands) if changed else None


def _with_primitive(equation: Equation, name: str, *operands: Operand) -> Equation:
    """Returns an equation of the same output by another primitive without parameters."""
    return equation.by(registry[name], operands, {})


def _multiply(sweep: Sweep, equation: Equation) -> Any:
    x, y = equation.operands
    out = equation.outputs[0].type
    if not _real_kind(out):
        return None
    if _constant_number(y) == 1:
        return x
    return y if _constant_number(x) == 1 else None


@behind("negative")
def _multiply_negated(sweep: Sweep, equation: Equation) -> Rewritten:
    x, y = equation.operands
    out = equation.outputs[0].type
    if not _real_kind(out):
        return None
    negated, other = _negated(sweep, x, out), _negated(sweep, y, out)
    if negated is not None and other is not None:
        return _with_primitive(equation, "multiply", negated, other)
    if negated is not None and _exact(y) and out.dtype.kind == "f":
        return _with_primitive(equation, "multiply", negated, -float(y))
    if other is not None and _exact(x) and out.dtype.kind == "f":
        return _with_primitive(equation, "multiply", -float(x), other)
    return None


def _negated(sweep: Sweep, x: Any, out: ShapeDtype) -> Operand | None:
    """Returns the operand whose negative this one is, if no promotion follows; None without one."""
    negative = sweep.maker(x, "negative")
    return negative.operands[0] if negative is not None and x.type.dtype == out.dtype else None


def _negated_term(sweep: Sweep, x: Operand, equation: Equation) -> Operand | None:
    """Returns what a summand is the negative of, a product with a negated factor among them."""
    out = equation.outputs[0].type
    plain = _negated(sweep, x, out)
    if plain is not None or type(x) is not Variable or not _real_kind(out) or not sweep.once(x):
        return plain
    inner = sweep.made.get(x)
    if inner is None or x.type.dtype != out.dtype or inner.primitive.name not in SIGNED:
        return None
    for i, factor in enumerate(inner.operands):
        plain = _negated(sweep, factor, out)
        if plain is not None:
            operands = [plain if j == i else y for j, y in enumerate(inner.operands)]
            return sweep.add(inner.primitive, operands, {}, inner)
    return None


def _exact(x: Operand) -> bool:
    """Says whether an operand is a number that is the same as a float."""
    return type(x) is float or (type(x) is int and abs(x) < 2048)


def _simplify_divide(sweep: Sweep, equation: Equation) -> Any:
    x, y = equation.operands
    out = equation.outputs[0].type
    number = _constant_number(y)
    if number is None or out.dtype.kind != "f":
        return None
    if number == 1:
        return x
    known = type_of(x)
    if known.dtype != out.dtype or known.weak or not _exact(y):
        return None
    negated = _negated(sweep, x, out)
    if negated is not None:
        return _with_primitive(equation, "divide", negated, -float(y))
    fraction, exponent = math.frexp(y)
    # In this range the number and what one is divided by it are normal in half precision too.
    if abs(fraction) == 0.5 and -12 < exponent < 14:
        return _with_primitive(equation, "multiply", x, 1.0 / float(y))
    return None


def _is_zeros_of_sign(x: Operand, sign: float, out: ShapeDtype) -> bool:
    """Says whether an operand is nothing but zeros of a sign, which integers do not have."""
    number = None if type(x) is Variable or not _real_kind(out) else _constant_number(x)
    if number is None or number != 0:
        return False
    return out.dtype.kind in "iu" or math.copysign(1.0, number) == sign


def _add(sweep: Sweep, equation: Equation) -> Any:
    x, y = equation.operands
    out = equation.outputs[0].type
    if _is_zeros_of_sign(y, -1.0, out):
        return x
    return y if _is_zeros_of_sign(x, -1.0, out) else None


@behind("negative")
def _add_negated(sweep: Sweep, equation: Equation) -> Rewritten:
    x, y = equation.operands
    plain = _negated_term(sweep, y, equation)
    if plain is not None:
        return _with_primitive(equation, "subtract", x, plain)
    plain = _negated_term(sweep, x, equation)
    return None if plain is None else _with_primitive(equation, "subtract", y, plain)


def _subtract(sweep: Sweep, equation: Equation) -> Rewritten:
    x, y = equation.operands
    return x if _is_zeros_of_sign(y, 1.0, equation.outputs[0].type) else None


@behind("negative")
def _subtract_negated(sweep: Sweep, equation: Equation) -> Rewritten:
    x, y = equation.operands
    plain = _negated_term(sweep, y, equation)
    return None if plain is None else _with_primitive(equation, "add", x, plain)


def _simplify_log_ratio(sweep: Sweep, equation: Equation) -> Rewritten:
    x, y = equation.operands
    number = _constant_number(y)
    if number is None or not math.isfinite(number):
        return None
    return _with_primitive(equation, "subtract", x, y)


def _simplify_power(sweep: Sweep, equation: Equation) -> Any:
    x, y = equation.operands
    known = type_of(x)
    number = _constant_number(y)
    if number is None or type_of(y).shape or not _real_kind(known):
        return None
    if known != equation.outputs[0].type:
        return None
    if number == 1:
        return x
    if number == 2:
        return _with_primitive(equation, "square", x)
    if known.dtype.kind != "f" or not known.shape or equation.outputs[0].device != "cpu":
        return None
    if number == 3:
        return _with_primitive(equation, "multiply", x, sweep.add("square", [x], {}, equation))
    if number == 4:
        return _with_primitive(equation, "square", sweep.add("square", [x], {}, equation))
    if number == -1:
        return _with_primitive(equation, "reciprocal", x)
    return _with_primitive(equation, "sqrt", x) if number == 0.5 else None


def _simplify_negative(sweep: Sweep, equation: Equation) -> Rewritten:
    negated = sweep.maker(equation.operands[0], "negative")
    return None if negated is None else negated.operands[0]


def _itself(sweep: Sweep, equation: Equation) -> Any:
    return equation.operands[0]


def _itself_if_real(sweep: Sweep, equation: Equation) -> Rewritten:
    x = equation.operands[0]
    return None if type_of(x).dtype.kind == "c" else x


def _simplify_where(sweep: Sweep, equation: Equation) -> Any:
    condition, x, y = equation.operands
    if x is y:
        return x
    chosen = None if type(condition) is Variable else uniform_value(condition)
    if chosen is None and type(condition) is bool:
        chosen = condition
    return None if chosen is None else x if chosen else y


def _simplify_astype(sweep: Sweep, equation: Equation) -> Any:
    x = equation.operands[0]
    cast = sweep.maker(x, "astype")
    if cast is None:
        return x
    source, middle = type_of(cast.operands[0]), x.type
    kept = source.dtype == bool or (
        source.dtype.kind == middle.dtype.kind and source.dtype.itemsize <= middle.dtype.itemsize
    )
    if source.weak or not kept:
        return x
    return equation.with_operands(cast.operands)


COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "exceeds")
NUMERIC: dict[str, tuple[RewriteRule, ...]] = {
    **dict.fromkeys((*COMPARISONS, "maximum", "minimum"), (_scalar_operands,)),
    "multiply": (_scalar_operands, _multiply, _multiply_negated),
    "divide": (_scalar_operands, _simplify_divide),
    "add": (_scalar_operands, _add, _add_negated),
    "subtract": (_scalar_operands, _subtract, _subtract_negated),
    "log_ratio": (_scalar_operands, _simplify_log_ratio),
    "power": (_scalar_operands, _simplify_power),
    "negative": (_simplify_negative,),
    "positive": (_itself,),
    "stop_gradient": (_itself,),
    "conj": (_itself_if_real,),
    "real": (_itself_if_real,),
    "where": (_scalar_operands, _simplify_where),
    "astype": (_simplify_astype,),
}
ALGEBRA_RULES: dict[str, tuple[RewriteRule, ...]] = {
    **SHAPE_RULES,
    **{name: (*rules, *SHAPE_RULES[ELEMENTWISE]) for name, rules in NUMERIC.items()},
    "checkpoint_name": (_itself,),
    "to_device": (_itself,),
}
