"""Kernels of regions: which regions have one, what it costs, and its machine code."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ....kernels.efforts import needed_nodes
from ....kernels.kernel import Index, Load, LoopKernel, Store, all_statements
from ....kernels.operations import KERNEL_FUNCTIONS
from ....native.machine import machine_code
from ....native.printer import Module, Printer
from ....native.scratch import scratch_bytes
from ....region_functions import GATHERS
from ..regions.grid import Blocks
from .kernel_runs import NativeRun, enter_kernels
from .region_graph import NotNative, RegionGraph

if TYPE_CHECKING:
    from ....native.code import Code

__all__ = ["compile_runs", "effort_of", "has_gathers", "in_place_pairs", "native_region"]

# Efforts count tenths of a nanosecond, about. Threads share what takes longer than their hand-off.
STREAM_EFFORT, ARITHMETIC_EFFORT, FUNCTION_COST, GATHER_EFFORT = 4, 0.5, 6, 10
SMALLEST_EFFORT_TO_SHARE = 2_000_000
MOST_BLOCKS = 16


class NativeRegion:
    """A region's kernel, and how it lies in the grid.

    Attributes:
        kernel: the kernel.
        grid, shapes, outputs: as those of blocks of NumPy's functions.
        blocks: numbers, beginnings and ends of blocks.
        memory: the bytes of memory that a thread needs.
        effort: the work of all blocks.
        labels: the inputs that are labels, and who reads them.
    """

    def __init__(self, name: str, graph: RegionGraph) -> None:
        self.kernel: LoopKernel = graph.kernel(name)
        self.grid, self.shapes, self.outputs = graph.grid, graph.shapes, graph.outputs
        self.dtypes = [x.dtype for x in graph.inputs]
        self.labels = graph.labels
        self.effort = effort_of(graph)
        count = min(max(int(self.effort / SMALLEST_EFFORT_TO_SHARE * 4), 1), MOST_BLOCKS)
        if self.effort < SMALLEST_EFFORT_TO_SHARE:
            count = 1
        self.blocks = Blocks(self.grid.rows, min(count, self.grid.rows))
        self.memory = scratch_bytes(self.kernel)
        self._taken = in_place_pairs(self.kernel, len(graph.inputs))

    def can_take(self, number: int, out: int) -> bool:
        """Says whether an output may be written where an input lies."""
        return (number, out) in self._taken


def in_place_pairs(kernel: LoopKernel, inputs: int) -> set[tuple[int, int]]:
    """Returns the numbers of inputs and outputs that may lie in the same memory.

    All loads of the input come before the first store of the output, at the same places. Complex
    numbers have two stores, one behind the other.
    """
    order = list(all_statements(kernel.body))
    first: dict[Any, int] = {}
    places: dict[Any, list[Index]] = {}
    for number, statement in enumerate(order):
        if isinstance(statement, Store) and statement.buffer.role == "out":
            first.setdefault(statement.buffer, number)
            if number <= first[statement.buffer] + 1:
                places.setdefault(statement.buffer, []).append(statement.index)
    found = set()
    for i, given in enumerate(kernel.buffers[:inputs]):
        loads = [
            (n, s.index) for n, s in enumerate(order) if isinstance(s, Load) and s.buffer is given
        ]
        for k, out in enumerate(kernel.buffers[inputs:]):
            if out not in first or out.shape != given.shape or out.dtype != given.dtype:
                continue
            if all(n < first[out] and place in places[out] for n, place in loads):
                found.add((i, k))
    return found


def effort_of(graph: RegionGraph) -> float:
    """Returns the work of a region's kernel."""
    lengths = graph.graph.lengths
    total = 0.0
    for node in needed_nodes([x for r in graph.results for x in r.nodes]):
        size = prod(lengths[a] for a in node.axes)
        if node.operation == "input":
            total += STREAM_EFFORT * size * node.dtype.itemsize / 4
        elif node.operation == "gather":
            total += GATHER_EFFORT * size
        elif node.operation in KERNEL_FUNCTIONS:
            total += FUNCTION_COST * size * node.dtype.itemsize / 4
        elif node.operation != "constant":
            total += ARITHMETIC_EFFORT * size * node.dtype.itemsize / 4
    for result in graph.results:
        total += STREAM_EFFORT * prod(lengths[a] for a in result.axes) * len(result.nodes)
    return total


def native_region(name: str, region: Any, given: Sequence[Any], order: Any) -> NativeRun | None:
    """Returns the run of a region, whose machine code is not there yet.

    None where kernels do not compute it.
    """
    try:
        return NativeRun(name, NativeRegion(name, RegionGraph(region, given, order)))
    except NotNative:
        return None


def has_gathers(region: Any) -> bool:
    """Says whether a region takes elements of whole arrays, which blocks of NumPy do not."""
    return any(equation.primitive.name in GATHERS for equation in region.program.equations)


def compile_runs(runs: Sequence[NativeRun]) -> Code:
    """Compiles the kernels of regions, which then hold their code; equal kernels are one."""
    module = Module()
    names: dict[str, str] = {}
    functions = []
    for run in runs:
        calls = module.calls.copy()
        body = Printer(run.kernel, module).text().partition("(")[2]
        if body in names:
            module.calls = calls
        functions.append(names.setdefault(body, run.kernel.name))
    text = module.text(*[f"define void @{name}({body}" for body, name in names.items()])
    code = machine_code(text, [*names.values()])
    for run, name in zip(runs, functions, strict=True):
        run.entry = name, len(run.kernel.buffers)
    enter_kernels(code, runs)
    return code
