"""The whole numbers that index arrays can have: what lies within an axis needs no test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..primitives.core.buffers import to_buffer
from ..programs.program import Equation, Operand, Variable, type_of

__all__ = ["IndexRange", "IndexRanges"]

# The smallest and the largest number.
IndexRange = tuple[int, int]

# Primitives whose elements are elements of their operands.
MOVES = frozenset(
    {
        "broadcast_to", "concatenate", "flip", "index", "reshape", "roll", "sort", "stack",
        "stop_gradient", "transpose",
    }
)  # fmt: skip


class IndexRanges:
    """The ranges of whole numbers of a program, each found when it is asked for."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self._makers = {v: e for e in equations for v in e.outputs}
        self._known: dict[Variable, IndexRange] = {}

    def of(self, x: Operand) -> IndexRange:
        """Returns the range of an operand of whole numbers or booleans."""
        if type(x) is not Variable:
            return range_of_constant(x)
        stack = [x]
        while stack:
            last = stack[-1]
            maker = self._makers.get(last)
            waiting = [] if maker is None else self._waiting(maker)
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if last not in self._known:
                self._known[last] = self._found(last, maker)
        return self._known[x]

    def _waiting(self, maker: Equation) -> list[Variable]:
        """Returns the operands of an equation whose ranges are wanted first."""
        if maker.primitive.name not in RULES and maker.primitive.name not in MOVES:
            return []
        return [
            x
            for x in maker.operands
            if type(x) is Variable and x not in self._known and x.type.dtype.kind in "iub"
        ]

    def _found(self, x: Variable, maker: Equation | None) -> IndexRange:
        every = range_of_dtype(x.type.dtype)
        if maker is None or len(maker.outputs) > 1 or x.type.dtype.kind == "b":
            return every
        name = maker.primitive.name
        operands = maker.operands[:1] if name == "index" else maker.operands
        if name in ("argmax", "argmin"):
            length = type_of(operands[0]).size
            return 0, max(length - 1, 0)
        if name in ("argpartition", "argsort"):
            return 0, max(type_of(operands[0]).shape[maker.params["axis"]] - 1, 0)
        if any(type_of(v).dtype.kind not in "iub" for v in operands):
            return every
        ranges = [self.of(v) for v in operands]
        if name in MOVES:
            low, high = range_of_all(ranges)
        elif name in RULES:
            low, high = RULES[name](*ranges)
        else:
            return every
        # Beyond the dtype numbers wrap around.
        return (low, high) if every[0] <= low and high <= every[1] else every


def range_of_dtype(dtype: np.dtype[Any]) -> IndexRange:
    """Returns the range of all numbers of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def range_of_constant(x: Any) -> IndexRange:
    """Returns the range of a constant of whole numbers or booleans."""
    array = np.asarray(to_buffer(x))
    if not array.size:
        return 0, 0
    return int(array.min()), int(array.max())


def range_of_all(ranges: Sequence[IndexRange]) -> IndexRange:
    """Returns the smallest range that has some others."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _multiplying(x: IndexRange, y: IndexRange) -> IndexRange:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _dividing(x: IndexRange, y: IndexRange) -> IndexRange:
    # Of zero the remainder is zero; that of a negative divisor is negative.
    return min(y[0] + 1, 0), max(y[1] - 1, 0)


def _both_bits(x: IndexRange, y: IndexRange) -> IndexRange:
    positive = [high for low, high in (x, y) if low >= 0]
    return (0, min(positive)) if positive else (min(x[0], y[0]) * 2, max(x[1], y[1]))


def _clipped(x: IndexRange, low: IndexRange, high: IndexRange) -> IndexRange:
    least, most = max(x[0], low[0]), max(x[1], low[1])
    return min(least, high[0]), min(most, high[1])


RULES: dict[str, Callable[..., IndexRange]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "astype": lambda x: x,
    "bitwise_and": _both_bits,
    "clip": _clipped,
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "multiply": _multiplying,
    "negative": lambda x: (-x[1], -x[0]),
    "remainder": _dividing,
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "where": lambda condition, x, y: range_of_all([x, y]),
}
