"""Cotangents of inputs that another thread computes, while the walk of reverse mode goes on.

No rule waits for them. The products that make the gradients of weights are half of the work of a
backward pass, so that the other half can go on beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..backends.side_work import Errand, sent
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import RAW, slot
from .fitted_cotangents import fitted_cotangent

if TYPE_CHECKING:
    from .reverse import Node

__all__ = ["Late", "LateCotangents", "call_back", "late_cotangent", "take_in"]

# The primitives that multiply matrices, with an axis of their cotangents that weights have too.
SHARED_AXES = {"matmul": -1, "einsum": -1, "conv": 1}
# Fewer multiplications take about as long as it takes to hand them over.
FEWEST_MULTIPLICATIONS = 1 << 23
# The C library has tens of megabytes of heap for a thread. What is larger it gives back to the
# system, and new pages cost more than sharing saves.
MOST_ELEMENTS = 1 << 22


class Late:
    """A cotangent that is being computed, and the node whose rule computes it."""

    __slots__ = ("errand", "node")

    def __init__(self, node: Node, errand: Errand) -> None:
        self.node = node
        self.errand = errand


# The cotangents that came to inputs from the first late one on, in their order.
LateCotangents = dict[Any, list[Any]]


def late_cotangent(
    node: Node, rule: Callable[..., Any], g: Any, saved: Any, operand: Node
) -> Late | None:
    """Returns what computes the cotangent of an operand later; None where it is to be computed now.

    Args:
        node: the operation's node.
        rule: its rule for the operand.
        g: the cotangent of its output, a buffer of NumPy.
        saved: what it saved, which the walk may take from it meanwhile.
        operand: the node of an input.
    """
    axis = SHARED_AXES.get(node.primitive.name)
    # What stands for a primitive shows hooks what its rules take and give.
    if axis is None or not isinstance(node.primitive, Primitive) or g.ndim < 2 or not g.size:
        return None
    size = prod(operand.shape)
    if size * (g.size // g.shape[axis]) < FEWEST_MULTIPLICATIONS or size > MOST_ELEMENTS:
        return None
    primitive, params, running = node.primitive, node.params, slot.running

    def work() -> Any:
        before = slot.trace, slot.running
        slot.trace, slot.running = RAW, running
        try:
            c = rule(g, saved, params)
            fits = c.shape == operand.shape and c.dtype is operand.dtype
            return c if fits else fitted_cotangent(c, operand, primitive)
        finally:
            slot.trace, slot.running = before

    errand = sent(work)
    return None if errand is None else Late(node, errand)


def take_in(late: LateCotangents, grads: dict[Any, Any], turn: list[Any]) -> None:
    """Adds late cotangents to those of inputs; waits for them.

    Args:
        late: loses them.
        grads: gets them.
        turn: gets the node whose rule computes, for messages.
    """
    for operand, parts in late.items():
        total: Any = grads.get(operand)
        for part in parts:
            c = part
            if type(part) is Late:
                turn[0] = part.node
                c = part.errand.result()
            total = c if total is None else total + c
        grads[operand] = total
    late.clear()


def call_back(late: LateCotangents) -> None:
    """Gives up cotangents that nobody wants any more."""
    parts: Sequence[Any]
    for parts in late.values():
        for part in parts:
            if type(part) is Late:
                part.errand.call_back()
