"""Checkpointed functions of tensors: their nodes are dropped, and recorded again on the way back.

Tensors record outside of all transformations, also those that a function closes over. So the
function records as always. One node then replaces all that it recorded. The parents of that node
are the earlier nodes that the function met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..backends.restoring import setting
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import owned
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import slot, under
from ..random.key_reuse import ledger
from ..tensors.grad_mode import enable_grad, mode
from ..tensors.recorded_backward import FunctionPull, chosen_gradients
from ..tensors.tape import TAPE
from ..traces.reverse import (
    NO_PARAMS,
    PROJECTION,
    Node,
    backward,
    joint_node,
    next_number,
    projection_node,
)
from .call import CheckpointCall
from .capture import ReplayTrace
from .closure_snapshot import Frozen

__all__ = ["call_of_tensors", "checkpointed_tensors"]


class Graph:
    """The nodes of a run that its outputs depend on.

    Attributes:
        nodes: the run's nodes in order; ``start`` is a number between those from before and these.
        outside: the nodes from before that they depend on.
    """

    def __init__(self, roots: Sequence[Node], start: int) -> None:
        found = dict.fromkeys(roots)
        waiting = list(found)
        outside: dict[Node, None] = {}
        while waiting:
            for parent in waiting.pop().parents:
                if parent is None or parent in found:
                    continue
                if parent.number < start:
                    outside[parent] = None
                else:
                    found[parent] = None
                    waiting.append(parent)
        self.nodes = sorted(found, key=lambda node: node.number)
        self.outside = sorted(outside, key=lambda node: node.number)

    def log(self) -> list[Any]:
        """Returns the operations that a second run is compared with."""
        log = []
        for node in self.nodes:
            if node.primitive is None or node.primitive is PROJECTION:
                continue
            # A call's node has the kinds of all its outputs.
            several = any(isinstance(kind, ShapeDtype) for kind in node.shape)
            kinds = node.shape if several else [node]
            log.append((node.primitive.name, *((kind.shape, kind.dtype) for kind in kinds)))
        return log

    def cut(self) -> dict[Node, Node]:
        """Ends the graph at inputs of its own; returns these by the nodes that they stand for."""
        ends = {}
        for node in self.outside:
            end = ends[node] = Node()
            end.primitive, end.parents, end.saved, end.params = None, (), None, NO_PARAMS
            end.number, end.shape, end.dtype = node.number, node.shape, node.dtype
        for node in self.nodes:
            if not ends.keys().isdisjoint(node.parents):
                node.parents = tuple(ends.get(parent, parent) for parent in node.parents)
        return ends


class SecondRun(FunctionPull):
    """The way back through a checkpointed function, which runs again.

    Args:
        run_again: runs it, and returns the nodes of its results and a number before all of its own.
        outside: the earlier nodes that it depends on.
    """

    def __init__(
        self, run_again: Callable[[], tuple[list[Node], int]], outside: Sequence[Node]
    ) -> None:
        self.run_again = run_again
        self.outside = outside

    def __call__(self, gs: Sequence[Any]) -> Values:
        nodes, start = self.run_again()
        ends = Graph(nodes, start).cut()
        roots = [(node, g) for node, g in zip(nodes, gs, strict=True) if g is not None]
        grads = backward(roots, consume=True)
        return [grads.get(ends[node]) if node in ends else None for node in self.outside]

    def recorded(self, gs: Sequence[Any], outputs: dict[int, Node]) -> Values:
        nodes, _ = self.run_again()
        roots = [(node, g) for node, g in zip(nodes, gs, strict=True) if g is not None]
        found = chosen_gradients(roots, self.outside, record=True, through=False)
        return [found.get(node) for node in self.outside]


def checkpointed_tensors(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a function and keeps none of the nodes that it records."""
    if not mode.enabled:
        return fun(*args, **kwargs)
    leaves, treedef = tree.flatten((args, kwargs))
    before = Frozen(fun, [owned(x) for x in leaves])

    def again(tensors: dict[int, Any]) -> Any:
        called, filled = before.again()
        for i, x in tensors.items():
            filled[i] = x
        args, kwargs = treedef.unflatten(filled)
        return called(*args, **kwargs)

    return run_twice(fun, leaves, lambda: before.first(fun)(*args, **kwargs), again)


def call_of_tensors(call: CheckpointCall, operands: Values) -> Values:
    """Does a call outside of all transformations, and keeps none of the nodes that it records."""
    if not mode.enabled:
        return call.evaluate(operands)

    def again(tensors: dict[int, Any]) -> Values:
        return call.evaluate([tensors.get(i, x) for i, x in enumerate(operands)])

    out: Values = run_twice(call.fun, operands, lambda: call.evaluate(operands), again)
    return out


def run_twice(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    first: Callable[[], Any],
    again: Callable[[dict[int, Any]], Any],
) -> Any:
    """Runs a function for the first time, and has the way back run it again.

    Args:
        fun: the function, for messages.
        leaves: the leaves of its arguments.
        first, again: run it; ``again`` takes the tensors among the leaves, by their numbers.

    Returns:
        What it returned. One node stands for all that it recorded.
    """
    # Tensors that change in place later get other buffers, so these stay as they are.
    given = {i: (x._data, x.node) for i, x in enumerate(leaves) if isinstance(x, TAPE.tracer)}
    start = next_number()
    out = first()
    out_leaves, out_tree = tree.flatten(out)
    places = _recorded_tensors(out_leaves, start)
    if not places:
        return out
    graph = Graph([out_leaves[i].node for i in places], start)
    log, outside = graph.log(), graph.outside

    def run_again() -> tuple[list[Node], int]:
        tensors = {i: TAPE.wrap(*kept) for i, kept in given.items()}
        start = next_number()
        with under(None), enable_grad(), ledger.replaying(), setting(slot, replaying=True):
            outs, tree_again = tree.flatten(again(tensors))
        trace = ReplayTrace(TAPE, "checkpoint", fun, log, TAPE)
        found = _recorded_tensors(outs, start)
        for step in Graph([outs[i].node for i in found], start).log():
            trace.expect(step)
        trace.finish()
        if tree_again != out_tree or found != places:
            raise trace.different(f"the result {out_tree}", str(tree_again))
        return [outs[i].node for i in found], start

    name = getattr(fun, "__name__", "checkpoint")
    pull = SecondRun(run_again, outside)
    joint = joint_node(name, tuple(outside), pull, [out_leaves[i]._data for i in places])
    for number, i in enumerate(places):
        x = out_leaves[i]
        x.node = projection_node(joint, number, x._data)
    return out


def _recorded_tensors(leaves: Sequence[Any], start: int) -> list[int]:
    """Returns the numbers of the tensors with nodes of the run, each tensor once."""
    seen: set[int] = set()
    found = []
    for i, x in enumerate(leaves):
        if isinstance(x, TAPE.tracer) and x.node is not None and x.node.number > start:
            if id(x) not in seen:
                found.append(i)
            seen.add(id(x))
    return found
