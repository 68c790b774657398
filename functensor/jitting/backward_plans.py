"""Plans of backward passes over graphs that were met before, under ``config.benchmark`` alone.

A training step leaves the same graph behind each time: the same primitives with the same
parameters, over values of the same shapes and dtypes. Its outline tells whether a graph was met
before. The rules walk back over the first graphs of an outline. Once these walks have taken a
while, a thread that nobody waits for stages the walk, on stand-ins for what the nodes saved, and
makes a plan of the program. Both ways take turns for some passes, and the quicker one stays.

Passes under another transformation, of which they are a part, have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..backends.config import config
from ..backends.devices import resolved
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import RAW, run, under
from ..programs.live_equations import live_equations
from ..programs.named_scope import scoped
from ..programs.program import Program, Variable
from ..programs.staging import StagingTrace
from ..traces.consumed import Consumed
from ..traces.node_order import nodes_behind
from ..traces.reverse import walk
from .compile import compiled
from .gpu_tiers import gpu_of, plan_on_gpu
from .graph_outlines import NoOutline, Outline
from .input_orders import input_orders
from .tiers import Tiers, tell_failure

if TYPE_CHECKING:
    from ..backends.native.background import BackgroundJob
    from ..traces.reverse import Node
    from .graph_outlines import Roots
    from .input_orders import InputOrders

__all__ = ["MetGraph", "met_graphs", "walk_by_plan"]

# Walks over the graphs of an outline take so long, in seconds, before there is a plan, and are so
# many.
SECONDS_OF_WALKS, FEWEST_WALKS = 0.01, 4
# The passes of each way whose shortest times are compared.
PASSES_OF_EACH_WAY = 8
# So many outlines that look alike at first are known, and so many of one kind of loss are missed
# one after the other before it is given up: a number in them changes, or a shape.
MOST_ALIKE, MOST_MISSED = 8, 32
MOST_LOSSES = 256
# Longer graphs have no plan: it would take many seconds to make it.
MOST_PLANNED_NODES = 4000
# After so many passes that had no use of being looked at, so many are not.
MOST_USELESS, PASSES_OF_REST = 16, 512


class MetGraph:
    """Walks back over the graphs of one outline, by the quicker of two ways.

    Attributes:
        outline: tells them.
        plan: computes the cotangents of the leaves, of the arrays; None before it is there.
        settled: whether it is decided which way stays.
        job: the work that makes the plan; None before.
    """

    __slots__ = (
        *("__weakref__", "_calls", "_leaves", "_numerics", "_orders", "_spent", "_times"),
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
        # How the arrays lay in memory that were seen last.
        self._orders: InputOrders = ()
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
            if values and self.job is None and self.outline.device == "cpu":
                self._orders = input_orders(values, ())
            # The walk lets go of what it has used.
            values.clear()
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
        plan = failed = None
        program: Program | None = None
        try:
            with config.using(matmul_precision=self._numerics):
                program = self.staged()
                plan = plan_of_buffers(program, self._orders)
        except Exception as error:
            failed = error
        if plan is None:
            self._settle(None)
        else:
            self.plan = plan
        if program is not None and failed is not None:
            tell_failure(program, failed)

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


def plan_of_buffers(
    program: Program, orders: InputOrders = ()
) -> Callable[[list[Any]], Sequence[Any]] | None:
    """Returns what computes a staged program on buffers; None where there is no plan.

    ``orders`` says how the buffers lie in memory, where that is known.
    """
    made = compiled(program)
    run: Any
    if made.on_cpu:
        if orders and isinstance(made.run, Tiers):
            made.run.expect_orders(orders)
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
        # It has no plan yet that would take its arrays.
        return graph, []

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
    found = alike.find(nodes, roots) if len(nodes) <= MOST_PLANNED_NODES else None
    alike.note(found and found[0])
    if found is None:
        return walk(roots, consume, *told)
    graph, values = found
    return graph.walk(nodes, values, perf_counter() - begun, roots, consume, *told)
