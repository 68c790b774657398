"""Kernels and products in parts, as functions of machine code that threads share.

A kernel's parts are blocks of its rows. They do not depend on the number of threads. A product is
cut into one part for each thread, or into more where BLAS then computes each of them on one thread
by itself; a stack of products into parts of the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ....config import config
from ....kernels.check import check_kernel
from ....kernels.kernel import (
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    Statement,
    Store,
)
from ....kernels.schedule import LANE_BYTES
from ....native.blas import Blas
from ....native.instructions import GLUE, Lines
from ....native.printer import Module
from ....native.scratch import scratch_bytes
from ....native.tables import element
from ..threads.matmul import BLAS_TILE_ROWS, FEWEST_TILES
from .label_code import LabelTests, label_lanes, wrong_label

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = [
    *("KernelInParts", "LabelsInParts", "MatrixStack", "ProductInParts", "WorkInParts"),
    "sum_of_parts",
]

PART_ARGUMENTS = "ptr %room, i64 %number"


class WorkInParts:
    """A function of the addresses of its arrays and the number of a part.

    Attributes:
        parts: how many parts there are.
        memory: the bytes of memory that all of them need.
        how: the attributes of its function.
    """

    memory = 0
    how = GLUE

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def function(self, module: Module) -> str:
        """Writes its function, and returns the name; equal functions are one."""
        lines = Lines()
        lines.begin("entry")
        self._write(lines, module)
        lines.add("ret void")
        module.declared.update(lines.declared)
        return module.part("\n".join([f"({PART_ARGUMENTS}) {self.how} {{", *lines.text, "}"]))

    def _write(self, lines: Lines, module: Module) -> None:
        """Writes the work of a part."""
        raise NotImplementedError

    def _edge(self, lines: Lines, length: int, number: str, tile: int = 1) -> str:
        """Writes where the part of a number begins, or all ends; parts begin with whole tiles."""
        before = lines.let(f"mul i64 {number}, {length}")
        place = lines.let(f"udiv i64 {before}, {self.parts}")
        if tile == 1:
            return place
        tiles = lines.let(f"udiv i64 {place}, {tile}")
        begin = lines.let(f"mul i64 {tiles}, {tile}")
        last = lines.let(f"icmp eq i64 {number}, {self.parts}")
        return lines.let(f"select i1 {last}, i64 {length}, i64 {begin}")

    def _edges(self, lines: Lines, length: int, tile: int = 1) -> tuple[str, str]:
        """Writes where the part begins, and where it ends."""
        following = lines.let("add i64 %number, 1")
        low = self._edge(lines, length, "%number", tile)
        return low, self._edge(lines, length, following, tile)


class KernelInParts(WorkInParts):
    """A kernel whose parts are blocks of its rows.

    Args:
        kernel: the kernel of a block; its memory lies behind its arrays.
        rows: how many rows there are.
        parts: how many blocks there are.
    """

    def __init__(self, kernel: LoopKernel, rows: int, parts: int) -> None:
        super().__init__(parts)
        self.kernel = kernel
        self._rows = rows
        self.memory = parts * scratch_bytes(kernel)

    def _write(self, lines: Lines, module: Module) -> None:
        low, high = self._edges(lines, self._rows)
        memory = "null"
        if self.memory:
            offset = lines.let(f"mul i64 %number, {self.memory // self.parts}")
            begin = element(lines, "%room", len(self.kernel.buffers))
            memory = lines.let(f"getelementptr i8, ptr {begin}, i64 {offset}")
        name = module.kernel(self.kernel)
        given = f"i64 %number, i64 {low}, i64 {high}, ptr {memory}, ptr %room"
        lines.add(f"call void @{name}({given})")


class LabelsInParts(WorkInParts):
    """The test of labels, by the address of the labels and a word, which a wrong one sets.

    Args:
        labels: the labels.
        parts: how many parts there are.
    """

    def __init__(self, labels: LabelTests, parts: int) -> None:
        super().__init__(parts)
        self._labels = labels

    def _write(self, lines: Lines, module: Module) -> None:
        ends = self._edges(lines, self._labels.size)
        labels = self._labels._replace(address=element(lines, "%room", 0))
        wrong = wrong_label(lines, labels, ends, label_lanes(labels.dtype))
        some, end = lines.label("some"), lines.label("end")
        lines.add(f"br i1 {wrong}, label %{some}, label %{end}")
        lines.begin(some)
        place = lines.let("getelementptr ptr, ptr %room, i64 1")
        lines.add(f"store atomic i64 1, ptr {place} monotonic, align 8")
        lines.add(f"br label %{end}")
        lines.begin(end)


class MatrixStack(NamedTuple):
    """Matrices as BLAS takes them.

    Attributes:
        strides: those of the axes before the matrices', in elements.
        transposed: whether the columns of each lie in memory as rows.
        step: the distance of what lies as rows.
    """

    strides: tuple[int, ...]
    transposed: bool
    step: int

    def at_row(self, lines: Lines, row: str) -> str:
        """Writes the number of the element where a row begins."""
        return row if self.transposed else lines.let(f"mul i64 {row}, {self.step}")

    def at_column(self, lines: Lines, column: str) -> str:
        """Writes the number of the element where a column begins."""
        return lines.let(f"mul i64 {column}, {self.step}") if self.transposed else column


class ProductInParts(WorkInParts):
    """Products of matrices by BLAS.

    Args:
        blas: the BLAS.
        dtype: the dtype of all.
        stack: the lengths of the axes before the matrices'.
        sizes: the rows, the columns, and what is summed over.
        left, right: the factors.
        most: the most parts.
    """

    def __init__(
        self,
        blas: Blas,
        dtype: DType,
        stack: Sequence[int],
        sizes: tuple[int, int, int],
        left: MatrixStack,
        right: MatrixStack,
        most: int,
    ) -> None:
        self._by_rows = sizes[0] >= sizes[1]
        length = prod(stack) if prod(stack) > 1 else max(sizes[:2])
        super().__init__(min(most, length))
        self._blas, self._dtype = blas, dtype
        self._stack, self._sizes = tuple(stack), sizes
        self._left, self._right = left, right
        if prod(self._stack) > 1:
            # The products may be small, and the loop around them counts.
            self.how = "noinline"

    @property
    def work(self) -> int:
        """The multiplications of one call of BLAS."""
        if prod(self._stack) > 1:
            return prod(self._sizes)
        length = max(self._sizes[:2])
        return -(-length // self.parts) * prod(self._sizes) // length

    @property
    def has_vectors(self) -> bool:
        """Says whether a factor is a vector."""
        return 1 in self._sizes[:2]

    def _write(self, lines: Lines, module: Module) -> None:
        places = [element(lines, "%room", i) for i in range(3)]
        if prod(self._stack) > 1:
            self._write_stack(lines, places)
        else:
            self._write_matrix(lines, places)

    def _write_matrix(self, lines: Lines, places: Sequence[str]) -> None:
        rows, columns, terms = self._sizes
        length = max(rows, columns)
        tile = BLAS_TILE_ROWS if length >= FEWEST_TILES * BLAS_TILE_ROWS * self.parts else 1
        low, high = self._edges(lines, length, tile)
        size: str = lines.let(f"sub i64 {high}, {low}")
        if self._blas.bits == 32:
            size = lines.let(f"trunc i64 {size} to i32")
        x, y, out = places
        if self._by_rows:
            sizes: list[int | str] = [size, columns, terms]
            x = self._at(lines, x, self._left.at_row(lines, low))
            out = self._at(lines, out, lines.let(f"mul i64 {low}, {columns}"))
        else:
            sizes = [rows, size, terms]
            y = self._at(lines, y, self._right.at_column(lines, low))
            out = self._at(lines, out, low)
        self._call(lines, sizes, [x, y, out])

    def _write_stack(self, lines: Lines, places: Sequence[str]) -> None:
        rows, columns, terms = self._sizes
        low, high = self._edges(lines, prod(self._stack))
        before, head, end = lines.block, lines.label("head"), lines.label("end")
        number, following = lines.name(), lines.name()
        lines.add(f"br label %{head}")
        lines.begin(head)
        lines.add(f"{number} = phi i64 [ {low}, %{before} ], [ {following}, %{head} ]")
        places = list(places)
        left = number
        for axis in reversed(range(len(self._stack))):
            place = lines.let(f"urem i64 {left}, {self._stack[axis]}")
            left = lines.let(f"udiv i64 {left}, {self._stack[axis]}")
            for i, factor in enumerate((self._left, self._right)):
                if factor.strides[axis]:
                    offset = lines.let(f"mul i64 {place}, {factor.strides[axis]}")
                    places[i] = self._at(lines, places[i], offset)
        places[2] = self._at(lines, places[2], lines.let(f"mul i64 {number}, {rows * columns}"))
        self._call(lines, [rows, columns, terms], places)
        lines.add(f"{following} = add i64 {number}, 1")
        more = lines.let(f"icmp slt i64 {following}, {high}")
        lines.add(f"br i1 {more}, label %{head}, label %{end}")
        lines.begin(end)

    def _at(self, lines: Lines, place: str, offset: str) -> str:
        size = lines.let(f"mul i64 {offset}, {self._dtype.itemsize}")
        return lines.let(f"getelementptr i8, ptr {place}, i64 {size}")

    def _call(self, lines: Lines, sizes: Sequence[int | str], places: Sequence[str]) -> None:
        left, right = ((x.transposed, x.step) for x in (self._left, self._right))
        self._blas.call(lines, self._dtype, sizes, places, left, right, self._sizes[1])


def sum_of_parts(
    dtype: DType, operation: str, parts: int, size: int, divisor: int = 1
) -> LoopKernel:
    """Returns the kernel that puts the folds of all parts together, one part behind the other.

    Args:
        dtype: the dtype of all.
        operation: joins two of them.
        parts: how many there are.
        size: how many elements each of them has.
        divisor: what the result is divided by.
    """
    given = Buffer("parts", dtype, (parts * size,), "in")
    out = Buffer("out", dtype, (size,), "out")
    axis = LoopAxis("element", size)
    values = [LoopValue(dtype) for _ in range(parts)]
    body: list[Statement] = [
        Load(value, given, Index([(axis, 1)], number * size)) for number, value in enumerate(values)
    ]
    found: Operand = values[0]
    others: list[tuple[str, Operand]] = [(operation, value) for value in values[1:]]
    if divisor != 1:
        others.append(("divide", dtype.type(divisor)))
    for name, other in others:
        total = LoopValue(dtype)
        body.append(Let(total, name, [found, other]))
        found = total
    body.append(Store(out, Index([(axis, 1)]), found))
    lanes = min(LANE_BYTES // dtype.itemsize, 1 << (size - 1).bit_length())
    kernel = LoopKernel("sum_of_parts", [given, out], [], [For(axis, body, (), lanes)])
    if config.check_programs:
        check_kernel(kernel)
    return kernel
