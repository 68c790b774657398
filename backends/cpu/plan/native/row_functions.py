"""Functions of whole rows as nodes: softmax, normalisations, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels.graph import Expr, ExprGraph, cast, function, select
from ..shared_formulas import SHARED_ROWS, FormulaRows

__all__ = ["ROWS", "GridRows"]

exp, log, maximum = map(function, ("exp", "log", "maximum"))


class GridRows(FormulaRows[Expr]):
    """The rows of a grid of kernels."""

    graph: ExprGraph

    def highest(self, x: Expr) -> Expr:
        """Returns the largest elements of rows; 0 where those are infinite."""
        found = self.graph.fold("maximum", x, self.axes)
        return select(abs(found) < np.inf, found, 0.0)

    def below_highest(self, x: Expr) -> Expr:
        """Returns elements less the largest of their row: 0 for infinity, and -inf beside it."""
        found = self.graph.fold("maximum", x, self.axes)
        highest = select(found.equals(-np.inf), 0.0, found)
        return select(x.equals(highest), 0.0, x - highest)

    def picked(self, x: Expr, labels: Expr) -> Expr:
        """Returns the elements of rows that labels name."""
        (axis,) = self.axes
        there = self.graph.place(axis).equals(cast(labels, np.int32))
        return self.sums(select(there, x, 0.0))


def _softmax(rows: GridRows, x: Expr, *, axis: Any) -> Expr:
    powers = exp(rows.below_highest(x))
    return powers / rows.sums(powers)


def _log_softmax(rows: GridRows, x: Expr, *, axis: Any) -> Expr:
    shifted = rows.below_highest(x)
    return shifted - log(rows.sums(exp(shifted)))


def _cross_entropy(rows: GridRows, x: Expr, labels: Expr) -> Expr:
    highest = rows.highest(x)
    loss = log(rows.sums(exp(x - highest))) + highest - rows.picked(x, labels)
    return maximum(loss, loss.graph.constant(0.0, loss.dtype))


def _cross_entropy_grad(rows: GridRows, x: Expr, loss: Expr, g: Expr, labels: Expr) -> Expr:
    (axis,) = rows.axes
    there = rows.graph.place(axis).equals(cast(labels, np.int32))
    powers = exp(x - (loss + rows.picked(x, labels))) * g
    return powers - select(there, g, 0.0)


ROWS: dict[str, Callable[..., Expr]] = {
    **SHARED_ROWS,
    "cross_entropy": _cross_entropy,
    "cross_entropy_grad": _cross_entropy_grad,
    "log_softmax": _log_softmax,
    "softmax": _softmax,
}
