"""Reverse mode: the nodes that a run leaves behind, and the walk back over them.

A tracer points to a node; a node holds the primitive, the parents, what the rules need, and a
number that grows with every node. Backward walks down by falling numbers, so that a node's turn
comes when its cotangent is complete. Nothing recurses, so a chain of a million operations works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.config import config
from ..backends.restoring import silently
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import (
    ARRAY_TYPES,
    BUFFER_TYPES,
    DEVICE_TYPES,
    WEAK_TYPES,
    all_apart_from,
    apart_from,
    computing_on,
    wrap,
)
from ..primitives.core.dispatch import ADDERS
from ..primitives.core.errors import OPERAND_ERRORS, BackwardError, failure, note_rule
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call, PrimitiveLike
from ..primitives.core.shape_dtype import INEXACT, shape_dtype
from ..primitives.core.trace import RAW, Trace, new, slot
from ..primitives.shape.index import Scatter, scatter_sum
from .consumed import Consumed
from .fitted_cotangents import fitted_cotangent
from .node_order import nodes_behind

if TYPE_CHECKING:
    from ..backends.annotations import DType

__all__ = [
    "WALKS", "Node", "ReverseTrace", "ReverseTracer", "backward", "is_inexact", "maker_of",
    "spent_error", "walk",
]

ndarray = np.ndarray
next_number = count().__next__
NO_PARAMS: dict[str, Any] = {}
ONE_NUMBER = np.float64(0)


class Node:
    """One operation of a run that reverse mode can go back over.

    Attributes:
        primitive: the primitive; None for an input.
        parents: for every operand its node, or None where it does not depend on an input.
        saved: what the rules need: the output and operands, None for the rest. Of an input, the
            function that names it in messages, or None.
        params: the primitive's static parameters.
        number: grows from node to node; sorts them topologically.
        shape, dtype: the output's, which its cotangent has too.
    """

    __slots__ = ("dtype", "number", "params", "parents", "primitive", "saved", "shape")

    primitive: Any
    parents: tuple[Any, ...]
    saved: Any
    params: dict[str, Any]
    number: int
    shape: Any
    dtype: DType


class ReverseTracer(Tracer):
    """A value of reverse mode: the value at the parent's level, and its node."""

    __slots__ = ("node", "owner", "value")

    node: Node

    def origin(self) -> str:
        return "an input" if self.node.primitive is None else f"made by {maker_of(self.node)}"

    def dependence(self) -> str:
        inputs = [node for node in nodes_behind([self.node]) if node.primitive is None]
        names = [node.saved() for node in inputs if node.saved is not None]
        return f", which depends on {' and '.join(names)}" if names else ""


class ReverseTrace(Trace):
    """Runs a function and leaves behind the nodes of all that depends on its inputs."""

    __slots__ = ()

    in_parts = True
    differentiates = True
    # The class of the tracers, which the facade replaces by its own.
    tracer = ReverseTracer
    # The types of operands that nodes keep as they are.
    direct: Collection[type] = BUFFER_TYPES

    def input(self, value: Value, name: Callable[[], str] | None = None) -> ReverseTracer:
        """Returns the tracer of an input, whose value is one of the parent's level.

        ``name`` gives what messages call it.
        """
        return self.wrap(value, make_node(None, (), name, NO_PARAMS, value))

    def wrap(self, value: Value, node: Node) -> ReverseTracer:
        """Returns the tracer of a value and its node."""
        out = new(self.tracer)
        out.owner = self
        out.value = value
        out.node = node
        return out

    def process1(self, primitive: Primitive, x: Value) -> Any:
        if type(x) is not self.tracer or x.owner is not self:
            return apart_from(self.parent.process1(primitive, self.lift(x)), plain_arrays((x,)))
        value = x.value
        ans = self.parent.process1(primitive, value)
        keep = primitive.keepers[1]
        if keep is None:
            return wrap(ans)
        # `make_node` and `wrap` are written out here and in `process2`. Calling them costs 3 to 5 %
        # of the time of a chain of sines, measured for each of the two.
        node = new(Node)
        node.primitive = primitive
        node.parents = (x.node,)
        node.saved = keep(ans, (value,))
        node.params = NO_PARAMS
        node.number = next_number()
        try:
            node.shape = ans.shape
            node.dtype = ans.dtype
        except AttributeError:
            node.shape, node.dtype = (), np.dtype(type(ans))
        out = new(self.tracer)
        out.owner = self
        out.value = ans
        out.node = node
        return out

    def process2(self, primitive: Primitive, x: Value, y: Value) -> Any:
        parents: tuple[Node | None, Node | None]
        tracer = self.tracer
        if type(x) is tracer and x.owner is self:
            a = x.value
            if type(y) is tracer and y.owner is self:
                b = y.value
                parents = (x.node, y.node)
                mask = 3
            else:
                b = y if type(y) in self.direct else self.lift(y)
                parents = (x.node, None)
                mask = 1
        elif type(y) is tracer and y.owner is self:
            a = x if type(x) in self.direct else self.lift(x)
            b = y.value
            parents = (None, y.node)
            mask = 2
        else:
            return wrap(self.parent.process2(primitive, self.lift(x), self.lift(y)))
        ans = self.parent.process2(primitive, a, b)
        keep = primitive.keepers[mask]
        if keep is None:
            return wrap(ans)
        node = new(Node)
        node.primitive = primitive
        node.parents = parents
        node.saved = keep(ans, (a, b))
        node.params = NO_PARAMS
        node.number = next_number()
        try:
            node.shape = ans.shape
            node.dtype = ans.dtype
        except AttributeError:
            node.shape, node.dtype = (), np.dtype(type(ans))
        out = new(tracer)
        out.owner = self
        out.value = ans
        out.node = node
        return out

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, parents, mask = self.unwrap(args)
        if mask and primitive.ahead is not None and self.parent is RAW:
            ans, kept = RAW.process_ahead(primitive, values, params)
        else:
            ans = kept = self.below(primitive, values, params)
        if not mask:
            return apart_from(ans, plain_arrays(args))
        keep = primitive.keepers[mask]
        if keep is None or not is_inexact(ans):
            return wrap(ans)
        return self.wrap(ans, make_node(primitive, parents, keep(kept, values), params, ans))

    def unwrap(self, args: Iterable[Any]) -> tuple[list[Any], tuple[Node | None, ...], int]:
        """Returns the operands' values and nodes, and a bit for each that has one."""
        values: list[Any] = []
        parents: list[Node | None] = []
        mask = 0
        for i, a in enumerate(args):
            if type(a) is self.tracer and a.owner is self:
                values.append(a.value)
                parents.append(a.node)
                mask |= 1 << i
            else:
                values.append(self.lift(a))
                parents.append(None)
        return values, tuple(parents), mask

    def kept(self, args: Iterable[Any]) -> tuple[list[Any], tuple[Node | None, ...]]:
        """Returns what rules may keep of operands, which `opened` makes values, and their nodes."""
        values, parents, _ = self.unwrap(args)
        return values, parents

    def saved_by(self, node: Node) -> Any:
        """Returns what a node keeps, as it keeps it."""
        return node.saved

    def opened(self, kept: list[Any]) -> list[Any]:
        """Returns the values that were kept."""
        return kept

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        values, parents, mask = self.unwrap(args)
        if not mask:
            outs = all_apart_from(self.parent.custom(call, values), args)
            return list(map(wrap, outs))
        wanted = [parent is not None for parent in parents]
        outs, pullback = call.reverse(self.parent, values, wanted)
        outs = all_apart_from(outs, args)
        return self.outputs(joint_node(call.name, parents, pullback, outs), outs)

    def outputs(
        self, joint: Node, outs: Sequence[Any], constant: Callable[[Any], Any] | None = None
    ) -> list[Any]:
        """Returns the tracers of a call's outputs, which share a node; integers are constants."""
        constant = constant or wrap
        return [
            self.wrap(out, projection_node(joint, i, out))
            if is_inexact(out)
            else constant(out)
            for i, out in enumerate(outs)
        ]


class CustomPullback(PrimitiveLike):
    """Stands as the primitive of a node whose rule the user wrote; ``saved`` is the pullback."""

    vjps = None
    broadcasts = False

    def __init__(self, name: str) -> None:
        self.name = name

    def pullback(self, g: Any, saved: Callable[[Any], Values], params: dict[str, Any]) -> Values:
        """Returns the cotangents of the operands for those of the outputs."""
        return saved(g)


class OutputPart:
    """A cotangent of one of several outputs."""

    __slots__ = ("g", "index")

    def __init__(self, index: int, g: Any) -> None:
        self.index = index
        self.g = g


class _Projection(PrimitiveLike):
    """Stands as the primitive of the nodes of a custom function's outputs."""

    name = "output"
    broadcasts = False
    vjps = (lambda g, saved, params: OutputPart(saved, g),)


PROJECTION = _Projection()

# Cotangents of which many operations contribute one to a node: they are added up at the end.
SPARSE = frozenset({OutputPart, Scatter})


def make_node(
    primitive: Any,
    parents: tuple[Node | None, ...],
    saved: Any,
    params: Any,
    ans: Any,
    kind: type[Node] = Node,
) -> Node:
    """Returns a new node; `process1` and `process2` write the same out."""
    node = new(kind)
    node.primitive = primitive
    node.parents = parents
    node.saved = saved
    node.params = params
    node.number = next_number()
    try:
        node.shape = ans.shape
        node.dtype = ans.dtype
    except AttributeError:
        node.shape, node.dtype = (), np.dtype(type(ans))
    return node


def joint_node(
    name: str, parents: tuple[Node | None, ...], pull: Callable[..., Any], outs: Sequence[Any]
) -> Node:
    """Returns the node of a call that has several outputs."""
    node = make_node(CustomPullback(name), parents, pull, NO_PARAMS, ONE_NUMBER)
    node.shape = tuple(map(shape_dtype, outs))
    return node


def projection_node(joint: Node, index: int, out: Any) -> Node:
    """Returns the node of one of the outputs of such a call."""
    return make_node(PROJECTION, (joint,), index, {"of": joint.primitive.name}, out)


def maker_of(node: Node) -> str:
    """Returns what messages call the operation whose result a node stands for."""
    name: str = node.primitive.name if node.primitive is not PROJECTION else node.params["of"]
    return name


def is_inexact(x: Any) -> bool:
    """Says whether a value is real or complex, so that it can have a derivative."""
    try:
        return x.dtype.kind in INEXACT
    except AttributeError:
        return isinstance(x, float | complex)


def backward(
    roots: Sequence[tuple[Node, Any]],
    *,
    consume: bool,
    line: str = "",
    named: Callable[[], str] = lambda: "backward",
    of: Trace | None = None,
) -> dict[Node, Any]:
    """Returns the cotangents of the inputs that outputs depend on, under the trace in the slot.

    Args:
        roots: output nodes with their cotangents, which have the outputs' shapes and dtypes.
        consume: whether nodes give up what they saved as soon as it was used.
        line: the user's line, for the message of a second pass over consumed nodes.
        named: returns what that message calls this pass.
        of: the transformation whose pass it is, for messages; None for the one that runs.

    Raises:
        BackwardError: an earlier pass has consumed a node.
    """
    before, running = slot.turn, slot.running
    turn = [node for node, _ in roots[:1]]
    try:
        slot.turn = turn
        if of is not None:
            slot.running = of
        with computing_on(g for _, g in roots):
            by_plan = config.benchmark and slot.trace is RAW
            way = WALKS.by_plan if by_plan else walk
            # Rules may compute 0 / 0 beside a branch not taken; the user did not ask for that.
            return silently(way, (roots, consume, line, turn, named))
    except OPERAND_ERRORS as error:
        if turn and turn[0].primitive is not None:
            note_rule(error, maker_of(turn[0]))
        raise
    finally:
        slot.turn, slot.running = before, running


class Walks:
    """The ways back over a graph.

    Attributes:
        by_plan: does what `walk` does, by the plans of graphs that were met before where there are
            such. A higher module puts it here.
    """

    by_plan: Callable[..., dict[Node, Any]]


WALKS = Walks()


def walk(
    roots: Sequence[tuple[Node, Any]],
    consume: bool,
    line: str,
    turn: list[Node],
    named: Callable[[], str],
) -> dict[Node, Any]:
    """Does what `backward` does, where the cotangents are."""
    grads: dict[Node, Any] = {}
    pending: dict[Node, list[Any]] = {}
    owned: set[Node] = set()
    # The nodes with a cotangent that are not inputs, by falling number. Never more than the
    # frontier: a list of all nodes would cost as much memory as half of the forward pass.
    ready: list[tuple[int, Node]] = []
    for node, g in roots:
        turn[0] = node
        if node in grads:
            grads[node] = grads[node] + g
            continue
        grads[node] = g
        if node.primitive is not None:
            heappush(ready, (-node.number, node))
    spent = Consumed(line)
    while ready:
        turn[0] = node = heappop(ready)[1]
        g = grads.pop(node, None)
        if pending and node in pending:
            g = gathered_cotangent(g, pending.pop(node), node)
        owned.discard(node)
        primitive = node.primitive
        saved = node.saved
        params = node.params
        parents = node.parents
        if type(saved) is Consumed:
            raise spent_error(named(), saved.line, node)
        if consume:
            node.saved = spent
            node.parents = ()
        vjps = primitive.vjps
        if vjps is None:
            vjps = [lambda *_, c=c: c for c in primitive.pullback(g, saved, params)]
        for vjp, parent in zip(vjps, parents):
            if parent is None:
                continue
            c = vjp(g, saved, params)
            if type(c) is not ndarray:
                if c is None:
                    continue
                if type(c) in WEAK_TYPES:
                    c = np.asarray(c)[()]
                if type(c) in SPARSE:
                    if parent in pending:
                        pending[parent].append(c)
                        continue
                    pending[parent] = [c]
                    if parent not in grads and parent.primitive is not None:
                        heappush(ready, (-parent.number, parent))
                    continue
            if c.shape != parent.shape or c.dtype is not parent.dtype:
                c = fitted_cotangent(c, parent, primitive)
            before = grads.get(parent)
            if before is None:
                grads[parent] = c
                if parent.primitive is not None and parent not in pending:
                    heappush(ready, (-parent.number, parent))
            elif parent in owned and type(c) in ARRAY_TYPES:
                if type(c) in ADDERS and type(before) is type(c):
                    ADDERS[type(c)](before, c)
                else:
                    before += c
                    grads[parent] = before
            else:
                grads[parent] = ops.add(before, c) if type(c) in DEVICE_TYPES else before + c
                owned.add(parent)
    for node, contributions in pending.items():
        turn[0] = node
        grads[node] = gathered_cotangent(grads.get(node), contributions, node)
    if consume:
        spent.note_ends(grads)
    return grads


def gathered_cotangent(g: Any, contributions: list[Any], node: Node) -> Any:
    """Returns the cotangent that many sparse ones add up to."""
    if type(contributions[0]) is OutputPart:
        outputs: list[Any] = [None] * len(node.shape)
        for part in contributions:
            outputs[part.index] = part.g
        return outputs
    total = scatter_sum(contributions)
    return total if g is None else g + total


def spent_error(name: str, line: str, node: Node) -> BackwardError:
    """Returns the error for a pass that comes to what another one, at a line, has used up."""
    return failure(
        BackwardError,
        f"{name} reached {maker_of(node)!r} a second time: what it had saved was freed by "
        f"the backward pass at {line}",
        fix="loss.backward(retain_graph=True) the first time; for two losses that share a "
        "graph, (loss1 + loss2).backward()",
    )
