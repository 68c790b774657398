"""Runs of regions that do the same with different arrays, by one launch for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from operator import is_, itemgetter
from struct import pack_into
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
import numpy as np
from cupy import ndarray

from ...cpu.plan.native.not_native import NotNative
from ...known_buffers import SameBuffers
from ..kernels.optimizers import largest_table
from ..launch import is_contiguous
from .leaf_kernels import leaf_kernel
from .region_run import GpuRegion, GroupRun, dtypes_of_numbers, given_by_value, region_source

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, Operand

__all__ = ["LeafRun"]

# With more elements than this, blocks go over several pieces each.
FEW_ELEMENTS, MOST_STEPS = 1 << 21, 4


class LeafTable(NamedTuple):
    """The table of one launch.

    Attributes:
        leaves: how many regions it has.
        blocks: how many blocks there are.
        words: takes the words of the table from the addresses of all arrays, with the sizes and
            first blocks behind them.
        form: how these words lie in memory, for `struct.pack_into`.
    """

    leaves: int
    blocks: int
    words: Callable[[Sequence[int]], tuple[int, ...]]
    form: str


class LeafRun(GroupRun):
    """Computes the outputs of regions of one text: ``run(*operands)``.

    A region whose arrays lie in another order is computed by a launch of its own.

    Args:
        name, members, apart: as in `GroupRun`.

    Attributes:
        tables: the launches.
        read: the numbers of the operands whose addresses tables have.

    Raises:
        NotNative: a kernel does not compute them.
    """

    def __init__(self, name: str, members: Sequence[EquationLike], apart: bool = False) -> None:
        super().__init__(name, members, apart)
        first = members[0]
        given: Sequence[Operand] = first.operands
        on_host = given_by_value(given, apart)
        source = region_source(name, first.primitive, given, on_host)
        kernel = leaf_kernel(source, len(members), largest_table())
        if kernel is None:
            raise NotNative("not the same for all elements")
        self.kernel = kernel
        self._count = len(given)
        self._made = len(first.outputs)
        self._sizes = [prod(equation.outputs[0].type.shape) for equation in members]
        # The operands that are read from the table, by region.
        read = [place.number for place in kernel.columns if place.kind == "in"]
        self.read = [start + i for start in self._starts for i in read]
        self._numbers = [(place.number, on_host[place.number]) for place in kernel.numbers]
        self._held = dtypes_of_numbers(first.primitive)
        steps = MOST_STEPS if sum(self._sizes) > FEW_ELEMENTS else 1
        self.piece = kernel.step * steps
        self._firsts: list[int] = []
        self.tables = [*self._tables(read)]
        self._passed = np.dtype(f"V{kernel.rows * kernel.row_bytes}")
        self._alone: dict[int, GpuRegion] = {}
        # What stands for arrays, and the tables of their addresses.
        self._remembered: tuple[Any, list[Any]] = None, []

    def writes_apart(self, part: Any, x: Any) -> bool:
        """Says whether results may lie where an operand does, as in `GpuRegion`; of each part."""
        return True

    @property
    def _starts(self) -> range:
        """The first operands of the regions."""
        return range(0, len(self._members) * self._count, self._count)

    def _tables(self, read: Sequence[int]) -> Iterator[LeafTable]:
        leaves, rows = len(self._members), self.kernel.rows
        # Addresses of what is read, of what is written, sizes, first blocks.
        written, sizes = leaves * len(read), leaves * (len(read) + self._made)
        for start in range(0, leaves, rows):
            blocks, places = 0, []
            for leaf in range(start, min(start + rows, leaves)):
                for place in self.kernel.columns:
                    if place.kind == "in":
                        places.append(leaf * len(read) + read.index(place.number))
                    else:
                        places.append(written + leaf * self._made + place.number)
                places += [sizes + leaf, sizes + leaves + leaf]
                self._firsts.append(blocks)
                blocks += -(-self._sizes[leaf] // self.piece)
            words, form = itemgetter(*places), f"{len(places)}Q"
            yield LeafTable(len(self._firsts) - start, blocks, words, form)

    def __call__(
        self, *operands: Any, into: Sequence[ndarray | None] = (), known: SameBuffers | None = None
    ) -> list[Any]:
        """Queues the kernel, whose outputs lie in memory that is given, or in new memory.

        Args:
            operands: the operands: arrays, and numbers.
            into: for each output memory for it, or None.
            known: stands for all arrays, those of memory too; None where they may be others.
        """
        remembered, tables = self._remembered
        if known is None or remembered is not known:
            read = [operands[i] for i in self.read]
            sizes = self._sizes
            outs = self._memory(into)
            ordered = all(map(is_contiguous, read))
            if not ordered:
                read, sizes = self._in_order(operands, read, outs)
            words = [x.data.ptr for x in read] + [x.data.ptr for x in outs] + sizes + self._firsts
            tables = [self.passed(table, words) for table in self.tables]
            # New memory is another one in each call.
            alike = ordered and len(into) == len(outs) and all(map(is_, into, outs))
            self._remembered = known if alike else None, tables
        else:
            outs = [*into]
        numbers = [self._number(operands[i], i, on_host) for i, on_host in self._numbers]
        threads = (self.kernel.threads,)
        for table, passed in zip(self.tables, tables, strict=True):
            given = passed, table.leaves, self.piece, *numbers
            self._function((table.blocks,), threads, given)
        return outs

    def passed(self, table: LeafTable, words: Sequence[int]) -> Any:
        """Returns the table of a launch as it is passed.

        Args:
            table: the launch.
            words: the addresses of what is read and of what is written, the numbers of elements,
                and the first blocks.
        """
        passed = bytearray(self._passed.itemsize)
        pack_into(table.form, passed, 0, *table.words(words))
        return np.frombuffer(passed, self._passed)

    def _in_order(
        self, operands: Sequence[Any], read: list[Any], outs: list[Any]
    ) -> tuple[list[Any], list[int]]:
        """Computes regions whose arrays lie in another order, each by itself.

        Returns:
            What the launch reads, and for every region the number of elements: 0 for those.
        """
        sizes, count, made = [*self._sizes], self._count, self._made
        columns = len(read) // len(sizes)
        for leaf, start in enumerate(self._starts):
            if not all(map(is_contiguous, read[leaf * columns : (leaf + 1) * columns])):
                memory = outs[leaf * made : (leaf + 1) * made]
                self._by_itself(leaf, operands[start : start + count], memory)
                sizes[leaf] = 0
        return read, sizes

    def _number(self, x: Any, place: int, on_host: bool) -> Any:
        if on_host:
            return self._held[place].type(x)
        return x if type(x) is ndarray else cupy.asarray(x)

    def _by_itself(self, member: int, given: Sequence[Any], memory: Sequence[Any]) -> None:
        """Computes a region by a launch of its own, into memory."""
        run = self._alone.get(member)
        if run is None:
            equation = self._members[member]
            name = f"{self.name}_{member}"
            run = GpuRegion(name, equation.primitive, equation.operands, self._apart)
            self._alone[member] = run
        run(*given, into=memory)
