"""The table of formulas, and their graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import ExprGraph
from .error_function import erf, erfc
from .exponential import exp, exp2, expm1
from .hyperbolic import cosh, sinh, tanh
from .hypotenuse import hypot
from .inverse_hyperbolic import arccosh, arcsinh, arctanh
from .inverse_trigonometric import arccos, arcsin, arctan, arctan2
from .logarithm import log, log1p, log2, log10
from .power import cbrt, power
from .remainder import fmod
from .trigonometric import cos, sin, tan

if TYPE_CHECKING:
    from ..graph import Expr

__all__ = ["FORMULAS", "JOINT_FUNCTIONS", "expanded", "expanded_together"]

FORMULAS: dict[str, Callable[..., Expr]] = {
    "arccos": arccos,
    "arccosh": arccosh,
    "arcsin": arcsin,
    "arcsinh": arcsinh,
    "arctan": arctan,
    "arctan2": arctan2,
    "arctanh": arctanh,
    "cbrt": cbrt,
    "cos": cos,
    "cosh": cosh,
    "erf": erf,
    "erfc": erfc,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "fmod": fmod,
    "hypot": hypot,
    "log": log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "power": power,
    "sin": sin,
    "sinh": sinh,
    "tan": tan,
    "tanh": tanh,
}
OF_TWO = frozenset({"arctan2", "fmod", "hypot", "power"})
# Functions that share most of their work where they have the same operand.
JOINT_FUNCTIONS = {name: pair for pair in [("sin", "cos"), ("sinh", "cosh")] for name in pair}


def expanded(name: str, dtype: np.dtype[Any]) -> tuple[ExprGraph, Expr]:
    """Returns a function as a graph of operations that processors have.

    Args:
        name: one of ``operations.KERNEL_FUNCTIONS``.
        dtype: float32 or float64.

    Returns:
        A graph whose inputs 0 and 1 are the operands, and the node of the result.

    >>> import numpy as np
    >>> graph, result = expanded("exp", np.dtype(np.float32))
    >>> result.dtype
    dtype('float32')
    """
    graph, (result,) = expanded_together((name,), np.dtype(dtype))
    return graph, result


@cache
def expanded_together(
    names: tuple[str, ...], dtype: np.dtype[Any]
) -> tuple[ExprGraph, tuple[Expr, ...]]:
    """Returns functions of the same operands as one graph, which has once what they share."""
    graph = ExprGraph()
    count = 2 if OF_TWO.issuperset(names) else 1
    operands = [graph.input(number, dtype) for number in range(count)]
    return graph, tuple([FORMULAS[name](*operands) for name in names])
