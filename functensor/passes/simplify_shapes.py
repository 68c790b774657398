"""The rules of `algebra` for primitives that move elements or reduce them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitives.core.index_key import FULL
from ..primitives.core.registry import registry
from ..programs.program import Equation, Operand, Variable, type_of
from .rewriter import ELEMENTWISE, RewriteRule, Rewritten, Sweep, behind
from .simplify_indices import INDEX_RULES

__all__ = ["SHAPE_RULES", "sliced"]

# Of no elements but one these give that one. A sum of floats does not: it makes -0.0 positive.
NEUTRAL = frozenset({"max", "min"})


def _past(source: Equation, equation: Equation, **params: Any) -> Equation:
    """Returns an equation that works on the operands of the one that made its operand."""
    return equation.by(equation.primitive, source.operands, params)


def _simplify_reshape(sweep: Sweep, equation: Equation) -> Any:
    x, shape = equation.operands[0], equation.params["shape"]
    source = sweep.made.get(x) if type(x) is Variable else None
    if source is None or type_of(x).shape == shape:
        return x
    if source.primitive.name == "reshape":
        return _past(source, equation, shape=shape)
    if "keepdims" not in source.params or not sweep.once(x):
        return x
    keepdims, axis = source.params["keepdims"], source.params["axis"]
    reduced = type_of(source.operands[0]).shape
    if keepdims:
        other = tuple(n for i, n in enumerate(reduced) if i not in axis)
    else:
        other = tuple(1 if i in axis else n for i, n in enumerate(reduced))
    if other != shape:
        return x
    params = {**source.params, "keepdims": not keepdims}
    return source.by(source.primitive, source.operands, params, equation.outputs)


def _simplify_transpose(sweep: Sweep, equation: Equation) -> Any:
    x, axes = equation.operands[0], equation.params["axes"]
    identity = tuple(range(len(axes)))
    if axes == identity:
        return x
    source = sweep.maker(x, "transpose")
    if source is not None:
        inner = source.params["axes"]
        return _past(source, equation, axes=tuple([inner[i] for i in axes]))
    product = sweep.maker(x, "matmul")
    if product is None or not sweep.once(x) or axes != _swapped_last_axes(len(axes)):
        return None
    a, b = product.operands
    if type_of(a).ndim < 2 or type_of(b).ndim < 2:
        return None
    if sweep.maker(a, "transpose") is None and sweep.maker(b, "transpose") is None:
        return None
    swapped = [
        sweep.add("transpose", [v], {"axes": _swapped_last_axes(type_of(v).ndim)}, equation)
        for v in (b, a)
    ]
    return product.by(product.primitive, swapped, {}, equation.outputs)


def _swapped_last_axes(ndim: int) -> tuple[int, ...]:
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _broadcast_to(sweep: Sweep, equation: Equation) -> Any:
    x = equation.operands[0]
    source = sweep.maker(x, "broadcast_to")
    if source is None:
        source = sweep.maker(x, "reshape")
        if source is None:
            return x
        own = type_of(source.operands[0])
        if own.weak or type_of(x).shape != (1,) * (type_of(x).ndim - own.ndim) + own.shape:
            return x
    return _past(source, equation, **equation.params)


def _simplify_index(sweep: Sweep, equation: Equation) -> Rewritten:
    x, out = equation.operands[0], equation.outputs[0].type
    key = equation.params["key"]
    if key.arrays or type_of(x).size != out.size or not out.size:
        return None
    for item in key.native:
        if type(item) is slice and item.step not in (None, 1):
            return None
    # A key that leaves all elements there leaves them in order.
    return x if type_of(x) == out else _reshape_of(equation, x)


def _reshape_of(equation: Equation, x: Operand) -> Equation:
    """Returns an equation of the same output that reshapes an operand."""
    return equation.by(registry["reshape"], [x], {"shape": equation.outputs[0].type.shape})


def sliced(equation: Equation) -> tuple[Variable, int, int] | None:
    """Returns the variable, axis and place that an equation takes a slice of; None elsewhere."""
    x = equation.operands[0] if equation.primitive.name == "index" else None
    if type(x) is not Variable or equation.params["key"].arrays:
        return None
    native = equation.params["key"].native
    axis = next((i for i, item in enumerate(native) if type(item) is int), len(native))
    if axis == len(native) or native[:axis] + native[axis + 1 :] != (FULL,) * (len(native) - 1):
        return None
    return x, axis, native[axis] % x.type.shape[axis]


@behind("index")
def _concatenate(sweep: Sweep, equation: Equation) -> Rewritten:
    """Lays the slices of an array one below the other without taking them."""
    first = equation.operands[0]
    source = sweep.maker(first, "index")
    taken = None if source is None else sliced(source)
    if taken is None or equation.params["axis"] or not type_of(first).shape:
        return None
    x, axis, _ = taken
    if x.type.shape[axis] != len(equation.operands):
        return None
    for i, operand in enumerate(equation.operands):
        source = sweep.maker(operand, "index")
        if source is None or sliced(source) != (x, axis, i):
            return None
    axes = (axis, *(i for i in range(x.type.ndim) if i != axis))
    return _reshape_of(equation, sweep.add("transpose", [x], {"axes": axes}, equation))


def _reduce(sweep: Sweep, equation: Equation) -> Rewritten:
    x, axis = equation.operands[0], equation.params["axis"]
    known = type_of(x)
    out = equation.outputs[0].type
    name = equation.primitive.name
    if known.weak or known.dtype != out.dtype or any(known.shape[i] != 1 for i in axis):
        return None
    if name not in NEUTRAL and known.dtype.kind not in "iub":
        return None
    return x if known == out else _reshape_of(equation, x)


@behind("broadcast_to")
def _unbroadcast(sweep: Sweep, equation: Equation) -> Rewritten:
    """Takes operands before they are broadcast, as long as others make the shape."""
    operands = list(equation.operands)
    if len(operands) < 2:
        return None
    changed = False
    shape = equation.outputs[0].type.shape
    for i, x in enumerate(operands):
        source = sweep.maker(x, "broadcast_to")
        if source is None or type_of(source.operands[0]).weak:
            continue
        rest = [type_of(y).shape for j, y in enumerate(operands) if j != i]
        own = type_of(source.operands[0]).shape
        if np.broadcast_shapes(own, *rest) == shape:
            operands[i] = source.operands[0]
            changed = True
    return equation.with_operands(operands) if changed else None


@behind("index_set")
def _element_just_set(sweep: Sweep, equation: Equation) -> Any:
    """An element is what was set there, where single numbers name it: no two are the same."""
    x, *places = equation.operands
    source = sweep.maker(x, "index_set")
    if source is None or source.params["key"] != equation.params["key"]:
        return None
    _, value, *others = source.operands
    if any(i is not j or type_of(i).shape for i, j in zip(places, others, strict=True)):
        return None
    out = equation.outputs[0].type
    if type_of(value).shape != out.shape:
        return None
    if places:
        # An update that nothing else needs would go away, and with it the test of the numbers.
        if sweep.once(x):
            return None
        sweep.uses[x] -= 1
    if type_of(value) == out:
        return value
    return equation.by(registry["astype"], [value], {"dtype": out.dtype})


SHAPE_RULES: dict[str, tuple[RewriteRule, ...]] = {
    "reshape": (_simplify_reshape,),
    "transpose": (_simplify_transpose,),
    "broadcast_to": (_broadcast_to,),
    "index": (_element_just_set, _simplify_index, *INDEX_RULES),
    "concatenate": (_concatenate,),
    ELEMENTWISE: (_unbroadcast,),
    **dict.fromkeys(("max", "min", "sum", "prod"), (_reduce,)),
}
