"""Primitives in loops as those that machine code has of any axes: softmax as its parts, and so on.

A loop that has one equation of another kind would run its steps in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..primitives.core.buffers import to_buffer
from ..primitives.core.index_key import ARRAY, FULL, IndexKey
from ..programs.program import Equation, Operand, Program, Variable, type_of
from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .rewriter import RewriteRule, Rewritten, Sweep, swept

__all__ = ["loop_forms"]

# The most places of elements that are looked at one by one.
MOST_NUMBERED = 1 << 16


def loop_forms(program: Program) -> Program:
    """Returns a program of a loop in which more is elementwise, a reduction or a gather.

    Args:
        program: any program; the one itself is returned where nothing changes.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(np.flip)(np.ones(3))
    >>> print(loop_forms(program))
    flip(a: float64[3]):
        b: float64[3] = index(a, <int64[3]>, key=[array])
        return b
    """
    better = swept(program, LOOP_FORMS)
    return program if better is program else dead_code(common_subexpressions(better))


class Rule:
    """Adds equations in the place of one, as a formula writes them.

    Args:
        sweep: takes the equations.
        equation: the one.
    """

    def __init__(self, sweep: Sweep, equation: Equation) -> None:
        self._sweep, self._equation = sweep, equation

    def __call__(self, name: str, *operands: Operand, **params: Any) -> Variable:
        """Adds an equation, and returns its result."""
        return self._sweep.add(name, operands, params, self._equation)

    def over(self, name: str, x: Operand, axis: Sequence[int]) -> Variable:
        """Adds a reduction that keeps its axes."""
        params = {"axis": tuple(axis), "keepdims": True}
        return self(name, x, **params, **({"dtype": None} if name in ("mean", "sum") else {}))

    def below_highest(self, x: Operand, axis: Sequence[int]) -> Variable:
        """Adds elements less the largest: 0 for infinity, and -inf beside it."""
        found = self.over("max", x, axis)
        highest = self("where", self("equal", found, -np.inf), 0, found)
        return self("where", self("equal", x, highest), 0, self("subtract", x, highest))


def is_row(equation: Equation) -> bool:
    """Says whether an equation goes along the last axis of several, of which kernels have rows."""
    ndim = type_of(equation.operands[0]).ndim
    return ndim > 1 and equation.params["axis"] == (ndim - 1,)


def has_parts(equation: Equation) -> bool:
    """Says whether a softmax is computed by its parts; the largest of no elements is none."""
    return type_of(equation.operands[0]).size > 0 and not is_row(equation)


def _parts_of_softmax(sweep: Sweep, equation: Equation) -> Rewritten:
    """Exponentials of what is below the largest, over their sum."""
    if not has_parts(equation):
        return None
    (x,), axis, rule = equation.operands, equation.params["axis"], Rule(sweep, equation)
    powers = rule("exp", rule.below_highest(x, axis))
    return rule("divide", powers, rule.over("sum", powers, axis))


def _parts_of_softmax_grad(sweep: Sweep, equation: Equation) -> Rewritten:
    """The softmax times what its cotangent is above its mean by that softmax."""
    if not has_parts(equation):
        return None
    (g, ans), axis, rule = equation.operands, equation.params["axis"], Rule(sweep, equation)
    mean = rule.over("sum", rule("multiply", g, ans), axis)
    return rule("multiply", ans, rule("subtract", g, mean))


def _parts_of_log_softmax(sweep: Sweep, equation: Equation) -> Rewritten:
    """Elements below the largest, less the logarithm of the sum of their exponentials."""
    if not has_parts(equation):
        return None
    (x,), axis, rule = equation.operands, equation.params["axis"], Rule(sweep, equation)
    below = rule.below_highest(x, axis)
    return rule("subtract", below, rule("log", rule.over("sum", rule("exp", below), axis)))


def _parts_of_logsumexp(sweep: Sweep, equation: Equation) -> Rewritten:
    """The logarithm of the sum of exponentials of what is below the largest, which is added."""
    (x,), axis, rule = equation.operands, equation.params["axis"], Rule(sweep, equation)
    largest = rule.over("max", x, axis)
    shift = rule("where", rule("isfinite", largest), largest, 0)
    total = rule.over("sum", rule("exp", rule("subtract", x, shift)), axis)
    found = rule("add", rule("log", total), shift)
    return rule("reshape", found, shape=equation.outputs[0].type.shape)


def _parts_of_var(sweep: Sweep, equation: Equation) -> Rewritten:
    """The mean of squares of what the elements differ by from their mean."""
    (x,), params, rule = equation.operands, equation.params, Rule(sweep, equation)
    freedom = prod(type_of(x).shape[a] for a in params["axis"]) - params["ddof"]
    if is_row(equation) or type_of(x).dtype.kind == "c" or freedom <= 0:
        return None
    apart = rule("subtract", x, rule.over("mean", x, params["axis"]))
    total = rule.over("sum", rule("square", apart), params["axis"])
    found = rule("divide", total, freedom)
    return rule("reshape", found, shape=equation.outputs[0].type.shape)


def _gathered_flip(sweep: Sweep, equation: Equation) -> Rewritten:
    """The elements at places from the last to the first."""
    rule = Rule(sweep, equation)
    x: Operand = equation.operands[0]
    for axis in equation.params["axis"]:
        places = np.arange(type_of(x).shape[axis])[::-1].copy()
        x = rule("index", x, places, key=IndexKey((*(FULL,) * axis, ARRAY), 1))
    return x


def _backward_index(sweep: Sweep, equation: Equation) -> Rewritten:
    """The elements of slices that go backwards are taken first, by their places."""
    x: Operand = equation.operands[0]
    indices = equation.operands[1:]
    items = equation.params["key"].native
    if not any(type(item) is slice and (item.step or 1) < 0 for item in items):
        return None
    rule = Rule(sweep, equation)
    taken = sum(item is not None and item is not Ellipsis for item in items)
    forward, axis = [], 0
    for item in items:
        if type(item) is slice and (item.step or 1) < 0:
            places = np.arange(type_of(x).shape[axis])[item].copy()
            x = rule("index", x, places, key=IndexKey((*(FULL,) * axis, ARRAY), 1))
            item = FULL
        forward.append(item)
        if item is Ellipsis:
            axis += type_of(x).ndim - taken
        elif item is not None:
            axis += 1
    if not indices and all(item is Ellipsis or item == FULL for item in forward):
        return x
    return rule("index", x, *indices, key=IndexKey(tuple(forward), len(indices)))


def _set_within(sweep: Sweep, equation: Equation) -> Rewritten:
    """The elements, set within an array of the number that is around them."""
    (x, value), out, rule = equation.operands, equation.outputs[0].type, Rule(sweep, equation)
    if type_of(value).shape:
        return None
    widths = equation.params["pad_width"]
    inside = [slice(b, n - a) for n, (b, a) in zip(out.shape, widths, strict=True)]
    around = rule("astype", value, dtype=out.dtype)
    room = rule("broadcast_to", around, shape=out.shape)
    return rule("index_set", room, x, key=IndexKey(tuple(inside)))


def _set_aside(sweep: Sweep, equation: Equation) -> Rewritten:
    """The elements that stay, set within zeros."""
    (x,), rule = equation.operands, Rule(sweep, equation)
    by, axis, known = equation.params["by"], equation.params["axis"], type_of(x)
    kept = known.shape[axis] - abs(by)
    if kept <= 0:
        return None
    low, high = slice(0, kept), slice(abs(by), abs(by) + kept)
    source, target = (low, high) if by > 0 else (high, low)
    part = rule("index", x, key=IndexKey((*(FULL,) * axis, source)))
    room = rule("broadcast_to", np.zeros((), known.dtype), shape=known.shape)
    return rule("index_set", room, part, key=IndexKey((*(FULL,) * axis, target)))


def _cast_cumulative(sweep: Sweep, equation: Equation) -> Rewritten:
    """A cumulative function of another dtype than its operand's takes the operand in that."""
    (x,), out = equation.operands, equation.outputs[0].type
    if type_of(x).dtype == out.dtype:
        return None
    wide = sweep.add("astype", [x], {"dtype": out.dtype}, equation)
    return sweep.add(equation.primitive.name, [wide], equation.params, equation)


def is_vector(equation: Equation) -> bool:
    """Says whether an equation normalises a vector, of which kernels have no rows."""
    types = [type_of(x) for x in equation.operands]
    return types[0].ndim == 1 and types[0].size > 0 and {t.dtype.char for t in types} <= {*"fd"}


def _normal(rule: Rule, x: Operand, eps: float, center: bool) -> tuple[Variable, Variable]:
    """Adds a vector brought to mean 0 and variance 1, and what it was multiplied by."""
    apart = rule("subtract", x, rule.over("mean", x, (0,))) if center else x
    spread = rule("add", rule.over("mean", rule("square", apart), (0,)), eps)
    scale = rule("divide", 1, rule("sqrt", spread))
    return rule("multiply", apart, scale), scale


def _parts_of_normalize(sweep: Sweep, equation: Equation) -> Rewritten:
    """The elements of a vector, less their mean and over their deviation."""
    if not is_vector(equation):
        return None
    return _normal(Rule(sweep, equation), equation.operands[0], **equation.params)[0]


def _parts_of_normalize_grad(sweep: Sweep, equation: Equation) -> Rewritten:
    """A cotangent less its mean, and less its share in the direction of the vector."""
    if not is_vector(equation):
        return None
    rule, (g, x) = Rule(sweep, equation), equation.operands
    y, scale = _normal(rule, x, **equation.params)
    rest = rule("subtract", g, rule.over("mean", g, (0,))) if equation.params["center"] else g
    along = rule.over("mean", rule("multiply", g, y), (0,))
    return rule("multiply", rule("subtract", rest, rule("multiply", y, along)), scale)


def _signed_labels(sweep: Sweep, equation: Equation) -> Rewritten:
    """Labels without a sign become those with one; what wraps around is no label before either."""
    *rest, labels = equation.operands
    if type_of(labels).dtype.kind != "u":
        return None
    signed = sweep.add("astype", [labels], {"dtype": np.dtype(np.int64)}, equation)
    return equation.with_operands([*rest, signed])


def _sorted_partition(sweep: Sweep, equation: Equation) -> Rewritten:
    """Elements that stand where sorting puts them are sorted, if no others are looked at."""
    (x,), (out,), axis = equation.operands, equation.outputs, equation.params["axis"]
    shape = type_of(x).shape
    if out.type.size > MOST_NUMBERED:
        return None
    wanted = {*equation.params["kth"]}
    places = np.indices(shape)[axis]
    for user in sweep.users.get(out, [None]):
        if user is None or user.primitive.name != "index":
            return None
        operands = [places if v is out else v for v in user.operands]
        if user.operands[0] is not out or any(type(v) is Variable for v in operands):
            return None
        given = map(to_buffer, operands)
        if not wanted.issuperset(np.unique(user.primitive.impl(*given, **user.params)).tolist()):
            return None
    params = {"axis": axis, "stable": True, "descending": False}
    return sweep.add("argsort", [x], params, equation)


LOOP_FORMS: dict[str, tuple[RewriteRule, ...]] = {
    "argpartition": (_sorted_partition,),
    "cross_entropy": (_signed_labels,),
    "cross_entropy_grad": (_signed_labels,),
    "cumprod": (_cast_cumulative,),
    "cumsum": (_cast_cumulative,),
    "flip": (_gathered_flip,),
    "index": (_backward_index,),
    "log_softmax": (_parts_of_log_softmax,),
    "logsumexp": (_parts_of_logsumexp,),
    "normalize": (_parts_of_normalize,),
    "normalize_grad": (_parts_of_normalize_grad,),
    "pad": (_set_within,),
    "shift": (_set_aside,),
    "softmax": (_parts_of_softmax,),
    "softmax_grad": (_parts_of_softmax_grad,),
    "var": (_parts_of_var,),
}
