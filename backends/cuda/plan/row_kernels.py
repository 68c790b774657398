"""Kernels that have whole rows: what they fold is used for all elements of the row again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...kernels.efforts import MOST_EFFORT_AGAIN, operation_effort
from ...kernels.kernel import fold_identity
from .cpp import fold_functor, held_type, shown_number
from .fold_kernels import FoldSink, accumulator_type, begun, fold_one_more, store_fold
from .kernel_text import UNUSED, GeneratedKernel, KernelText
from .map_kernels import StoreSink, load_packs, pack_name, pack_type, store_element, store_packs
from .points import Points, PointSegment

if TYPE_CHECKING:
    from ...kernels.graph import Expr, GridAxes
    from .region_rooms import RegionRooms

__all__ = ["RowKernel"]

# A warp has a short row; longer ones have a block, of more threads for the longest.
LONGEST_OF_WARP, LONGEST_OF_BLOCK = 1024, 16384
THREADS_OF_ROW, THREADS_OF_LONG_ROW = 256, 1024
WARPS_OF_BLOCK = 8
# The elements that a thread holds in registers at most, of 4 bytes each, and those of one node.
MOST_KEPT_WORDS, MOST_KEPT_ELEMENTS = 64, 32


class RowKernel:
    """Writes a kernel that has whole rows.

    It goes over a row several times. In each round it computes what needs the folds of the rounds
    before.

    Args:
        source: the kernels of the region.
        name: its name.
        row_axes: the axes along rows, which are the last ones of the grid.
        sinks: the folds.
        stored: what is stored, for each row or for each of its elements.
    """

    def __init__(
        self,
        source: RegionRooms,
        name: str,
        row_axes: GridAxes,
        sinks: Sequence[FoldSink],
        stored: Sequence[StoreSink],
    ) -> None:
        self.source = source
        self.inner = tuple(sorted(row_axes))
        self.outer = tuple(range(len(source.lengths) - len(row_axes)))
        self.rows = prod(source.lengths[a] for a in self.outer)
        self.length = prod(source.lengths[a] for a in self.inner)
        width = source.width if self.length % source.width == 0 else 1
        if source.lanes == 1:
            self.threads = 1
        elif self.length <= LONGEST_OF_WARP:
            self.threads = source.lanes
        else:
            short = self.length <= LONGEST_OF_BLOCK
            self.threads = THREADS_OF_ROW if short else THREADS_OF_LONG_ROW
        self.at_once = WARPS_OF_BLOCK if self.threads == source.lanes > 1 else 1
        self.width = width
        self.steps = -(-self.length // (self.threads * width))
        self.sinks = {sink.fold: sink for sink in sinks}
        self.stored = stored
        targets = [x.operands[0] for x in self.sinks] + [sink.node for sink in stored]
        self.needed = source.needed([*self.sinks, *targets])
        self.round = self._rounds()
        self.text = KernelText(name, self.threads * self.at_once, source.place_type)
        lengths = source.lengths
        row = PointSegment(self.outer, "r")
        self.points = Points(lengths, [row, PointSegment(self.inner, "c")])
        self.at_base = Points(lengths, [row, PointSegment(self.inner, "base")])
        self.of_row = Points(lengths, [row])

    def _rounds(self) -> dict[Expr, int]:
        """Returns for each node the first round in which it can be computed."""
        found: dict[Expr, int] = {}
        for node in sorted(self.needed, key=lambda x: x.number):
            if node in self.source.rooms:
                found[node] = 0
                continue
            before = max([found[x] for x in node.operands], default=0)
            found[node] = before + (node in self.sinks)
        return found

    def _is_inner(self, node: Expr) -> bool:
        return not node.axes.isdisjoint(self.inner)

    def written(self) -> GeneratedKernel:
        """Returns the kernel."""
        text, place = self.text, self.source.place_type
        text.add(f"const {place} t = threadIdx.x % {self.threads};")
        row = f"blockIdx.x * ({place}){self.at_once} + threadIdx.x / {self.threads}"
        text.add(f"const {place} r = {row};")
        if self.rows % self.at_once:
            text.add(f"if (r >= {self.rows}) return;")
        self._find_kept()
        for node in self.kept:
            count = self.steps * self.width
            text.add(f"{held_type(node.dtype)} k{node.number}[{count}];")
        last = max(self.round.values(), default=0)
        self._of_row(0)
        for number in range(last + 1):
            self._loop(number)
            self._of_row(number + 1)
        text.open("if (t == 0)")
        for sink in self.sinks.values():
            store_fold(text, sink, self.of_row)
        for store in self.stored:
            if store.axes.isdisjoint(self.inner):
                text.store(store.room, self.of_row, text.names[store.node])
        text.close()
        return text.finished([-(-self.rows // self.at_once)], self.width)

    # -- what is kept

    def _targets(self, number: int) -> list[Expr]:
        """Returns the nodes along rows that a round is for."""
        folds = [x.operands[0] for x in self.sinks if self.round[x] == number + 1]
        stored = [
            sink.node
            for sink in self.stored
            if not sink.axes.isdisjoint(self.inner) and self.round[sink.node] == number
        ]
        return folds + stored

    def _computed(self, number: int, known: set[Expr]) -> set[Expr]:
        """Returns the nodes along rows that a round computes, given those that are kept."""
        seen: set[Expr] = set()
        stack = self._targets(number)
        while stack:
            node = stack.pop()
            if node in seen or not self._is_inner(node):
                continue
            seen.add(node)
            if node not in known and node not in self.source.rooms:
                stack += node.operands
        return seen

    def _find_kept(self) -> None:
        """Chooses nodes whose elements stay in registers from the first round that needs them."""
        self.kept: dict[Expr, int] = {}
        if self.steps * self.width > MOST_KEPT_ELEMENTS:
            return
        rounds = range(max(self.round.values(), default=0) + 1)
        uses: dict[Expr, list[int]] = {}
        for number in rounds:
            for node in self._computed(number, set()):
                uses.setdefault(node, []).append(number)
        again = [x for x, numbers in uses.items() if len(numbers) > 1]
        left = MOST_KEPT_WORDS
        # What takes long comes first, and of that what is made of the rest.
        for node in sorted(again, key=lambda x: (-self._effort(x), -x.number)):
            if node.operation in ("constant", "place", "spread"):
                continue
            words = self.steps * self.width * max(node.dtype.itemsize, 4) // 4
            dear = node in self.source.rooms or self._effort(node) > MOST_EFFORT_AGAIN
            if dear and words <= left:
                left -= words
                self.kept[node] = uses[node][0]
        # Of what others are made of that are kept, some is not needed again.
        wanted: set[Expr] = set()
        for number in rounds:
            known = {x for x, first in self.kept.items() if first < number}
            wanted |= self._computed(number, known) & known
        self.kept = {x: first for x, first in self.kept.items() if x in wanted}

    def _effort(self, node: Expr) -> int:
        """Returns the effort of a node of what is in memory, in that of an addition."""
        total, stack, seen = 0, [node], set()
        while stack:
            x = stack.pop()
            if x in seen or x in self.source.rooms or not self._is_inner(x):
                continue
            seen.add(x)
            stack += x.operands
            total += operation_effort(x) if x.operation != "spread" else 0
        return total

    # -- rounds

    def _of_row(self, number: int) -> None:
        """Writes what there is one of in each row and needs the folds of so many rounds."""
        text = self.text
        for fold in self.sinks:
            if self.round[fold] == number:
                text.names[fold] = f"f{fold.number}"
        nodes = {
            x
            for x in self.needed
            if self.round[x] == number and not self._is_inner(x) and x not in self.sinks
        }
        text.compute(nodes, self.of_row, self.source.rooms, {})

    def _loop(self, number: int) -> None:
        """Writes a round over the elements of a row."""
        text, source = self.text, self.source
        folds = [sink for x, sink in self.sinks.items() if self.round[x] == number + 1]
        stored = [
            sink
            for sink in self.stored
            if not sink.axes.isdisjoint(self.inner) and self.round[sink.node] == number
        ]
        if not folds and not stored:
            return
        begun(text, folds)
        known = {x for x, first in self.kept.items() if first < number}
        nodes = self._computed(number, known)
        names = dict(text.names)
        if self.steps * self.width <= MOST_KEPT_ELEMENTS:
            text.unroll()
        text.open(f"for (int step = 0; step < {self.steps}; ++step)")
        place = source.place_type
        text.add(f"const {place} base = (({place})step * {self.threads} + t) * {self.width};")
        whole = self.steps * self.threads * self.width == self.length
        if not whole:
            text.open(f"if (base < {self.length})")
        packs = load_packs(text, nodes - known, self.at_base, source.rooms, self.width)
        packed = [sink for sink in stored if self.width > 1]
        for sink in packed:
            text.add(f"{pack_type(sink.room, self.width)} {pack_name(sink.room)};")
        if self.width > 1:
            text.unroll()
            text.open(f"for (int lane = 0; lane < {self.width}; ++lane)")
        at = f"step * {self.width} + lane" if self.width > 1 else "step"
        text.add(f"{UNUSED} const {source.place_type} c = base{' + lane' * (self.width > 1)};")
        for node in sorted(nodes & known, key=lambda x: x.number):
            text.names[node] = f"k{node.number}[{at}]"
        text.compute(nodes, self.points, source.rooms, packs)
        for node, first in self.kept.items():
            if first == number:
                text.add(f"k{node.number}[{at}] = {text.names[node]};")
        for fold in folds:
            fold_one_more(text, fold, text.names[fold.fold.operands[0]])
        for sink in stored:
            store_element(text, sink, self.points, self.width)
        if self.width > 1:
            text.close()
            store_packs(text, [sink.room for sink in packed], self.at_base, self.width)
        if not whole:
            text.close()
        text.close()
        text.names = names
        for fold in folds:
            self._over_row(fold)

    def _over_row(self, sink: FoldSink) -> None:
        """Writes the fold of what the threads of a row have found."""
        name, dtype = f"f{sink.fold.number}", sink.fold.dtype
        kind, functor = accumulator_type(dtype), fold_functor(sink.fold.detail)
        if self.threads == self.source.lanes:
            self.text.add(f"{name} = warp_reduce({name}, {functor}());")
        else:
            first = shown_number(fold_identity(sink.fold.detail, dtype))
            self.text.add(f"{name} = block_reduce({name}, {functor}(), ({kind}){first});")
        if kind != held_type(dtype):
            # The rest of the row's kernel takes it as what it is in memory.
            self.text.add(f"{name} = ({held_type(dtype)}){name};")
