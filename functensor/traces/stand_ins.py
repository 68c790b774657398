"""Stand-ins on the nodes of reverse mode, and the search for the nodes of an operation.

A node's primitive may be replaced by one that stands for it. The walk back then comes to it first:
checks, hooks and the gradients of tensors look at what goes in and out of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from ..primitives.core.array import Tracer
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.trace import RAW, Trace
from .reverse import PROJECTION, Node, ReverseTrace

__all__ = ["StandIn", "is_recorded_above", "nodes_since", "stand_ins_of", "waits"]


class StandIn(PrimitiveLike):
    """Stands as the primitive of a node, and sees the operands and results of its rules.

    ``primitive`` may itself be another one that stands there; ``op`` made the node.
    """

    def __init__(self, primitive: Any, op: Any = None) -> None:
        self.primitive = primitive
        self.op = op
        self.name = primitive.name
        self.broadcasts = primitive.broadcasts

    @property
    def vjps(self) -> Iterator[Any] | None:
        """The rules of the operands one by one: an operation may take any number of them."""
        rules = self.primitive.vjps
        if rules is None:
            return None
        return (rule and partial(self.called, rule, i) for i, rule in enumerate(rules))

    def called(
        self, rule: Callable[..., Any], place: int, g: Any, saved: Any, params: dict[str, Any]
    ) -> Any:
        """Returns the cotangent of one operand."""
        out = self.ran(rule, g, saved, params)
        self.check(out, place, g, saved)
        return out

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> Any:
        """Returns the cotangents of all operands."""
        outs = self.ran(self.primitive.pullback, g, saved, params)
        for place, out in enumerate(outs):
            self.check(out, place, g, saved)
        return outs

    def ran(self, rule: Callable[..., Any], *args: Any) -> Any:
        """Returns the result of a rule."""
        self.before()
        return rule(*args)

    def before(self) -> None:
        """Runs before a rule does."""

    def check(self, out: Any, place: int, g: Any, saved: Any) -> None:
        """Checks the cotangent of an operand."""


def stand_ins_of(primitive: Any) -> Iterator[StandIn]:
    """Yields what stands as a node's primitive, the last one first."""
    while primitive is not None:
        if isinstance(primitive, StandIn):
            yield primitive
        primitive = getattr(primitive, "primitive", None)


def nodes_since(values: Iterable[Any], number: int) -> Iterator[tuple[Trace, Node]]:
    """Yields the nodes that values and their tangents depend on, and the trace of each.

    Args:
        values: results of an operation, of any level; all levels below are looked at.
        number: nodes up to this number, made before the operation, are left out. So are inputs,
            and the parts of calls with several outputs.
    """
    seen: set[Node] = set()
    waiting = [x for x in values if isinstance(x, Tracer)]
    while waiting:
        x = waiting.pop()
        trace = x.owner
        nodes = [getattr(x, "node", None)]
        while nodes:
            node = nodes.pop()
            if not isinstance(node, Node) or node in seen or node.number <= number:
                continue
            seen.add(node)
            nodes += node.parents
            if node.primitive is not None and node.primitive is not PROJECTION:
                yield trace, node
        if not (trace.standing or trace.staging or waits(x, "value")):
            parts = [getattr(x, "value", None), getattr(x, "tangent", None)]
            waiting += [part for part in parts if isinstance(part, Tracer)]


def waits(x: Any, name: str) -> bool:
    """Says whether an attribute is computed when it is asked for, so that nothing is kept yet.

    Nobody but a rule or Python may ask: a checkpointed function that runs again computes in the
    order of the questions.
    """
    return isinstance(getattr(type(x), name, None), property)


def is_recorded_above(trace: Trace | None) -> bool:
    """Says whether what is done under a trace leaves nodes: at its level or one further out."""
    while trace is not None and trace is not RAW:
        if isinstance(trace, ReverseTrace):
            return True
        trace = trace.parent
    return False
