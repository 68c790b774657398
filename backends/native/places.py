"""Places along an axis that whole numbers name, and loads at such places, in LLVM's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kernels.kernel import Let, LoopAxis, LoopValue, Operand, PlaceOf, PlaceWithin
from .instructions import Lines, memory_type, shown_type

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["load_of_run", "place_within", "run_of_lanes"]

# In shorter runs the ends of axes are too many.
FEWEST_STEPS_OF_RUN = 4
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


class RunOfLanes(NamedTuple):
    """Places of lanes that are neighbours, but where an axis ends.

    Attributes:
        offset: what the number of a place is more than that of the loop's.
        length: the length of the axis.
    """

    offset: int
    length: int


def run_of_lanes(
    pick: tuple[LoopValue, int],
    axis: LoopAxis,
    makers: Mapping[LoopValue, Let | PlaceOf | PlaceWithin],
    width: int,
) -> RunOfLanes | None:
    """Returns the run of a place and its stride; None where lanes are seldom neighbours.

    Args:
        pick: the place and the stride.
        axis: the axis of the loop with lanes.
        makers: what computes values.
        width: the number of lanes.
    """
    value, stride = pick
    within = makers.get(value)
    if stride != 1 or not isinstance(within, PlaceWithin):
        return None
    if within.length < FEWEST_STEPS_OF_RUN * width:
        return None
    number, offset = within.operand, 0
    made = makers.get(number) if isinstance(number, LoopValue) else None
    if isinstance(made, Let) and made.operation in ("add", "subtract"):
        number, by = made.operands
        if not isinstance(number, LoopValue) or isinstance(by, LoopValue):
            return None
        offset = int(by.item()) if made.operation == "add" else -int(by.item())
        made = makers.get(number)
    if not isinstance(made, PlaceOf) or made.axis is not axis:
        return None
    return RunOfLanes(offset, within.length)


def load_of_run(
    gathered: Callable[[], str],
    lines: Lines,
    address: str,
    place: str,
    run: RunOfLanes,
    dtype: DType,
    width: int,
) -> str:
    """Adds one load of neighbours, or a gather where lanes go beyond the end of the axis.

    Args:
        gathered: adds the gather, and returns its result.
        lines: where it is written.
        address: the address of the element at the beginning of the axis.
        place: the place of the first lane in the loop.
        run: the run.
        dtype: the dtype of the elements.
        width: the number of lanes.
    """
    kind = shown_type(memory_type(dtype), width)
    first = lines.let(f"add i64 {place}, {run.offset}")
    negative = lines.let(f"icmp slt i64 {first}, 0")
    wrapped = lines.let(f"add i64 {first}, {run.length}")
    first = lines.let(f"select i1 {negative}, i64 {wrapped}, i64 {first}")
    # Seen as unsigned, places before the axis are too large.
    fine = lines.let(f"icmp ule i64 {first}, {run.length - width}")
    near, far, behind = map(lines.label, ("near", "far", "behind"))
    lines.add(f"br i1 {fine}, label %{near}, label %{far}")
    lines.begin(near)
    there = lines.let(f"getelementptr {memory_type(dtype)}, ptr {address}, i64 {first}")
    together = lines.let(f"load {kind}, ptr {there}, align {dtype.itemsize}")
    lines.add(f"br label %{behind}")
    lines.begin(far)
    found = gathered()
    end = lines.block
    lines.add(f"br label %{behind}")
    lines.begin(behind)
    return lines.let(f"phi {kind} [ {together}, %{near} ], [ {found}, %{end} ]")
