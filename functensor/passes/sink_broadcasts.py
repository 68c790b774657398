"""Moves broadcasts and transposes towards the end, where they cost less or nothing."""

from __future__ import annotations

import numpy as np

from ..programs.program import Equation, Program, Variable, type_of
from .rewriter import ELEMENTWISE, RewriteRule, Rewritten, Sweep, behind, swept
from .simplify_shapes import SHAPE_RULES

__all__ = ["sinking"]

# Reductions that do not tell where along the axes an element stood.
SUNK_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all", "count_nonzero", "logsumexp")


def sinking(program: Program) -> Program:
    """Returns a program whose broadcasts and transposes come after elementwise equations.

    Elementwise equations of which all operands are broadcast work on what was broadcast, of which
    there is less, and the result is broadcast. Those of which all operands but numbers are
    transposed alike work on what was transposed; so do reductions. Transposes meet others that way
    and cancel, or end at a product, which takes them for nothing. Not a bit of what is elementwise
    changes; a sum may be rounded differently, since its elements lie in another order.

    Args:
        program: any program; the one itself is returned where nothing moves.

    >>> import functensor as ft, functensor.numpy as np
    >>> from functensor.passes.dead_code import dead_code
    >>> print(dead_code(sinking(ft.make_program(lambda x: np.exp(x.T))(np.ones((2, 3))))))
    <lambda>(a: float64[2,3]):
        b: float64[2,3] = exp(a)
        c: float64[3,2] = transpose(b, axes=(1, 0))
        return c
    """
    return swept(program, SINKING_RULES)


@behind("broadcast_to")
def _sink_broadcast(sweep: Sweep, equation: Equation) -> Rewritten:
    operands = list(equation.operands)
    found = False
    for i, x in enumerate(operands):
        source = sweep.maker(x, "broadcast_to")
        if source is not None and not type_of(source.operands[0]).weak:
            operands[i] = source.operands[0]
            found = True
    out = equation.outputs[0].type
    if not found or not out.size:
        return None
    shape = np.broadcast_shapes(*[type_of(x).shape for x in operands])
    if shape == out.shape:
        return None
    less = sweep.add(equation.primitive, operands, equation.params, equation)
    return sweep.add("broadcast_to", [less], {"shape": out.shape}, equation)


@behind("transpose")
def _sink_transpose(sweep: Sweep, equation: Equation) -> Rewritten:
    axes = None
    operands = list(equation.operands)
    for i, x in enumerate(operands):
        if type(x) is not Variable or not x.type.shape:
            if type_of(x).shape:
                return None
            continue
        source = sweep.maker(x, "transpose")
        if source is None or (axes is not None and source.params["axes"] != axes):
            return None
        axes = source.params["axes"]
        operands[i] = source.operands[0]
    if axes is None:
        return None
    before = sweep.add(equation.primitive, operands, equation.params, equation)
    return sweep.add("transpose", [before], {"axes": axes}, equation)


@behind("transpose")
def _reduced_transpose(sweep: Sweep, equation: Equation) -> Rewritten:
    source = sweep.maker(equation.operands[0], "transpose")
    if source is None:
        return None
    axes, reduced = source.params["axes"], equation.params["axis"]
    params = {**equation.params, "axis": tuple(sorted([axes[i] for i in reduced]))}
    before = sweep.add(equation.primitive, source.operands, params, equation)
    if not params["keepdims"]:
        kept = [a for i, a in enumerate(axes) if i not in reduced]
        order = sorted(kept)
        axes = tuple([order.index(a) for a in kept])
    if axes == tuple(range(len(axes))):
        return before
    return sweep.add("transpose", [before], {"axes": axes}, equation)


SINKING_RULES: dict[str, tuple[RewriteRule, ...]] = {
    ELEMENTWISE: (_sink_broadcast, _sink_transpose),
    # Two that meet are one or none before the next equation: else each pair would take a round.
    "transpose": SHAPE_RULES["transpose"],
    **dict.fromkeys(SUNK_REDUCTIONS, (_reduced_transpose,)),
}
