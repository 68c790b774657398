"""Nodes of a graph in order, and the effort of computing them."""

from __future__ import annotations

from collections.abc import Container, Iterable

from .graph import Expr, GridAxes
from .operations import KERNEL_FUNCTIONS

__all__ = [
    "LEAF_OPERATIONS",
    "MOST_EFFORT_AGAIN",
    "effort",
    "gone",
    "missing",
    "needed_nodes",
    "operation_effort",
    "unspread",
]

# The effort of operations, in that of an addition; what takes at most so much is computed again.
FUNCTION_EFFORT, SLOW_EFFORT, MOST_EFFORT_AGAIN = 20, 5, 8
LEAF_OPERATIONS = frozenset({"constant", "fold", "input", "place"})
SLOW = frozenset({"divide", "gather", "sqrt"})


def gone(fold: Expr) -> GridAxes:
    """Returns the axes that a fold goes over."""
    return fold.operands[0].axes - fold.axes


def unspread(node: Expr) -> Expr:
    """Returns the node that another is the same as along more axes."""
    while node.operation == "spread":
        (node,) = node.operands
    return node


def missing(axes: Iterable[int]) -> list[int]:
    """Returns the axes before the last one of some that are not among them."""
    there = set(axes)
    return [a for a in range(max(there, default=0)) if a not in there]


def needed_nodes(results: Iterable[Expr], known: Container[Expr] = ()) -> list[Expr]:
    """Returns all nodes that results need, operands first, themselves too; known ones need none."""
    seen: set[Expr] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node not in known:
                stack += node.operands
    return sorted(seen, key=lambda node: node.number)


def operation_effort(node: Expr) -> int:
    """Returns the effort of an operation alone."""
    if node.operation in KERNEL_FUNCTIONS or node.operation == "library":
        return FUNCTION_EFFORT
    return SLOW_EFFORT if node.operation in SLOW else 1


def effort(node: Expr) -> int:
    """Returns the effort of computing a node from what lies in memory, and from folds."""
    total, stack = 0, [node]
    while stack and total <= MOST_EFFORT_AGAIN:
        x = stack.pop()
        if x.operation in ("constant", "fold", "place", "spread"):
            stack += () if x.operation != "spread" else x.operands
            continue
        total += operation_effort(x)
        stack += x.operands
    return total
