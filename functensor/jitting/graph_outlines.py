"""Outlines of graphs: all that a way back depends on, but for the numbers in its arrays.

Graphs whose nodes somebody watches have none: hooks, checks and retained gradients put stand-ins
there. Nor have those with rules of users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..primitives.core.buffers import BUFFER_TYPES, WEAK_TYPES, device_of
from ..primitives.core.index_key import IndexKey
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import new
from ..traces.consumed import Consumed
from ..traces.reverse import Node, backward
from .program_key import LIBRARY

if TYPE_CHECKING:
    from ..backends.annotations import DType, Shape

__all__ = ["NoOutline", "Outline", "Roots"]

# The static parts of what nodes save, and of parameters, which are equal where they are the same.
STATIC_TYPES = frozenset({int, bool, str, bytes, type(None), type(...), slice, IndexKey})

Roots = Sequence[tuple[Node, Any]]


class Held(NamedTuple):
    """An array in a graph: what a node saved of its operands or its output, or a cotangent.

    Attributes:
        kind: the class of its buffer.
        shape, dtype, device: the array's.
    """

    kind: Any
    shape: Shape
    dtype: DType
    device: str


class NodeOutline(NamedTuple):
    """A node of an outline.

    Attributes:
        primitive, params, shape, dtype: the node's.
        parents: the numbers of its parents in the outline.
        saved: `Held` for each array that it saved, and what else it did as it is.
    """

    primitive: Any
    params: Any
    shape: Any
    dtype: DType
    parents: list[int | None]
    saved: tuple[Any, ...]


class NoOutline(Exception):
    """A graph has no outline."""


class Outline:
    """All of a graph that its way back depends on, but for the numbers in its arrays.

    Args:
        nodes: the nodes, operands before what was computed of them.
        roots: nodes of results with their cotangents.

    Attributes:
        held: the arrays, each of them once.
        device: where they are, one of them at least.

    Raises:
        NoOutline: it has none.
    """

    __slots__ = (
        "_again",
        "_cotangents",
        "_firsts",
        "_numbers",
        "_roots",
        "_steps",
        "device",
        "held",
    )

    def __init__(self, nodes: Sequence[Node], roots: Roots) -> None:
        numbers: dict[Node, int] = {}
        self._steps = []
        for i, node in enumerate(nodes):
            numbers[node] = i
            self._steps.append(outline_of(node, numbers))
        self._roots = [numbers[node] for node, _ in roots]
        self._cotangents = [outlined(g) for _, g in roots]
        parts = self._cotangents + [part for step in self._steps for part in step.saved]
        found: list[Any] = []
        if not self._taken(nodes, roots, found):
            raise NoOutline
        # For each array, the first of the places where it stands.
        places: dict[int, int] = {}
        firsts = [places.setdefault(id(x), i) for i, x in enumerate(found)]
        self._firsts = [*places.values()]
        # For each place, the number of its array among those that are not the same.
        numbers_of = {first: k for k, first in enumerate(self._firsts)}
        self._numbers = [numbers_of[first] for first in firsts]
        self._again = [(i, first) for i, first in enumerate(firsts) if first != i]
        held = [part for part in parts if type(part) is Held]
        self.held: list[Held] = [held[i] for i in self._firsts]
        self.device = next((x.device for x in self.held if x.device != "cpu"), "cpu")

    def values_of(self, nodes: Sequence[Node], roots: Roots) -> list[Any] | None:
        """Returns the arrays of a graph of this outline; None for one of another."""
        found: list[Any] = []
        if len(nodes) != len(self._steps) or not self._taken(nodes, roots, found):
            return None
        for i, first in self._again:
            if found[i] is not found[first]:
                return None
        return [found[i] for i in self._firsts]

    def _taken(self, nodes: Sequence[Node], roots: Roots, values: list[Any]) -> bool:
        """Adds the arrays that stand in a graph to a list; says if all is as in this outline."""
        if not arrays_match([g for _, g in roots], self._cotangents, values):
            return False
        numbers: dict[Node | None, int | None] = {None: None}
        for i, (node, step) in enumerate(zip(nodes, self._steps, strict=True)):
            primitive, params, shape, dtype, parents, saved = step
            if node.primitive is not primitive or node.shape != shape or node.dtype != dtype:
                return False
            numbers[node] = i
            if primitive is None:
                continue
            if [numbers[parent] for parent in node.parents] != parents:
                return False
            if node.params is not params and not are_the_same(node.params, params):
                return False
            if type(node.saved) is not tuple or not arrays_match(node.saved, saved, values):
                return False
        return [numbers[node] for node, _ in roots] == self._roots

    def walked(self, values: Sequence[Any]) -> tuple[list[int], list[Any], list[int]]:
        """Walks back over a graph with other values in place of the arrays.

        Returns:
            The numbers of the leaves that it comes to, their cotangents, and the numbers of the
            nodes that it uses up.
        """
        rest = (values[k] for k in self._numbers)
        cotangents = [next(rest) if type(g) is Held else g for g in self._cotangents]
        nodes: list[Node] = []
        for i, step in enumerate(self._steps):
            node = new(Node)
            node.primitive, node.params = step.primitive, step.params
            node.shape, node.dtype, node.number = step.shape, step.dtype, i
            node.parents = tuple([None if j is None else nodes[j] for j in step.parents])
            node.saved = tuple([next(rest) if type(x) is Held else x for x in step.saved])
            nodes.append(node)
        roots = [(nodes[i], g) for i, g in zip(self._roots, cotangents, strict=True)]
        grads = backward(roots, consume=True)
        numbers = {node: i for i, node in enumerate(nodes)}
        spent = [i for i, node in enumerate(nodes) if type(node.saved) is Consumed]
        return [numbers[node] for node in grads], list(grads.values()), spent


def outline_of(node: Node, numbers: dict[Node, int]) -> NodeOutline:
    """Returns the outline of a node, whose parents have numbers."""
    primitive, saved = node.primitive, node.saved
    parents = [None if parent is None else numbers[parent] for parent in node.parents]
    if primitive is None:
        # Its name for messages may stand there.
        return NodeOutline(None, node.params, node.shape, node.dtype, parents, ())
    if not isinstance(primitive, Primitive) or type(saved) is not tuple:
        raise NoOutline
    is_own = primitive.module.partition(".")[0] == LIBRARY
    if not is_own or not is_static(node.params):
        raise NoOutline
    return NodeOutline(
        primitive, node.params, node.shape, node.dtype, parents, tuple(map(outlined, saved))
    )


def outlined(x: Any) -> Any:
    """Returns what an outline has of a part of what a node saved."""
    if type(x) in BUFFER_TYPES and type(x) not in WEAK_TYPES:
        return Held(type(x), x.shape, x.dtype, device_of(x))
    if not is_static(x):
        raise NoOutline
    return x


def is_static(x: Any) -> bool:
    """Says whether it can be told that two values of this kind are the same."""
    kind = type(x)
    if isinstance(x, tuple | list):
        return all(map(is_static, x))
    if kind is dict:
        return all(map(is_static, x.values()))
    return kind in WEAK_TYPES or kind in STATIC_TYPES or isinstance(x, np.dtype | type)


def are_the_same(x: Any, y: Any) -> bool:
    """Says whether two static values are the same: -0.0 and 0.0, or 1 and True, are not."""
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if kind in STATIC_TYPES:
        return bool(x == y)
    if kind is dict:
        return x.keys() == y.keys() and all(are_the_same(value, y[key]) for key, value in x.items())
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(are_the_same, x, y))
    # Of numbers, whose signs of zero count.
    return repr(x) == repr(y) if kind in WEAK_TYPES else bool(x == y)


def arrays_match(given: Sequence[Any], parts: Sequence[Any], values: list[Any]) -> bool:
    """Adds the arrays among the parts of a graph to a list; says if all is as in an outline."""
    if len(given) != len(parts):
        return False
    for x, part in zip(given, parts, strict=True):
        if isinstance(part, Held):
            if type(x) is not part.kind or x.shape != part.shape or x.dtype != part.dtype:
                return False
            if part.device != "cpu" and device_of(x) != part.device:
                return False
            values.append(x)
        elif x is not part and not are_the_same(x, part):
            return False
    return True
