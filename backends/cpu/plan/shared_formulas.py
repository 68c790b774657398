"""Primitives as formulas of terms: the formulas of eager mode, term by term.

Kernels are made of them, and so are blocks of NumPy's functions. Operands are floats of the
result's dtype, and terms of one graph.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from ...arrays.nn_formulas import GELU_CUBIC, GELU_LINEAR
from ...terms import FormulaTerm, select, term_function
from ..activations import LARGEST_STEEP, SMALLEST_GATED
from ..where_and_extrema import FEWEST_ELEMENTS_BY_BITS

__all__ = ["SHARED_FORMULAS", "SHARED_ROWS", "FormulaRows", "limited", "reciprocal"]


TermT = TypeVar("TermT", bound=FormulaTerm)

exp, expm1, log1p, maximum, sqrt, tanh = map(
    term_function, ("exp", "expm1", "log1p", "maximum", "sqrt", "tanh")
)


def limited(x: TermT, lowest: Any, highest: Any) -> TermT:
    """Returns x within limits, as ``ndarray.clip`` of numbers: of two zeros its own."""
    return x.graph.limited(x, lowest, highest)  # type: ignore[no-any-return]


def reciprocal(x: TermT) -> TermT:
    """Returns ``1 / x``."""
    return 1.0 / x


def sigmoid(x: TermT) -> TermT:
    """Returns ``1 / (1 + exp(-x))``."""
    return reciprocal(exp(-x) + 1.0)


def relu(x: TermT) -> TermT:
    """Returns ``max(x, 0)``; for zeros, as in eager mode, 0 of few elements and x of many."""
    if prod(x.graph.lengths[axis] for axis in x.axes) < FEWEST_ELEMENTS_BY_BITS:
        return maximum(x, 0.0)
    return limited(x, 0.0, np.inf)


def relu_grad(x: TermT, y: TermT) -> TermT:
    """Returns x where y is positive, 0 elsewhere."""
    return select(y > 0.0, x, 0.0)


def gated(x: TermT, rest: TermT) -> TermT:
    """Returns ``x / rest``, 0 for an x so far below that the rest is infinite."""
    return limited(x, SMALLEST_GATED[x.dtype.char], np.inf) / rest


def silu(x: TermT) -> TermT:
    """Returns ``x sigmoid(x)``."""
    return gated(x, exp(-x) + 1.0)


def silu_grad(x: TermT, y: TermT) -> TermT:
    """Returns the derivative of ``silu`` at y in the direction x."""
    limit = -0.875 * SMALLEST_GATED[x.dtype.char]
    y = limited(y, -limit, limit)
    odds = exp(-y)
    share = reciprocal(odds + 1.0)
    return share * (odds * share * y + 1.0) * x


def softplus(x: TermT) -> TermT:
    """Returns ``log(1 + exp(x))``."""
    return relu(x) + log1p(exp(-abs(x)))


def softplus_grad(x: TermT, y: TermT) -> TermT:
    """Returns the derivative of ``softplus`` where its value is y, in the direction x."""
    return expm1(-y) * -x


def gelu(x: TermT, *, approximate: bool) -> TermT:
    """Returns ``x P(X <= x)`` of a standard normal X, or its approximation by a sigmoid."""
    if not approximate:
        raise NotImplementedError
    return gated(x, exp((x * x * -GELU_CUBIC - GELU_LINEAR) * x) + 1.0)


def gelu_unit_grad(x: TermT, *, approximate: bool) -> TermT:
    """Returns the derivative of ``gelu``."""
    if not approximate:
        raise NotImplementedError
    limit = LARGEST_STEEP[x.dtype.char]
    x = limited(x, -limit, limit)
    square = x * x
    odds = exp((square * -GELU_CUBIC - GELU_LINEAR) * x)
    share = reciprocal(odds + 1.0)
    rise = (square * (3.0 * GELU_CUBIC) + GELU_LINEAR) * x * (odds * share)
    return share * (rise + 1.0)


def logistic_loss(x: TermT, y: TermT) -> TermT:
    """Returns ``log(1 + exp(x)) - x y``."""
    return relu(x) - x * y + log1p(exp(-abs(x)))


SHARED_FORMULAS: dict[str, Callable[..., Any]] = {
    "gelu": gelu,
    "gelu_grad": lambda x, y, *, approximate: gelu_unit_grad(y, approximate=approximate) * x,
    "gelu_unit_grad": gelu_unit_grad,
    "logistic": sigmoid,
    "logistic_density": lambda x: sigmoid(x) * sigmoid(-x),
    "logistic_loss": logistic_loss,
    "one_less_square": lambda x: (1.0 - x) * (x + 1.0),
    "relu": relu,
    "relu_biased": lambda x, y: relu(x + y),
    "relu_grad": relu_grad,
    "sigmoid": sigmoid,
    "sigmoid_biased": lambda x, y: sigmoid(x + y),
    "sigmoid_grad": lambda x, y: (1.0 - y) * y * x,
    "silu": silu,
    "silu_grad": silu_grad,
    "soft_sign": lambda x: x / (abs(x) + 1.0),
    "softplus": softplus,
    "softplus_biased": lambda x, y: softplus(x + y),
    "softplus_grad": softplus_grad,
    "tanh_biased": lambda x, y: tanh(x + y),
    "tanh_grad": lambda x, y: (1.0 - y * y) * x,
}

# -- along rows, of terms with all their axes


class FormulaRows(Generic[TermT]):
    """The rows of a grid.

    Attributes:
        graph: makes terms.
        axes: the axes along the rows.
        length: the number of elements of a row.
    """

    def __init__(self, graph: Any, axes: frozenset[int], length: int) -> None:
        self.graph = graph
        self.axes = axes
        self.length = length

    def sums(self, x: TermT) -> TermT:
        """Returns the sums of rows."""
        return self.graph.fold("add", x, self.axes)  # type: ignore[no-any-return]

    def means(self, x: TermT) -> TermT:
        """Returns the means of rows."""
        return self.sums(x) / self.length

    def normal(self, x: TermT, eps: float, center: bool) -> tuple[TermT, TermT]:
        """Returns normalised rows and their factors."""
        deviations = x - self.means(x) if center else x
        scale = 1.0 / sqrt(self.means(deviations * deviations) + eps)
        return deviations * scale, scale


def _grad_of_softmax(rows: FormulaRows[TermT], g: TermT, p: TermT, *, axis: Any) -> TermT:
    return (g - rows.sums(g * p)) * p


def _variances(
    rows: FormulaRows[TermT], x: TermT, *, axis: Any, keepdims: bool, ddof: float
) -> TermT:
    freedom = rows.length - ddof
    if freedom <= 0:
        raise NotImplementedError
    deviations = x - rows.means(x)
    return rows.sums(deviations * deviations) / freedom


def _grad_of_normal(
    rows: FormulaRows[TermT], g: TermT, x: TermT, *, eps: float, center: bool
) -> TermT:
    y, scale = rows.normal(x, eps, center)
    rest = g - rows.means(g) if center else g
    return (rest - y * rows.means(g * y)) * scale


def _affine_normalize(
    rows: FormulaRows[TermT], x: TermT, weight: TermT, *bias: TermT, eps: float, center: bool
) -> TermT:
    scaled_by_power = rows.normal(x, eps, center)[0] * weight
    return scaled_by_power + bias[0] if bias else scaled_by_power


SHARED_ROWS: dict[str, Callable[..., Any]] = {
    "affine_normalize": _affine_normalize,
    "normalize": lambda rows, x, *, eps, center: rows.normal(x, eps, center)[0],
    "normalize_grad": _grad_of_normal,
    "softmax_grad": _grad_of_softmax,
    "var": _variances,
}
