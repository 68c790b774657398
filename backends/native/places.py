"""The places that whole numbers name along an axis, in LLVM's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.kernel import Operand, PlaceWithin
from .instructions import Lines, shown_type

__all__ = ["place_within"]

PLACE_DTYPE = np.dtype(np.int64)


def place_within(
    lines: Lines, statement: PlaceWithin, shown: Callable[[Operand], str], width: int
) -> str:
    """Adds a place along an axis: negative numbers count from the end, and all are in bounds.

    Args:
        lines: where it is written.
        statement: the statement.
        shown: returns the name of an operand.
        width: the number of lanes.
    """
    kind, mask = lines.type(PLACE_DTYPE, width), shown_type("i1", width)

    def splat(number: int) -> str:
        return str(number) if width == 1 else f"splat (i64 {number})"

    def limited(comparison: str, x: str, limit: int) -> str:
        beyond = lines.let(f"icmp {comparison} {kind} {x}, {splat(limit)}")
        return lines.let(f"select {mask} {beyond}, {kind} {splat(limit)}, {kind} {x}")

    operand: Any = statement.operand
    place = lines.cast(shown(operand), operand.dtype, PLACE_DTYPE, width)
    negative = lines.let(f"icmp slt {kind} {place}, {splat(0)}")
    wrapped = lines.let(f"add {kind} {place}, {splat(statement.length)}")
    place = lines.let(f"select {mask} {negative}, {kind} {wrapped}, {kind} {place}")
    return limited("sgt", limited("slt", place, 0), statement.length - 1)
