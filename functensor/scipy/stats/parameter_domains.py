"""The domains of distributions' parameters: positive numbers, probabilities, counts."""

from __future__ import annotations

from math import inf

import numpy as np

from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array

__all__ = ["DOMAINS"]


class ParameterDomain:
    """The domain of a parameter: real numbers between bounds.

    Args:
        low, high: the bounds.
        ends: whether each bound belongs to it, "[" and "]", or not, "(" and ")".
        whole: whether it is a whole number.
        word: its name in documents.
    """

    def __init__(self, low: float, high: float, ends: str, word: str, whole: bool = False) -> None:
        self.low = low
        self.high = high
        self.closed = ends[0] == "[", ends[1] == "]"
        self.word = word
        self.whole = whole
        # This number stands in for a parameter that is out of range.
        self.replacement = 0.5 if high == 1 else 1.0

    def admits(self, p: float) -> bool:
        """Tells whether a plain number is such a parameter."""
        above = self.low <= p if self.closed[0] else self.low < p
        below = p <= self.high if self.closed[1] else p < self.high
        return above and below and (not self.whole or p == np.floor(p))

    def tests(self, p: Array) -> Array:
        """Returns the places where an array has such parameters."""
        above = (ops.less_equal if self.closed[0] else ops.less)(self.low, p)
        below = (ops.less_equal if self.closed[1] else ops.less)(p, self.high)
        fits = ops.logical_and(above, below)
        return ops.logical_and(fits, ops.equal(p, ops.floor(p))) if self.whole else fits


DOMAINS = {
    "positive": ParameterDomain(0, inf, "()", "positive"),
    "endless": ParameterDomain(0, inf, "(]", "positive, also infinite"),
    "nonnegative": ParameterDomain(0, inf, "[)", "not negative"),
    "probability": ParameterDomain(0, 1, "[]", "a probability"),
    "chance": ParameterDomain(0, 1, "(]", "a probability above 0"),
    "count": ParameterDomain(0, inf, "[)", "a whole number", whole=True),
    "real": ParameterDomain(-inf, inf, "[]", "a number"),
}
