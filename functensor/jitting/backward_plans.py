"""Plans of backward passes over graphs that were met before, under ``config.benchmark`` alone.

A training step leaves the same graph behind each time: the same primitives with the same
parameters, over values of the same shapes and dtypes. Its outline tells whether a graph was met
before. The rules walk back over the first graphs of an outline. Once these walks have taken a
while, a thread that nobody waits for stages the walk, on stand-ins for what the nodes saved, and
makes a plan of the program. Both ways take turns for some passes, and the quicker one stays.

Graphs whose nodes somebody watches have no outline: hooks, checks and retained gradients put
stand-ins there. Nor have those with rules of users, and those under another transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends.config import config
from ..backends.devices import resolved
from ..primitives.core.buffers import BUFFER_TYPES, WEAK_TYPES, device_of
from ..primitives.core.index_key import IndexKey
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import RAW, new, run, under
from ..programs.live_equations import live_equations
from ..programs.named_scope import scoped
from ..programs.program import Program, Variable
from ..programs.staging import StagingTrace
from ..traces.consumed import Consumed
from ..traces.node_order import nodes_behind
from ..traces.reverse import Node, backward, walk
from .compile import compiled
from .gpu_tiers import gpu_of, plan_on_gpu
from .program_key import LIBRARY
from .tiers import tell_failure

if TYPE_CHECKING:
    from ..backends.annotations import DType, Shape
    from ..backends.native.background import BackgroundJob

__all__ = ["MetGraph", "Outline", "met_graphs", "walk_by_plan"]

# Walks over the graphs of an outline take so long, in seconds, before there is a plan, and are so
# many.
SECONDS_OF_WALKS, FEWEST_WALKS = 0.01, 4
# The passes of each way whose shortest times are compared.
PASSES_OF_EACH_WAY = 8
# So many outlines that look alike at first are known, and so many of one kind of loss are missed
# one after the other before it is given up: a number in them changes, or a shape.
MOST_ALIKE, MOST_MISSED = 8, 32
MOST_LOSSES = 256
# After so many passes that had no use of being looked at, so many are not.
MOST_USELESS, PASSES_OF_REST = 16, 512
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
        self._taken(nodes, roots, found)
        of_array: dict[int, int] = {}
        # For each array that stands somewhere, its number among those that are not the same.
        self._numbers = [of_array.setdefault(id(x), len(of_array)) for x in found]
        self._firsts = [self._numbers.index(k) for k in range(len(of_array))]
        self._again = [
            (i, first) for i, k in enumerate(self._numbers) if (first := self._firsts[k]) != i
        ]
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


class MetGraph:
    """Walks back over the graphs of one outline, by the quicker of two ways.

    Attributes:
        outline: tells them.
        plan: computes the cotangents of the leaves, of the arrays; None before it is there.
        settled: whether it is decided which way stays.
        job: the work that makes the plan; None before.
    """

    __slots__ = (
        *("__weakref__", "_calls", "_leaves", "_numerics", "_spent", "_times"),
        *("_used_up", "job", "outline", "plan", "settled"),
    )

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._calls, self._spent = 0, 0.0
        self._times: tuple[list[float], list[float]] = [], []
        # The leaves that the walk comes to, and the nodes that it uses up.
        self._leaves: list[int] = []
        self._used_up: list[int] = []
        self._numerics = config.matmul_precision
        self.plan: Callable[[list[Any]], Sequence[Any]] | None = None
        self.settled = False
        self.job: BackgroundJob | None = None

    def walk(
        self,
        nodes: Sequence[Node],
        values: list[Any],
        found_in: float,
        roots: Roots,
        consume: bool,
        *told: Any,
    ) -> dict[Node, Any]:
        """Returns the cotangents of the leaves, and looks if there is a better way to the next.

        Args:
            nodes: the nodes of the graph, in the order of its outline.
            values: its arrays.
            found_in: the seconds that it took to find them, which are a part of a plan's time.
            roots, consume, told: what `walk` is given.
        """
        plan = self.plan
        compares = not self.settled and plan is not None
        if compares:
            walks, others = self._times
            if len(walks) < len(others):
                plan = None
            self._wait()
        begun = perf_counter()
        if plan is None:
            grads = walk(roots, consume, *told)
        else:
            grads = self._by(plan, nodes, values, consume, told[0])
        if compares:
            self._wait()
        if not self.settled:
            took = perf_counter() - begun
            self._note(took if plan is None else took + found_in, plan)
        return grads

    def _wait(self) -> None:
        """Waits for a GPU, whose time counts as the host's does."""
        device = self.outline.device
        if device != "cpu":
            resolved(device)[0].synchronize_device(device)

    def _by(
        self,
        plan: Callable[[list[Any]], Sequence[Any]],
        nodes: Sequence[Node],
        values: list[Any],
        consume: bool,
        line: str,
    ) -> dict[Node, Any]:
        """Returns the cotangents by a plan."""
        leaves = [nodes[i] for i in self._leaves]
        if consume:
            spent = Consumed(line)
            for i in self._used_up:
                nodes[i].saved = spent
                nodes[i].parents = ()
            spent.note_ends(leaves)
        return dict(zip(leaves, plan(values), strict=True))

    def _note(self, took: float, plan: Any) -> None:
        """Notes the time of a pass, and decides once there are enough of both ways."""
        walks, others = self._times
        if self.plan is not None:
            (walks if plan is None else others).append(took)
            if min(len(walks), len(others)) >= PASSES_OF_EACH_WAY:
                self._settle(self.plan if min(others) <= min(walks) else None)
            return
        self._calls += 1
        self._spent += took
        waits = self.job is not None and not self.job.dropped
        if self._calls >= FEWEST_WALKS and self._spent >= SECONDS_OF_WALKS and not waits:
            from ..backends.native.background import later_for  # only where a plan is made

            self.job = later_for(self, MetGraph.make)

    def make(self) -> None:
        """Makes the plan, for the next pass to take."""
        plan = None
        program: Program | None = None
        try:
            with config.using(matmul_precision=self._numerics):
                program = self.staged()
                plan = plan_of_buffers(program)
        except Exception as error:
            if program is not None:
                tell_failure(program, error)
        if plan is None:
            self._settle(None)
        else:
            self.plan = plan

    def staged(self) -> Program:
        """Returns the program that computes the cotangents of the leaves of the arrays."""
        trace = StagingTrace(RAW, "backward", self.outline.walked)
        held = self.outline.held
        inputs = [trace.input(ShapeDtype(x.shape, x.dtype), x.device) for x in held]
        with under(None), scoped(""):
            leaves, grads, spent = run(trace, self.outline.walked, (inputs,))
        self._leaves, self._used_up = leaves, spent
        outputs = [trace.operand(g) for g in grads]
        equations = live_equations(trace.equations, outputs)
        return Program("backward", [x.variable for x in inputs], equations, outputs)

    def _settle(self, plan: Any) -> None:
        self.plan, self.settled = plan, True


def plan_of_buffers(program: Program) -> Callable[[list[Any]], Sequence[Any]] | None:
    """Returns what computes a staged program on buffers; None where there is no plan."""
    made = compiled(program)
    run: Any
    if made.on_cpu:
        made.compile()

        def run(buffers: list[Any]) -> Any:
            return made.run(buffers)
    else:
        device = gpu_of(program)
        if device is None:
            return None
        run = plan_on_gpu(program, device, moving=True)
    inputs = {*made.program.inputs}
    outputs = made.program.outputs
    shared = [k for k, x in enumerate(outputs) if type(x) is Variable and x in inputs]
    if not shared:
        return run  # type: ignore[no-any-return]

    def unshared(buffers: list[Any]) -> list[Any]:
        outs = list(run(buffers))
        for k in shared:
            outs[k] = outs[k].copy()
        return outs

    return unshared


class Alike:
    """The graphs of losses that look alike at first.

    Attributes:
        graphs: those with an outline, the last that was met at the end.
        missed: how many were met one after the other that had another outline than those before.
        useless: how many were met one after the other that walk, and always will.
        resting: for how many passes none is looked at.
    """

    __slots__ = ("graphs", "missed", "resting", "useless")

    def __init__(self) -> None:
        self.graphs: list[MetGraph] = []
        self.missed = 0
        self.useless = 0
        self.resting = 0

    def find(self, nodes: Sequence[Node], roots: Roots) -> tuple[MetGraph, list[Any]] | None:
        """Returns what stands for the graphs of an outline, and the arrays; None without one."""
        for graph in self.graphs:
            values = graph.outline.values_of(nodes, roots)
            if values is not None:
                self.missed = 0
                return graph, values
        if self.missed >= MOST_MISSED:
            return None
        self.missed += 1
        try:
            graph = MetGraph(Outline(nodes, roots))
        except NoOutline:
            return None
        self.graphs = [*self.graphs[1 - MOST_ALIKE :], graph]
        values = graph.outline.values_of(nodes, roots)
        return None if values is None else (graph, values)

    def note(self, graph: MetGraph | None) -> None:
        """Notes what a pass has found; looking costs time, and rests where it has no use."""
        if graph is not None and not (graph.settled and graph.plan is None):
            self.useless = 0
            return
        self.useless += 1
        if self.useless >= MOST_USELESS:
            self.useless, self.resting = 0, PASSES_OF_REST


met_graphs: dict[Any, Alike] = {}


def alike_to(roots: Roots) -> Alike:
    """Returns those losses that are computed by the same last operations."""
    known = [
        (node.primitive, node.shape, node.dtype, *(x and x.shape for x in node.parents))
        for node, _ in roots
    ]
    key = config.numerics, *known
    alike = met_graphs.get(key)
    if alike is None:
        if len(met_graphs) >= MOST_LOSSES:
            met_graphs.clear()
        alike = met_graphs[key] = Alike()
    return alike


def walk_by_plan(roots: Roots, consume: bool, *told: Any) -> dict[Node, Any]:
    """Does what `walk` does, by the plan of the graph where there is one."""
    if config.deterministic or not roots:
        return walk(roots, consume, *told)
    begun = perf_counter()
    alike = alike_to(roots)
    if alike.resting:
        alike.resting -= 1
        return walk(roots, consume, *told)
    nodes = nodes_behind([node for node, _ in roots])
    found = alike.find(nodes, roots)
    alike.note(found and found[0])
    if found is None:
        return walk(roots, consume, *told)
    graph, values = found
    return graph.walk(nodes, values, perf_counter() - begun, roots, consume, *told)
