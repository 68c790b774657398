"""Functions of whole rows as nodes: softmax, normalisations, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels.graph import Expr, ExprGraph, GridAxes, cast, function, select
from .not_native import NotNative

__all__ = ["ROWS", "GridRows"]

exp, log, maximum, sqrt = map(function, ("exp", "log", "maximum", "sqrt"))


class GridRows:
    """The rows of a grid.

    Attributes:
        graph: makes nodes.
        axes: the axes along the rows.
        length: the number of elements of a row.
    """

    def __init__(self, graph: ExprGraph, axes: GridAxes, length: int) -> None:
        self.graph = graph
        self.axes = axes
        self.length = length

    def sums(self, x: Expr) -> Expr:
        """Returns the sums of rows."""
        return self.graph.fold("add", x, self.axes)

    def means(self, x: Expr) -> Expr:
        """Returns the means of rows."""
        return self.sums(x) / self.length

    def highest(self, x: Expr) -> Expr:
        """Returns the largest elements of rows; 0 where those are infinite."""
        found = self.graph.fold("maximum", x, self.axes)
        return select(abs(found) < np.inf, found, 0.0)

    def below_highest(self, x: Expr) -> Expr:
        """Returns elements less the largest of their row: 0 for infinity, and -inf beside it."""
        found = self.graph.fold("maximum", x, self.axes)
        highest = select(found.equals(-np.inf), 0.0, found)
        return select(x.equals(highest), 0.0, x - highest)

    def normal(self, x: Expr, eps: float, center: bool) -> tuple[Expr, Expr]:
        """Returns normalised rows and their factors."""
        deviations = x - self.means(x) if center else x
        scale = 1.0 / sqrt(self.means(deviations * deviations) + eps)
        return deviations * scale, scale

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


def _rows_softmax_grad(rows: GridRows, g: Expr, p: Expr, *, axis: Any) -> Expr:
    return (g - rows.sums(g * p)) * p


def _variances(rows: GridRows, x: Expr, *, axis: Any, keepdims: bool, ddof: float) -> Expr:
    freedom = rows.length - ddof
    if freedom <= 0 or 0 in rows.axes:
        raise NotNative("var")
    deviations = x - rows.means(x)
    return rows.sums(deviations * deviations) / freedom


def _rows_normalize_grad(rows: GridRows, g: Expr, x: Expr, *, eps: float, center: bool) -> Expr:
    y, scale = rows.normal(x, eps, center)
    rest = g - rows.means(g) if center else g
    return (rest - y * rows.means(g * y)) * scale


def _affine_normalize(
    rows: GridRows, x: Expr, weight: Expr, *bias: Expr, eps: float, center: bool
) -> Expr:
    scaled_by_power = rows.normal(x, eps, center)[0] * weight
    return scaled_by_power + bias[0] if bias else scaled_by_power


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
    "affine_normalize": _affine_normalize,
    "cross_entropy": _cross_entropy,
    "cross_entropy_grad": _cross_entropy_grad,
    "log_softmax": _log_softmax,
    "normalize": lambda rows, x, *, eps, center: rows.normal(x, eps, center)[0],
    "normalize_grad": _rows_normalize_grad,
    "softmax": _softmax,
    "softmax_grad": _rows_softmax_grad,
    "var": _variances,
}
