"""Ways back through the maxima of windows that look at the maxima, and not at all elements."""

from __future__ import annotations

from ..programs.program import Equation, Program, type_of
from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .rewriter import RewriteRule, Rewritten, Sweep, behind, swept

__all__ = ["pooled_forms"]


def pooled_forms(program: Program) -> Program:
    """Returns a program whose ways back through the maxima of windows do less.

    A cotangent comes to the largest element of a window. Whether that is positive the maximum says,
    and the sum of what comes to all elements is that of what comes to all windows.

    Args:
        program: any program; the one itself is returned where nothing changes.
    """
    better = swept(program, POOLED_FORMS)
    return program if better is program else dead_code(common_subexpressions(better))


@behind("pool_scatter")
def _masked_before(sweep: Sweep, equation: Equation) -> Rewritten:
    """Cotangents of relu are chosen window by window, before they are spread."""
    g, y = equation.operands
    spread = sweep.maker(g, "pool_scatter")
    if spread is None:
        return None
    given, winners = spread.operands
    chosen = sweep.maker(winners, "max_pool_argmax")
    windows = {"windows": spread.params["windows"]}
    if chosen is None or chosen.operands[0] is not y or chosen.params != windows:
        return None
    if type_of(given).dtype != type_of(y).dtype:
        return None
    maxima = sweep.add("max_pool", [y], windows, equation)
    masked = sweep.add("relu_grad", [given, maxima], {}, equation)
    return equation.by(spread.primitive, [masked, winners], spread.params)


@behind("pool_scatter")
def _summed_before(sweep: Sweep, equation: Equation) -> Rewritten:
    """The sum over all elements of what windows spread is that over the windows."""
    (x,) = equation.operands
    spread = sweep.maker(x, "pool_scatter")
    if spread is None:
        return None
    given, winners = spread.operands
    spatial = range(2, type_of(given).ndim)
    # What has won in the padding is no element. Other numbers may be places of no window.
    alone = sweep.maker(winners, "max_pool_argmax") is not None
    padded = any(map(any, spread.params["windows"].padding))
    if padded or not alone or not {*spatial} <= {*equation.params["axis"]}:
        return None
    return equation.by(equation.primitive, [given], equation.params)


POOLED_FORMS: dict[str, tuple[RewriteRule, ...]] = {
    "relu_grad": (_masked_before,),
    "sum": (_summed_before,),
}
