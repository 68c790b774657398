"""The order of axes in memory, as far as a program tells.

Convolutions leave channels last in memory, wherever they stand among the axes. Elementwise work
keeps that order, so that neither it nor the next convolution has to move elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....region_functions import CHANNEL_ORDER_KEEPING, LAST_AXIS_FUNCTIONS, WINDOWED
from ..codegen.operands import is_variable

if TYPE_CHECKING:
    from ..annotations import Operand, ProgramLike, RegionLike, VariableLike

__all__ = ["memory_orders", "region_order"]

# Primitives that return memory with the channels last.
CHANNELS_LAST = frozenset({"conv", "conv_input_grad"})

AxisOrder = tuple[int, ...]


def memory_orders(program: ProgramLike) -> dict[VariableLike, AxisOrder]:
    """Returns the order of axes, outermost first, for all arrays in which it is not the usual."""
    # Variables of an old pickle have no order.
    known = {x: getattr(x, "order", None) for x in program.inputs}
    orders: dict[VariableLike, AxisOrder] = {x: order for x, order in known.items() if order}
    for equation in program.equations:
        primitive = equation.primitive
        if primitive.fused:
            order = region_order(primitive, equation.operands, orders)
            for out, inner in zip(equation.outputs, primitive.program.outputs):
                place = primitive.places[inner]
                if order is not None and None not in place and len(place) == len(order):
                    orders[out] = tuple(place.index(axis) for axis in order)
            continue
        name = primitive.name
        out = equation.outputs[0]
        rank = len(out.type.shape)
        found: AxisOrder | None = None
        if name in CHANNELS_LAST:
            found = (0, *range(2, rank), 1)
        elif name in CHANNEL_ORDER_KEEPING or primitive.family == "elementwise":
            alike = (
                orders[x] for x in equation.operands
                if is_variable(x) and x in orders and len(x.type.shape) == rank
            )
            found = next(alike, None)
        if found is not None and found != tuple(range(rank)):
            orders[out] = found
    return orders


def region_order(
    region: RegionLike, given: Sequence[Operand], orders: dict[VariableLike, AxisOrder]
) -> AxisOrder | None:
    """Returns the order of a grid's axes in the loop of its region; None for the usual one."""
    if any(e.primitive.name in LAST_AXIS_FUNCTIONS for e in region.program.equations):
        return None
    for variable, x in zip(region.program.inputs, given):
        place = region.places[variable]
        if is_variable(x) and x in orders and len(place) == len(region.grid):
            order = tuple(axis for a in orders[x] if (axis := place[a]) is not None)
            # Blocks are cut along the first axis, which reductions within a region keep.
            if len(order) == len(place) and order[0] == 0:
                return order
    return window_order(region, given, orders)


def window_order(
    region: RegionLike, given: Sequence[Operand], orders: dict[VariableLike, AxisOrder]
) -> AxisOrder | None:
    """Returns the order of a grid that that of arrays gives whose windows a region takes."""
    operands = dict(zip(region.program.inputs, given))
    for equation in region.program.equations:
        if equation.primitive.name not in WINDOWED:
            continue
        place = region.places[equation.outputs[0]]
        for x in map(operands.get, filter(is_variable, equation.operands)):
            if is_variable(x) and x in orders and len(place) == len(region.grid):
                order = tuple(axis for a in orders[x] if (axis := place[a]) is not None)
                if len(order) == len(place) and order[0] == 0:
                    return order
    return None
