"""From the graph of a region to kernels: which nodes each computes, and what lies in memory.

Three forms of kernels compute everything. One goes over points and stores what it finds there. One
folds, and may store at the points that it goes over. One has whole rows, so that it can use what
it has folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...kernels.efforts import gone, needed_nodes, unspread
from ...kernels.graph import Expr, GridAxes
from .fold_kernels import MOST_FOLDS_OF_COLUMNS, FoldSink, fold_kernels, is_across
from .kernel_text import Argument, GeneratedKernel, Room
from .map_kernels import StoreSink, map_kernel
from .points import ordered_strides
from .region_rooms import RegionRooms
from .row_kernels import RowKernel

if TYPE_CHECKING:
    from ...annotations import DType
    from ...kernels.kernel_result import KernelResult

__all__ = ["RegionSource"]


class RegionSource(RegionRooms):
    """The kernels of a region.

    Attributes:
        kernels: the kernels, in the order of their launches.
        results: the results, stored as nodes without spreads, with their memory.
        writes_apart: whether a thread reads the elements of inputs that lie in the order of results
            before it writes the same elements of results.

    Args:
        name: what their names begin with.
        lengths: the lengths of the grid's axes.
        inputs: the nodes of the inputs.
        results: the results.
        dtypes: the dtypes of the results in memory.
        strides: for inputs that lie in another order, by their numbers, the strides of their axes.
        numbers: the inputs that are numbers, passed by value.
        width: how many elements are loaded at once, at most.
        lanes: how many threads go over a row or add up a column; 1 for a processor without warps.
    """

    def __init__(
        self,
        name: str,
        lengths: Sequence[int],
        inputs: Sequence[Expr],
        results: Sequence[KernelResult],
        dtypes: Sequence[DType],
        strides: Mapping[int, Mapping[int, int]],
        numbers: Iterable[int],
        width: int,
        lanes: int = 32,
    ) -> None:
        super().__init__(lengths, inputs, strides, numbers, width, lanes)
        self.name = name
        self.kernels: list[GeneratedKernel] = []
        self.results = [
            (r, Room(Argument("out", i), dtype, ordered_strides(r.axes, self.lengths)))
            for i, (r, dtype) in enumerate(zip(results, dtypes, strict=True))
        ]
        self._write()
        self.writes_apart = len(self.kernels) == 1 and not folds_of(results)

    # -- what depends on what

    def open_folds(self, node: Expr) -> set[Expr]:
        """Returns the folds that a node needs and that are not in memory; not itself."""
        if node in self.rooms:
            return set()
        below = self.needed([node]) - {node}
        return {x for x in below if x.operation == "fold" and x not in self.rooms}

    # -- the schedule

    def _write(self) -> None:
        late = [pair for pair in self.results if is_fold(pair[0])]
        self._pending = [pair for pair in self.results if pair not in late]
        # Folds that are results themselves are stored by what folds.
        self._folded: dict[Expr, list[tuple[KernelResult, Room]]] = {}
        for r, room in late:
            self._folded.setdefault(unspread(r.node), []).append((r, room))
        needed = needed_nodes([r.node for r, _ in self.results], self.rooms)
        self._folds = [x for x in needed if x.operation == "fold"]
        row_axes = self._row_axes()
        rows = [x for x in self._folds if self._is_of_rows(x, row_axes)]
        while self._folds:
            ready = [x for x in self._folds if x not in rows and not self.open_folds(x)]
            if ready:
                first = ready[0]
                over = first.operands[0].axes, gone(first)
                group = [x for x in ready if (x.operands[0].axes, gone(x)) == over]
                if is_across(first):
                    group = group[:MOST_FOLDS_OF_COLUMNS]
                self._fold(group)
                self._folds = [x for x in self._folds if x not in group]
                continue
            of_rows = set(rows)
            group = [x for x in rows if x in self._folds and self.open_folds(x) <= of_rows]
            self._rows(group, row_axes)
            self._folds = [x for x in self._folds if x not in group]
        while self._pending:
            axes = self._pending[0][0].axes
            stored = [pair for pair in self._pending if pair[0].axes == axes]
            self._pending = [pair for pair in self._pending if pair not in stored]
            self.kernels.append(map_kernel(self, self._next_name(), axes, stores(stored)))

    def _row_axes(self) -> GridAxes:
        """Returns the last axes over which most folds go row by row; none without such folds."""
        counts: dict[GridAxes, int] = {}
        for x in self._folds:
            axes = gone(x)
            counts[axes] = counts.get(axes, 0) + self._is_of_rows(x, axes)
        return max(counts, key=lambda axes: counts[axes], default=frozenset())

    def _is_of_rows(self, fold: Expr, axes: GridAxes) -> bool:
        """Says whether a fold goes over whole rows, which are the last axes of the grid."""
        count = len(self.lengths)
        last = frozenset(range(count - len(axes), count))
        whole = fold.operands[0].axes == frozenset(range(count))
        return gone(fold) == axes == last and whole and 0 < len(axes) < count

    def _next_name(self) -> str:
        return f"{self.name}_{len(self.kernels)}"

    def _fold_sinks(self, group: Sequence[Expr], inner: Iterable[Expr] = ()) -> list[FoldSink]:
        """Returns where folds are stored: as results, and for kernels behind this one."""
        sinks = []
        known = {*group, *inner}
        for fold in group:
            rooms = [(room, r.divisor) for r, room in self._folded.get(fold, ())]
            if self._is_needed_later(fold, known):
                axes = sorted(fold.axes)
                shape = tuple(self.lengths[a] for a in axes)
                room = self.scratch_room(shape, fold.dtype, ordered_strides(axes, self.lengths))
                rooms.append((room, 1))
            sinks.append(FoldSink(fold, rooms))
        return sinks

    def _is_needed_later(self, fold: Expr, known: set[Expr]) -> bool:
        """Says whether a kernel behind this one, which makes some folds, needs a fold."""
        targets = [r.node for r, _ in self._pending]
        targets += [x.operands[0] for x in self._folds if x not in known]
        return fold in self.needed(targets)

    def _fold(self, group: Sequence[Expr]) -> None:
        """Adds the kernels of folds over the same axes, and stores what they come by."""
        axes = group[0].operands[0].axes
        stored = [
            pair
            for pair in self._pending
            if pair[0].axes == axes and not self.open_folds(pair[0].node)
        ]
        self._pending = [pair for pair in self._pending if pair not in stored]
        sinks = self._fold_sinks(group)
        self.kernels += fold_kernels(self, self._next_name(), sinks, stores(stored))
        self._enter(sinks)

    def _rows(self, group: Sequence[Expr], row_axes: GridAxes) -> None:
        """Adds the kernel that folds rows, with all results that need nothing else."""
        known = set(group)
        rows = frozenset(range(len(self.lengths))) - row_axes
        stored = [
            pair
            for pair in self._pending
            if self.open_folds(pair[0].node) <= known
            and pair[0].axes in (rows, rows | row_axes)
        ]
        self._pending = [pair for pair in self._pending if pair not in stored]
        sinks = self._fold_sinks(group)
        kernel = RowKernel(self, self._next_name(), row_axes, sinks, stores(stored))
        self.kernels.append(kernel.written())
        self._enter(sinks)

    def _enter(self, sinks: Sequence[FoldSink]) -> None:
        """Notes the folds that lie in memory now."""
        for sink in sinks:
            for room, divisor in sink.rooms:
                if divisor == 1 and room.dtype == sink.fold.dtype:
                    self.rooms[sink.fold] = room


def folds_of(results: Iterable[KernelResult]) -> list[Expr]:
    """Returns the folds that results need."""
    return [x for x in needed_nodes([n for r in results for n in r.nodes]) if x.operation == "fold"]


def is_fold(result: KernelResult) -> bool:
    """Says whether a result is a fold, and has no more axes."""
    node = unspread(result.node)
    return node.operation == "fold" and node.axes == result.axes


def stores(pairs: Iterable[tuple[KernelResult, Room]]) -> list[StoreSink]:
    """Returns results as what a kernel stores."""
    return [StoreSink(r.node, r.axes, room) for r, room in pairs]
