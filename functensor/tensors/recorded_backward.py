"""Backward passes to chosen tensors, and those that are recorded to be differentiated again.

Such a pass walks over a copy of the graph. It has the nodes alone from which a chosen tensor is
reached. Where the pass is recorded, what the nodes saved stands there as tensors with the nodes
that those values have in the graph: rules then compute with tensors, and leave a graph behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from ..hooks.packing import opened
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import BackwardError, failure, user_line
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.shape_dtype import INEXACT
from ..primitives.core.trace import base_trace, new, under
from ..traces.consumed import Consumed
from ..traces.forward import zeros_like
from ..traces.node_order import nodes_behind
from ..traces.reverse import PROJECTION, Node, backward, maker_of, spent_error
from ..transforms.grad import vjp
from ..transforms.tensor_entrance import entrance
from .grad_mode import GradMode
from .tape import TAPE, LeafNode, Received, receiver_of

__all__ = ["FunctionPull", "chosen_gradients"]


class FunctionPull:
    """The way back through a function whose rule computes with tensors."""

    def __call__(self, gs: Sequence[Any]) -> list[Any]:
        """Returns the cotangents of the operands, buffers of buffers; None for zeros."""
        raise NotImplementedError

    def recorded(self, gs: Sequence[Any], outputs: dict[int, Node]) -> list[Any]:
        """Returns the same of tensors, as tensors that were recorded.

        ``outputs`` are the nodes of the function's outputs, by their numbers.
        """
        raise NotImplementedError


class Passed(PrimitiveLike):
    """Stands as the primitive of a node in the copy, and notes its gradient.

    Args:
        node: the node.
        accumulates: whether tensors that retain their gradients add it to them.
        note: takes the gradient; None where nobody wants it.
        wanted: whether the walk goes on to each operand.
    """

    vjps = None

    def __init__(
        self,
        node: Node,
        accumulates: bool,
        note: Callable[[Any], None] | None,
        wanted: Sequence[bool],
    ) -> None:
        primitive = node.primitive
        self.receiver = receiver_of(node)
        self.primitive = primitive.primitive if isinstance(primitive, Received) else primitive
        self.name = maker_of(node)
        self.broadcasts = primitive.broadcasts
        self.accumulates = accumulates
        self.note = note
        self.wanted = wanted

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> Any:
        """Returns the cotangents of the operands, once all have seen that of the output."""
        if self.receiver is not None:
            g = self.receiver.shown(g)
            if self.accumulates and self.receiver.keeps:
                self.receiver.add(g)
        if self.note is not None:
            self.note(g)
        if not any(self.wanted):
            return ()
        if self.primitive.vjps is None:
            return self.primitive.pullback(g, saved, params)
        return [
            vjp(g, saved, params) if wanted else None
            for vjp, wanted in zip(self.primitive.vjps, self.wanted)
        ]


class Copies(dict[Node, Node]):
    """Copies of the nodes of a graph from which chosen nodes are reached.

    Args:
        roots: the nodes of results.
        chosen: the nodes whose gradients are wanted; None stands for all leaves.
        record: whether what the nodes saved stands there as tensors.
        accumulates: whether tensors that retain their gradients get them.
        through: whether the walk goes on behind a chosen node.

    Attributes:
        found: the gradients of chosen nodes that are no leaves.
        spent: the nodes that another pass has used up.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        chosen: Collection[Node] | None,
        *,
        record: bool,
        accumulates: bool,
        through: bool = True,
    ) -> None:
        super().__init__()
        self.found: dict[Node, Any] = {}
        self._reached = nodes = nodes_behind(roots)
        self.spent = [node for node in nodes if type(node.saved) is Consumed]
        outputs: dict[Node, dict[int, Node]] = {}
        for node in nodes:
            if node.primitive is PROJECTION and node.parents:
                outputs.setdefault(node.parents[0], {})[node.saved] = node
        for node in nodes:
            is_chosen = chosen is None or node in chosen
            leaf = isinstance(node, LeafNode)
            parents = () if is_chosen and not through and not leaf else node.parents
            copied = tuple([self.get(parent) for parent in parents])
            if not (leaf and is_chosen) and not any(copied) and not (chosen and node in chosen):
                continue
            copy = self[node] = new(Node)
            copy.primitive = node.primitive
            copy.parents = copied
            copy.params = node.params
            copy.number, copy.shape, copy.dtype = node.number, node.shape, node.dtype
            # A chosen node may be used up: nothing goes through it.
            copy.saved = node.saved if any(copied) else None
            if leaf:
                continue
            note = None
            if chosen and node in chosen:
                note = partial(self.found.__setitem__, node)
            if note is not None or isinstance(node.primitive, Received):
                wanted = [parent is not None for parent in copied]
                copy.primitive = Passed(node, accumulates, note, wanted)
            if record and any(copied):
                copy.saved = recorded(node, outputs.get(node, {}))

    def consume(self, line: str) -> None:
        """Has the nodes give up what they saved, for the copies alone."""
        spent = Consumed(line)
        for node, copy in self.items():
            # A chosen node is not gone through unless the pass comes to what it was computed from.
            passed = any(parent is not None for parent in copy.parents)
            if passed and not isinstance(node, LeafNode) and type(node.saved) is not Consumed:
                node.saved = spent
                node.parents = ()
        spent.note_ends([node for node in self._reached if node.saved is not spent])


def recorded(node: Node, outputs: dict[int, Node]) -> Any:
    """Returns what a node saved with tensors in place of arrays."""
    saved = node.saved
    if node.primitive is PROJECTION:
        return saved
    if isinstance(saved, FunctionPull):
        return partial(saved.recorded, outputs=outputs)
    repeated = getattr(saved, "repeated", None)
    if repeated is not None:
        call, values, wanted = repeated
        return partial(repeated_call, call, values, wanted, node.parents)
    if not isinstance(saved, tuple | list):
        raise failure(
            BackwardError,
            f"create_graph=True: the way back through {maker_of(node)!r} cannot be recorded",
            fix="ft.grad of a function that computes the gradient, ft.grad(ft.grad(f))",
        )
    # The output comes first, the operands behind it.
    nodes = (node, *node.parents)
    parts = list(map(opened, saved))
    return tuple([
        as_tensor(x, nodes[i] if i < len(nodes) else None) if is_recordable(x) else x
        for i, x in enumerate(parts)
    ])


def is_recordable(x: Any) -> bool:
    """Says whether a saved value is an array that may have a derivative; numbers are none."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    return kind is not None and kind in INEXACT and is_array_like(x)


def as_tensor(x: Any, node: Node | None) -> Any:
    """Returns a tensor of a buffer and the node that it has in the graph."""
    return TAPE.wrap(to_buffer(x), node)


def operands_of(values: Sequence[Any], parents: Sequence[Node | None]) -> list[Any]:
    """Returns a call's operands as tensors with their nodes; others than floats as they are."""
    return [
        as_tensor(x, parent) if is_recordable(x) else x
        for x, parent in zip(values, parents, strict=True)
    ]


def repeated_call(
    call: Any,
    values: Sequence[Any],
    wanted: Sequence[int] | None,
    parents: Sequence[Node | None],
    gs: Sequence[Any],
) -> list[Any]:
    """Returns the cotangents of a call's operands, from calling it again with tensors.

    ``parents`` are the nodes of the operands that are ``wanted``; None stands for all.
    """
    numbers = range(len(values)) if wanted is None else wanted
    places = [i for i, parent in zip(numbers, parents, strict=True) if parent is not None]
    nodes: list[Node | None] = [None] * len(values)
    for i, parent in zip(numbers, parents, strict=True):
        nodes[i] = parent
    operands = operands_of(values, nodes)

    def pulled(operands: Sequence[Any], given: Sequence[Any]) -> Any:
        def of(*some: Any) -> list[Any]:
            filled = list(operands)
            for i, x in zip(places, some, strict=True):
                filled[i] = x
            return list(call.bind(filled))

        outs, pull = vjp(of, *[operands[i] for i in places])
        return pull([zeros_like(out) if g is None else g for out, g in zip(outs, given)])

    found = dict(zip(places, entrance.lift(pulled, (operands, list(gs)), {}), strict=True))
    return [found.get(i) for i in numbers]


def chosen_gradients(
    roots: Sequence[tuple[Node, Any]],
    chosen: Collection[Node] | None,
    *,
    record: bool,
    consume: bool = False,
    accumulates: bool = False,
    through: bool = True,
    named: Callable[[], str] = lambda: "backward",
) -> dict[Node, Any]:
    """Returns the gradients of results by chosen nodes of their graph.

    Args:
        roots: nodes of results, with the cotangents: tensors where the pass is recorded, else
            buffers.
        chosen: the nodes; None for all leaves.
        record: whether the pass is recorded, so that gradients are tensors with a graph.
        consume: whether nodes give up what they saved.
        accumulates: whether tensors that retain their gradients get them.
        through: whether the walk goes on behind a chosen node.
        named: returns what messages call the pass.

    Returns:
        The gradients, by node; none for a node that no result depends on.

    Raises:
        BackwardError: the graph was used up, or a rule in it cannot be recorded.
    """
    wanted = None if chosen is None else set(chosen)
    copies = Copies(
        [node for node, _ in roots], wanted, record=record, accumulates=accumulates,
        through=through,
    )  # fmt: skip
    line = user_line()
    missed = wanted is None or not wanted <= copies.keys()
    for node in copies.spent:
        if missed or any(node.saved.hides(node, other) for other in wanted or ()):
            raise spent_error(named(), node.saved.line, node)
    if consume:
        copies.consume(line)
    begun = [(copies[node], g) for node, g in roots if node in copies]
    if not begun:
        return {}
    # Under a transformation the cotangents are traced.
    with under(None if record else base_trace()), GradMode(record):
        grads = backward(begun, consume=True, line=line, named=named)
        found = dict(copies.found)
        for node, copy in copies.items():
            if isinstance(node, LeafNode) and copy in grads:
                found[node] = node.receiver.shown(grads[copy])
    return found
