"""From what a kernel computes to its loops.

The first axes of the grid are loops around everything: rows. Within a row come stages. A fold over
axes of the row is known when its stage ends, and what needs it belongs to a later stage. Numbers of
an earlier stage are computed again where that is cheap, and kept in scratch memory where it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from .efforts import (
    LEAF_OPERATIONS,
    MOST_EFFORT_AGAIN,
    effort,
    gone,
    missing,
    needed_nodes,
    unspread,
)
from .fold_lanes import lanes_of_fold
from .graph import Expr, ExprGraph, GridAxes, input_place
from .kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    PlaceOf,
    PlaceWithin,
    Statement,
    Store,
    UpdateOf,
    fold_identity,
)
from .kernel_result import KernelResult
from .row_tiles import by_row_tiles
from .scopes import Scope, Sink, leftover

__all__ = ["LANE_BYTES", "KernelResult", "scheduled"]

# The bytes that lanes take: two registers of AVX2, one of AVX-512.
LANE_BYTES = 64
# The last axis of complex elements: the real and the imaginary part.
PARTS_OF_AN_ELEMENT = (2,)
# A place that lay in memory would be a number again: what names it is kept.
NEVER_KEPT = LEAF_OPERATIONS | {"within"}
AXIS_NAMES = "ijklmnopqrstuvwxyz"


def scheduled(
    name: str,
    graph: ExprGraph,
    inputs: Sequence[Expr],
    results: Sequence[KernelResult],
    whole: bool = False,
    strides: Mapping[int, Mapping[int, int]] | None = None,
) -> LoopKernel:
    """Returns the kernel of a graph.

    Args:
        name: its name.
        graph: the nodes, and the grid.
        inputs: the inputs, in order, of complex ones the real parts. Each lies in memory in the
            order of its axes; the two parts of complex elements are a last axis. Inputs whose
            elements are gathered are ``source`` nodes.
        results: what is written, in order.
        whole: whether one run computes all rows. Folds over the first axis are complete then, and
            divided by what a result says; else each run leaves a part of them.
        strides: for inputs that lie in another order, by their numbers, the strides of their axes.
    """
    schedule = LoopSchedule(graph, inputs, results, whole, strides or {})
    buffers = [*schedule.inputs.values(), *schedule.outputs]
    body = schedule.body()
    return by_row_tiles(LoopKernel(name, buffers, schedule.scratch, body), LANE_BYTES)


class LoopSchedule:
    """Makes the loops of a graph.

    Attributes:
        axes: the loops' variables.
        inputs: the buffers of inputs, by their numbers.
        outputs: the buffers of results.
        scratch: the memory of its own.
    """

    def __init__(
        self,
        graph: ExprGraph,
        inputs: Sequence[Expr],
        results: Sequence[KernelResult],
        whole: bool,
        strides: Mapping[int, Mapping[int, int]],
    ) -> None:
        self.graph = graph
        self._strides = strides
        self.results = results
        self.whole = whole
        self.axes = [
            LoopAxis(AXIS_NAMES[number], length, block=number == 0 and not whole)
            for number, length in enumerate(graph.lengths)
        ]
        self.inputs = {
            input_place(x)[0]: Buffer(f"in_{number}", x.dtype, self._input_shape(x), "in")
            for number, x in enumerate(inputs)
        }
        self._steps: dict[Buffer, Mapping[int, int]] = {}
        self.outputs = [self._output(*pair) for pair in enumerate(results)]
        self.scratch: list[Buffer] = []
        # The nodes that lie in scratch memory.
        self._kept: dict[Expr, Buffer] = {}
        # The memory that loops before have filled.
        self._written: set[Buffer | None] = set()
        self._needed = needed_nodes([x for result in results for x in result.nodes])
        self._folds = [x for x in self._needed if x.operation == "fold"]
        self._rows = self._number_of_rows()
        self._stage: dict[Expr, int] = {}
        for x in self._needed:
            self._stage[x] = self._stage_of(x)
        self._sinks = self._all_sinks()

    # -- what there is

    def _shape(self, axes: Iterable[int]) -> tuple[int, ...]:
        return tuple([self.graph.lengths[a] for a in sorted(axes)])

    def _input_shape(self, x: Expr) -> tuple[int, ...]:
        number, part = input_place(x)
        if x.operation == "source":
            return (x.detail.elements,)
        if number in self._strides:
            steps = [(self.graph.lengths[a], self._strides[number].get(a, 0)) for a in x.axes]
            return (1 + sum((length - 1) * abs(step) for length, step in steps),)
        return (*self._shape(x.axes), *(() if part is None else PARTS_OF_AN_ELEMENT))

    def _output(self, number: int, result: KernelResult) -> Buffer:
        parts, dtype = () if result.imag is None else PARTS_OF_AN_ELEMENT, result.node.dtype
        shape = (*self._shape(result.axes), *parts)
        if result.late and not self.whole:
            return Buffer(f"part_{number}", dtype, (BLOCK_NUMBER.extent, *shape), "part")
        if result.strides is None:
            return Buffer(f"out_{number}", dtype, shape, "out")
        last = sum((self.graph.lengths[a] - 1) * n for a, n in result.strides.items())
        part = Buffer(f"out_{number}", dtype, (1 + last,), "some")
        self._steps[part] = result.strides
        return part

    def _index(self, buffer: Buffer, axes: Iterable[int], part: int | None = None) -> Index:
        """Returns the place of an element, or of a part of it, in a buffer that has some axes."""
        loops = [self.axes[a] for a in sorted(axes)]
        if buffer.role == "part":
            loops.insert(0, BLOCK_NUMBER)
        strides = [prod(buffer.shape[i + 1 :]) for i in range(len(loops))]
        if buffer in self._steps:
            strides = [self._steps[buffer].get(a, 0) for a in sorted(axes)]
        return Index(list(zip(loops, strides, strict=True)), part or 0)

    def _number_of_rows(self) -> int:
        """Returns how many of the first axes are loops around everything."""
        count = max(len(self.axes) - 1, 0)
        for fold in self._folds:
            count = min([count, *gone(fold) - {0}, *missing(fold.operands[0].axes)])
        for result in self.results:
            if not result.late:
                count = min([count, *missing(result.axes)])
        return count

    # -- stages

    def _stage_of(self, node: Expr) -> int:
        stage = 0
        for x in node.operands:
            behind = x.operation == "fold"
            if x.operation not in LEAF_OPERATIONS and node.operation != "fold":
                # It cannot be computed within the loops of the node, which have others outside.
                last = max(x.axes, default=-1)
                apart = any(self._rows <= a < last for a in node.axes - x.axes)
                behind = apart and effort(x) > MOST_EFFORT_AGAIN
            stage = max(stage, self._stage[x] + behind)
        return stage

    def _all_sinks(self) -> dict[int, list[Sink]]:
        """Returns what has to be done in each stage.

        What is needed in a later stage than its own is computed again if it is cheap.
        """
        sinks: dict[int, list[Sink]] = {}
        stages: dict[Expr, set[int]] = {}
        for result, buffer in zip(self.results, self.outputs, strict=True):
            if result.late:
                new = [self._late_sink(result, *pair, buffer) for pair in enumerate(result.nodes)]
                stage = max(self._stage[x] for x in result.nodes)
            else:
                new = [Sink(result.node, tuple(sorted(result.axes)), buffer, imag=result.imag)]
                stage = max(self._stage[x] + (x.operation == "fold") for x in result.nodes)
            for sink in new:
                for x in sink.needed:
                    stages.setdefault(x, set()).add(stage)
            sinks.setdefault(stage, []).extend(new)
        for node in reversed(self._needed):
            wanted = stages.get(node, set())
            if not wanted:
                continue  # a fold over all blocks
            own = self._stage[node]
            if node.operation == "fold":
                sinks.setdefault(own, []).append(self._fold_sink(node))
                wanted = {own}
            elif wanted != {own} and self._is_kept(node):
                sinks.setdefault(own, []).append(self._kept_sink(node, self._rows))
                wanted = {own}
            for x in node.operands:
                stages.setdefault(x, set()).update(wanted)
        return sinks

    def _late_sink(self, result: KernelResult, part: int, fold: Expr, buffer: Buffer) -> Sink:
        """Returns a fold over all blocks, or that of a part of complex elements."""
        axes = tuple(sorted(fold.operands[0].axes))
        return Sink(fold, axes, buffer, gone(fold), None if result.imag is None else part)

    def _is_kept(self, node: Expr) -> bool:
        rows = set(range(self._rows))
        if node.operation in NEVER_KEPT:
            return False
        return bool(node.axes - rows) and effort(node) > MOST_EFFORT_AGAIN

    def _kept_sink(self, node: Expr, rows: int) -> Sink:
        """Returns the store of a node into scratch memory, within the loops of some rows."""
        inner = [a for a in sorted(node.axes) if a >= self._rows]
        return Sink(node, (*range(rows), *inner), self._scratch_for(node))

    def _fold_sink(self, fold: Expr) -> Sink:
        axes = tuple(sorted(fold.operands[0].axes))
        rows = set(range(self._rows))
        buffer = self._scratch_for(fold) if fold.axes - rows else None
        return Sink(fold, axes, buffer, gone(fold))

    def _scratch_for(self, node: Expr) -> Buffer:
        """Returns memory for the numbers of a row."""
        shape = self._shape(a for a in node.axes if a >= self._rows)
        buffer = Buffer(f"kept_{len(self.scratch)}", node.dtype, shape, "scratch")
        self.scratch.append(buffer)
        self._kept[node] = buffer
        return buffer

    # -- loops

    def body(self) -> list[Statement]:
        """Returns the statements of the kernel."""
        top = Scope()
        late = [s for stage in self._sinks.values() for s in stage if s.over and 0 in s.over]
        for sink in late:
            if leftover(sink) and not sink.part:
                self._cleared(sink, top, sink.node.axes)
        self._once(top)
        rising = self._row(top, 0)
        assert not rising, "a fold over no axis"
        for sink in late:
            if leftover(sink) and self._divisor(sink) != 1:
                self._divided(sink, top)
        return top.statements

    def _divisor(self, sink: Sink) -> int:
        """Returns what a complete fold is divided by."""
        if not self.whole:
            return 1
        places = [b is sink.buffer for b in self.outputs]
        return self.results[places.index(True)].divisor

    def _divided(self, sink: Sink, scope: Scope) -> None:
        """Divides a fold that lies in memory."""
        assert sink.buffer is not None
        index = self._index(sink.buffer, sink.node.axes, sink.part)
        dtype = sink.node.dtype
        old, new = LoopValue(dtype), LoopValue(dtype)
        body: list[Statement] = [
            Load(old, sink.buffer, index),
            Let(new, "divide", [old, dtype.type(self._divisor(sink))]),
            Store(sink.buffer, index, new),
        ]
        for axis in sorted(sink.node.axes, reverse=True):
            body = [For(self.axes[axis], body, (), self._lanes(axis, body))]
        scope.statements += body

    def _once(self, top: Scope) -> None:
        """Computes what is the same for all rows, and dear, before them; not what needs folds."""
        # A fold reads its operand once, though it has fewer axes.
        others = [x for x in self._needed if x.operation != "fold"]
        shared = {x for y in others for x in y.operands if x.axes != y.axes}
        behind: set[Expr] = set()
        for node in self._needed:
            if node.operation == "fold" or not behind.isdisjoint(node.operands):
                behind.add(node)
            elif node.operation in NEVER_KEPT or node in self._kept or node not in shared:
                continue
            elif min(node.axes, default=0) >= self._rows and effort(node) > MOST_EFFORT_AGAIN:
                sink = self._kept_sink(node, 0)
                self._nest(top, sink.axes, [sink])
                self._written.add(sink.buffer)

    def _row(self, scope: Scope, level: int) -> list[tuple[Sink, Operand]]:
        """Writes the loops of the first axes from one on, and what is in them.

        Returns what the loop around it folds.
        """
        rising = []
        if level < self._rows:
            for sink in self._sinks.get(0, ()):
                if sink.axes == tuple(range(level)):
                    rising += self._sunk(sink, scope)
            inner = Scope(scope, level)
            return rising + self._loop(scope, level, inner, self._row(inner, level + 1))
        for stage in sorted(self._sinks):
            rising += self._run(scope, self._sinks[stage])
        return rising

    def _run(self, scope: Scope, sinks: Sequence[Sink]) -> list[tuple[Sink, Operand]]:
        """Writes the loops of a stage, as few as possible."""
        rising = []
        rest = [s for s in sinks if len(s.axes) >= self._rows]
        for sink in rest:
            if sink.buffer is not None and sink.buffer.role == "scratch" and leftover(sink):
                inner = frozenset(a for a in sink.node.axes if a >= self._rows)
                self._cleared(sink, scope, inner)
        while rest:
            longest = max([s.axes for s in rest], key=len)
            group = [s for s in rest if s.axes == longest[: len(s.axes)]]
            rest = [s for s in rest if s not in group]
            rising += self._nest(scope, longest[len(scope.axes) :], group)
            self._written.update(sink.buffer for sink in group)
        return rising

    def _nest(
        self, scope: Scope, axes: Sequence[int], sinks: Sequence[Sink]
    ) -> list[tuple[Sink, Operand]]:
        """Writes loops over axes; returns what the loop around them folds."""
        rising = []
        ending = [s for s in sinks if len(s.axes) == len(scope.axes)]
        for x in [x for s in ending if s.part is not None for x in s.needed]:
            self._value(x, scope)  # so that the two parts are stored one behind the other
        for sink in ending:
            rising += self._sunk(sink, scope)
        deeper = [s for s in sinks if len(s.axes) > len(scope.axes)]
        if deeper:
            inner = Scope(scope, axes[0])
            rising += self._loop(scope, axes[0], inner, self._nest(inner, axes[1:], deeper))
        return rising

    def _loop(
        self, scope: Scope, axis: int, inner: Scope, rising: Sequence[tuple[Sink, Operand]]
    ) -> list[tuple[Sink, Operand]]:
        """Adds a loop, with its folds; returns what the loop around it folds."""
        folds = []
        higher = []
        known: dict[tuple[str, int], Fold] = {}
        for sink, operand in rising:
            operation = sink.node.detail
            fold = known.get((operation, id(operand)))
            if fold is None:
                fold = Fold(LoopValue(sink.node.dtype), operation, operand)
                known[operation, id(operand)] = fold
                folds.append(fold)
            higher.append((sink, fold.value))
        lanes = self._lanes(axis, inner.statements)
        lanes = lanes_of_fold(lanes, self.axes[axis], inner.statements, folds)
        scope.statements.append(For(self.axes[axis], inner.statements, folds, lanes))
        return [pair for sink, value in higher for pair in self._risen(sink, value, scope)]

    def _lanes(self, axis: int, body: Sequence[Statement]) -> int:
        """Returns the lanes of a loop: 1 if there are loops within."""
        if any(isinstance(s, For) for s in body):
            return 1
        sizes = [s.value.dtype.itemsize for s in body if isinstance(s, Let | Load | PlaceWithin)]
        most = LANE_BYTES // max([4, *sizes])
        return int(min(most, 1 << max(self.graph.lengths[axis] - 1, 0).bit_length()))

    def _sunk(self, sink: Sink, scope: Scope) -> list[tuple[Sink, Operand]]:
        """Writes a store, or returns what is folded."""
        values = [self._value(x, scope) for x in sink.needed]
        if sink.node.operation == "fold" and sink.over:
            return self._risen(sink, values[0], scope)
        assert sink.buffer is not None
        for part, value in enumerate(values):
            self._stored(sink.buffer, sink.axes, value, scope, part)
        return []

    def _stored(
        self,
        buffer: Buffer,
        axes: Iterable[int],
        value: Operand,
        scope: Scope,
        part: int | None = None,
    ) -> None:
        if buffer.role == "scratch":
            axes = [a for a in axes if a >= self._rows]
        scope.statements.append(Store(buffer, self._index(buffer, axes, part), value))

    def _risen(self, sink: Sink, value: Operand, scope: Scope) -> list[tuple[Sink, Operand]]:
        """Takes a fold further that is complete within a scope, but for the loops around it."""
        if scope.axes and scope.axes[-1] in sink.over:
            return [(sink, value)]
        if leftover(sink):
            assert sink.buffer is not None
            axes = sink.node.axes
            if sink.buffer.role == "scratch":
                axes = frozenset(a for a in axes if a >= self._rows)
            index = self._index(sink.buffer, axes, sink.part)
            scope.statements.append(UpdateOf(sink.buffer, index, sink.node.detail, value))
        elif sink.buffer is not None:
            if 0 in sink.over and self._divisor(sink) != 1:
                total, value = value, LoopValue(sink.node.dtype)
                divisor = sink.node.dtype.type(self._divisor(sink))
                scope.statements.append(Let(value, "divide", [total, divisor]))
            self._stored(sink.buffer, sink.node.axes, value, scope, sink.part)
        elif isinstance(value, LoopValue):
            scope.values[sink.node] = value
        return []

    def _cleared(self, sink: Sink, scope: Scope, axes: GridAxes) -> None:
        """Fills memory that is updated with what the fold begins with; both parts of elements."""
        assert sink.buffer is not None
        buffer, first = sink.buffer, fold_identity(sink.node.detail, sink.node.dtype)
        parts = [None] if sink.part is None else [0, 1]
        body: list[Statement] = [Store(buffer, self._index(buffer, axes, x), first) for x in parts]
        for axis in sorted(axes, reverse=True):
            body = [For(self.axes[axis], body, (), self._lanes(axis, body))]
        scope.statements += body

    # -- values

    def _value(self, node: Expr, scope: Scope) -> Operand:
        """Returns the value of a node, written where no loop is around it that it does not need."""
        pending = [(unspread(node), scope)]
        while True:
            node, scope = pending[-1]
            found = self._known(node, scope)
            if found is None:
                home = scope.home(node.axes)
                operands = [unspread(x) for x in node.operands]
                values = [self._known(x, home) for x in operands]
                if None in values:
                    pending += [(x, home) for x, v in zip(operands, values) if v is None]
                    continue
                found = home.values[node] = LoopValue(node.dtype)
                home.statements.append(self._statement(found, node, values))
            pending.pop()
            if not pending:
                return found

    def _statement(self, value: LoopValue, node: Expr, operands: Sequence[Any]) -> Statement:
        """Returns what computes the value of a node."""
        operation = node.operation
        if operation == "within":
            return PlaceWithin(value, operands[0], node.detail)
        if operation == "gather":
            number, terms, strides, begin = node.detail
            picks = list(zip(operands, strides, strict=True))
            index = Index([(self.axes[a], stride) for a, stride in terms], begin, picks)
            return Load(value, self.inputs[number], index)
        if operation == "library":
            operation = f"library_{node.detail}"
        return Let(value, operation, operands)

    def _known(self, node: Expr, scope: Scope) -> Operand | None:
        """Returns the value of a node that was computed before, or lies in memory; or None."""
        if node.operation == "constant":
            return node.detail  # type: ignore[no-any-return]
        found = scope.find(node)
        if found is not None:
            return found
        home = scope.home(node.axes)
        kept = self._kept.get(node)
        value = LoopValue(node.dtype)
        if node.operation == "input":
            number, part = input_place(node)
            buffer = self.inputs[number]
            index = self._index(buffer, node.axes, part)
            if number in self._strides:
                steps = [(self.axes[a], self._strides[number].get(a, 0)) for a in sorted(node.axes)]
                index = Index(steps, -sum((x.extent - 1) * min(step, 0) for x, step in steps))
            home.statements.append(Load(value, buffer, index))
        elif node.operation == "place":
            home.statements.append(PlaceOf(value, self.axes[node.detail]))
        elif kept is not None and kept in self._written:
            axes = [a for a in node.axes if a >= self._rows]
            home.statements.append(Load(value, kept, self._index(kept, axes)))
        else:
            assert node.operation != "fold", "a fold is needed before its stage"
            return None
        home.values[node] = value
        return value
