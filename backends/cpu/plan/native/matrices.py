"""Systems, inverses, determinants and Cholesky's factors within machine code, by LAPACK.

The functions are those that NumPy calls, of the library that it brought, on copies in Fortran's
order. Where they fail Python runs the segment or the loop again, and raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ....blas_calls import SMALLEST_BLAS_THREADED_WORK
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
    Statement,
    Store,
)
from ....native.blas import Blas
from ....native.counted_loops import counted_loop
from ....native.instructions import Lines, element_type
from ....native.printer import Module
from ....native.tables import clear_bytes, copy_bytes, element, returned_if_not_0
from ..codegen.operands import is_variable
from .copies import CopiedPart, copy_kernel
from .elementwise_nodes import operand_dtype, operand_shape
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .segment_code import LARGEST_PRODUCT, WRONG_LABEL
from .step_code import InnerFunction, InnerType, call_of_kernel

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = ["MatrixFunction", "is_matrix_function"]

# The functions of LAPACK that they call.
LAPACK_OF = {
    "cholesky": "potrf", "det": "getrf", "det_by_factors": "getrf", "inv": "gesv",
    "kept_factors": "getrf", "slogdet": "getrf", "slogdet_by_factors": "getrf", "solve": "gesv",
    "solve_by_factors": "getrs", "triangular_solve": "trtrs",
}  # fmt: skip
# Those that every matrix has.
UNCHECKED = ("det", "det_by_factors", "slogdet", "slogdet_by_factors")
# The time of a call of LAPACK, in tenths of a nanosecond.
LAPACK_EFFORT = 4000
# OpenBLAS shares triangular systems of so many rows among its threads, however small they are: on
# busy cores one of 24 rows took 20 ms in place of 6 us. It counts as the smallest product for which
# it does so.
FEWEST_THREADED_ROWS = 8
# Room for the whole numbers that a call takes by address.
WHOLE_NUMBERS = 12
# The place of the letters among them in a call that has pivots, and that of a count.
LETTERS, ZEROS = 10, 11


def is_matrix_function(equation: EquationLike) -> bool:
    """Says whether an equation is a function of matrices that LAPACK computes."""
    return equation.primitive.name in LAPACK_OF


class MatrixFunction(InnerFunction):
    """A function of a matrix, or of each matrix of a stack.

    Args:
        equation: the equation.
        blas: what has LAPACK's functions.

    Raises:
        NotNative: LAPACK is not known, or dtypes or shapes are others.
    """

    def __init__(self, equation: EquationLike, blas: Blas | None) -> None:
        super().__init__([])
        self._name = equation.primitive.name
        # The inverse of a singular matrix is NaN where that is not strict.
        self._params = equation.params
        self._strict = equation.params.get("strict", True)
        self.checks = self._strict and self._name not in UNCHECKED
        (out,) = equation.outputs
        self._dtype: DType = out.type.dtype
        dtypes = {operand_dtype(x) for x in equation.operands}
        if self._dtype.char not in "fd" or dtypes != {self._dtype}:
            raise NotNative("matrices of other dtypes")
        if blas is None or not blas.has(LAPACK_OF[self._name], self._dtype):
            raise NotNative("no LAPACK")
        self._blas = blas
        shapes = [operand_shape(x) for x in equation.operands]
        stack = np.broadcast_shapes(*[shape[:-2] for shape in shapes])
        if any(shape[:-2] not in (stack, ()) for shape in shapes):
            raise NotNative("stacks of several shapes")
        self._count = prod(stack)
        self._size = size = shapes[0][-1]
        # The columns of what is found by a system.
        self._columns = size if self._name == "inv" else shapes[-1][-1]
        work = size * size * (size + self._columns)
        if not out.type.size or not size or work >= LARGEST_PRODUCT:
            raise NotNative("an empty or a large matrix")
        self.operands = [
            (x.type if is_variable(x) else InnerType(shape, self._dtype), shape)
            for x, shape in zip(equation.operands, shapes, strict=True)
        ]
        if self._name == "inv":
            self.constants = [np.eye(size, dtype=self._dtype)]
            if not self._strict:
                self.constants.append(np.full((size, size), np.nan, self._dtype))
        if self._name == "solve_by_factors" and not self._strict:
            self.constants = [np.full((size, self._columns), np.nan, self._dtype)]
        # For each address of a matrix how many elements the next one lies behind.
        self._steps = [prod(shape[-2:]) if shape[:-2] else 0 for shape in shapes]
        self._steps += [0] * len(self.constants) + [out.type.size // self._count]
        self._matrix = size * size * self._dtype.itemsize
        self._right = size * self._columns * self._dtype.itemsize
        # Both copies, the pivots and the whole numbers begin at multiples of eight bytes.
        self._places = [0, up(self._matrix), up(self._matrix) + up(self._right)]
        self.memory = self._places[2] + 8 * (size + WHOLE_NUMBERS)
        self.largest_product = work
        if self._name == "triangular_solve" and size >= FEWEST_THREADED_ROWS:
            self.largest_product = max(work, SMALLEST_BLAS_THREADED_WORK)
        self.effort = CALL_EFFORT + self._count * (LAPACK_EFFORT + work)

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        self._write_one(f"{name}_of_one", module)
        given = [element(lines, "%table", i) for i in range(len(self._steps))]
        with counted_loop(lines, self._count) as number:
            shown = []
            for place, step in zip(given, self._steps, strict=True):
                offset = lines.let(f"mul i64 {number}, {step * self._dtype.itemsize}")
                shown.append(f"ptr {lines.let(f'getelementptr i8, ptr {place}, i64 {offset}')}")
            call = f"call i64 @{name}_of_one({', '.join([*shown, 'ptr %memory'])})"
            returned_if_not_0(lines, lines.let(call))
        lines.add("ret i64 0")

    def _write_one(self, name: str, module: Module) -> None:
        """Writes the function of one matrix: of its operands, its result, and memory."""
        lines = Lines()
        lines.begin("entry")
        given = [f"%given_{i}" for i in range(len(self._steps))]
        places = [lines.let(f"getelementptr i8, ptr %memory, i64 {n}") for n in self._places]
        write = {
            "det": self._determinant, "det_by_factors": self._determinant_by_factors,
            "cholesky": self._factor, "inv": self._system, "kept_factors": self._kept_factors,
            "slogdet": self._determinant, "slogdet_by_factors": self._determinant_by_factors,
            "solve": self._system, "solve_by_factors": self._system_by_factors,
            "triangular_solve": self._triangular_system,
        }[self._name]  # fmt: skip
        write(lines, module, given, places)
        lines.add("ret i64 0")
        module.declared.update(lines.declared)
        taken = ", ".join(f"ptr {x}" for x in (*given, "%memory"))
        head = f"define internal i64 @{name}({taken}) {{"
        module.functions[name] = "\n".join([head, *lines.text, "}"])

    def _lapack(
        self, lines: Lines, given: Sequence[str | int], numbers: str, function: str = ""
    ) -> str:
        function = function or LAPACK_OF[self._name]
        return self._blas.lapack(lines, function, self._dtype, given, numbers)

    def _pivots(self, lines: Lines, memory: str) -> str:
        """Writes the address of the pivots, behind the whole numbers."""
        return lines.let(f"getelementptr i64, ptr {memory}, i64 {WHOLE_NUMBERS}")

    def _words(self, lines: Lines, memory: str, letters: Sequence[str]) -> list[str]:
        """Writes letters behind the whole numbers; returns their addresses."""
        found = []
        for number, letter in enumerate(letters):
            place = lines.let(f"getelementptr i8, ptr {memory}, i64 {8 * WHOLE_NUMBERS + number}")
            lines.add(f"store i8 {ord(letter)}, ptr {place}, align 1")
            found.append(place)
        return found

    def _system(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        matrix, right, out = given[0], given[1], given[-1]
        copied, solution, numbers = places
        size, columns = self._size, self._columns
        self._turned(lines, module, (size, size), matrix, copied)
        if self._name == "inv" or columns == 1:
            copy_bytes(lines, solution, right, self._right)
        else:
            self._turned(lines, module, (size, columns), right, solution)
        pivots = self._pivots(lines, numbers)
        failed = self._lapack(lines, [size, columns, copied, size, pivots, solution, size], numbers)
        if self._strict:
            self._unless(lines, failed)
            self._turned(lines, module, (columns, size), solution, out)
            return
        singular, regular, end = (lines.label(x) for x in ("singular", "regular", "end"))
        fine = lines.let(f"icmp eq i64 {failed}, 0")
        lines.add(f"br i1 {fine}, label %{regular}, label %{singular}")
        lines.begin(singular)
        copy_bytes(lines, out, given[2], self._matrix)
        lines.add(f"br label %{end}")
        lines.begin(regular)
        self._turned(lines, module, (columns, size), solution, out)
        lines.add(f"br label %{end}")
        lines.begin(end)

    def _triangular_system(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        matrix, right, out = given
        _, solution, numbers = places
        size, columns, params = self._size, self._columns, self._params
        self._turned(lines, module, (size, columns), right, solution)
        # In Fortran's order the matrix is its transpose.
        words = ["U" if params["lower"] else "L", "N" if params["transposed"] else "T"]
        words.append("U" if params["unit_diagonal"] else "N")
        chosen = self._words(lines, numbers, words)
        failed = self._lapack(
            lines, [*chosen, size, columns, matrix, size, solution, size], numbers
        )
        self._unless(lines, failed)
        self._turned(lines, module, (columns, size), solution, out)

    def _factor(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        matrix, out = given
        copied, _, numbers = places
        size = self._size
        call_of_kernel(lines, module, hermitian_kernel(self._dtype, size), [matrix, matrix, copied])
        (lower,) = self._words(lines, numbers, ["L"])
        self._unless(lines, self._lapack(lines, [lower, size, copied, size], numbers))
        self._turned(lines, module, (size, size), copied, out)
        for row in range(size - 1):
            offset = (row * size + row + 1) * self._dtype.itemsize
            begin = lines.let(f"getelementptr i8, ptr {out}, i64 {offset}")
            clear_bytes(lines, begin, (size - 1 - row) * self._dtype.itemsize)

    def _determinant(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        """Writes the sign and the logarithm of the determinant, of the factors' diagonal."""
        matrix, out = given
        copied, _, numbers = places
        size = self._size
        self._turned(lines, module, (size, size), matrix, copied)
        pivots = self._pivots(lines, numbers)
        singular = self._lapack(lines, [size, size, copied, size, pivots], numbers)
        self._of_diagonal(lines, copied, pivots, singular, out)

    def _of_diagonal(
        self, lines: Lines, copied: str, pivots: str, singular: str, out: str
    ) -> None:
        """Writes the determinant of factors, and ``singular``, which is 0 for regular matrices."""
        size, kind = self._size, element_type(self._dtype)
        short, align = "f" if self._dtype.char == "f" else "", self._dtype.itemsize
        before, head, end = lines.block, lines.label("head"), lines.label("end")
        place, sign, total, following, turned, sum_ = (lines.name() for _ in range(6))
        lines.add(f"br label %{head}")
        lines.begin(head)
        lines.add(f"{place} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
        lines.add(f"{sign} = phi {kind} [ 1.0, %{before} ], [ {turned}, %{head} ]")
        lines.add(f"{total} = phi {kind} [ 0.0, %{before} ], [ {sum_}, %{head} ]")
        lines.add(f"{following} = add i64 {place}, 1")
        whole = f"i{self._blas.bits}"
        pivot = lines.let(f"getelementptr {whole}, ptr {pivots}, i64 {place}")
        row = lines.let(f"load {whole}, ptr {pivot}, align {self._blas.bits // 8}")
        if whole != "i64":
            row = lines.let(f"sext {whole} {row} to i64")
        swapped = lines.let(f"icmp ne i64 {row}, {following}")
        step = lines.let(f"mul i64 {place}, {size + 1}")
        entry = lines.let(f"getelementptr {kind}, ptr {copied}, i64 {step}")
        number = lines.let(f"load {kind}, ptr {entry}, align {align}")
        negative = lines.let(f"fcmp olt {kind} {number}, 0.0")
        opposite = lines.let(f"fneg {kind} {number}")
        length = lines.let(f"select i1 {negative}, {kind} {opposite}, {kind} {number}")
        turns = lines.let(f"xor i1 {swapped}, {negative}")
        other = lines.let(f"fneg {kind} {sign}")
        lines.add(f"{turned} = select i1 {turns}, {kind} {other}, {kind} {sign}")
        logarithm = lines.call(f"log{short}", kind, [(kind, length)])
        lines.add(f"{sum_} = fadd {kind} {total}, {logarithm}")
        more = lines.let(f"icmp slt i64 {following}, {size}")
        lines.add(f"br i1 {more}, label %{head}, label %{end}")
        lines.begin(end)
        regular = lines.let(f"icmp eq i64 {singular}, 0")
        found = lines.let(f"select i1 {regular}, {kind} {turned}, {kind} 0.0")
        lowest = "0xFFF0000000000000"
        size_of = lines.let(f"select i1 {regular}, {kind} {sum_}, {kind} {lowest}")
        if self._name.startswith("det"):
            size_of = lines.call(f"exp{short}", kind, [(kind, size_of)])
            found = lines.let(f"fmul {kind} {found}, {size_of}")
        lines.add(f"store {kind} {found}, ptr {out}, align {align}")
        if self._name.startswith("slogdet"):
            second = lines.let(f"getelementptr {kind}, ptr {out}, i64 1")
            lines.add(f"store {kind} {size_of}, ptr {second}, align {align}")

    def _kept_factors(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        matrix, out = given
        size, kind, align = self._size, element_type(self._dtype), self._dtype.itemsize
        pivots = self._pivots(lines, places[2])
        self._turned(lines, module, (size, size), matrix, out)
        singular = self._lapack(lines, [size, size, out, size, pivots], places[2])
        if self._strict:
            self._unless(lines, singular)
        whole = f"i{self._blas.bits}"
        with counted_loop(lines, size) as number:
            source = lines.let(f"getelementptr {whole}, ptr {pivots}, i64 {number}")
            row = lines.let(f"load {whole}, ptr {source}, align {self._blas.bits // 8}")
            shown = lines.let(f"sitofp {whole} {row} to {kind}")
            behind = lines.let(f"add i64 {number}, {size * size}")
            place = lines.let(f"getelementptr {kind}, ptr {out}, i64 {behind}")
            lines.add(f"store {kind} {shown}, ptr {place}, align {align}")

    def _known_factors(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> tuple[str, str, str]:
        """Writes the address of the factors, that of the pivots, and how many of these are 0.

        Where no factors were found the matrix is factorised.
        """
        factors, matrix = given[:2]
        copied, _, numbers = places
        size, kind, align = self._size, element_type(self._dtype), self._dtype.itemsize
        whole = f"i{self._blas.bits}"
        pivots = self._pivots(lines, numbers)
        known, absent, end = (lines.label(x) for x in ("known", "absent", "end"))
        last = lines.let(f"getelementptr {kind}, ptr {factors}, i64 {size * size}")
        first = lines.let(f"load {kind}, ptr {last}, align {align}")
        found = lines.let(f"fcmp ogt {kind} {first}, 0.0")
        lines.add(f"br i1 {found}, label %{known}, label %{absent}")
        lines.begin(known)
        with counted_loop(lines, size) as number:
            source = lines.let(f"getelementptr {kind}, ptr {last}, i64 {number}")
            row = lines.let(f"load {kind}, ptr {source}, align {align}")
            pivot = lines.let(f"fptosi {kind} {row} to {whole}")
            place = lines.let(f"getelementptr {whole}, ptr {pivots}, i64 {number}")
            lines.add(f"store {whole} {pivot}, ptr {place}, align {self._blas.bits // 8}")
        known = lines.block
        lines.add(f"br label %{end}")
        lines.begin(absent)
        self._turned(lines, module, (size, size), matrix, copied)
        self._lapack(lines, [size, size, copied, size, pivots], numbers, "getrf")
        absent = lines.block
        lines.add(f"br label %{end}")
        lines.begin(end)
        both = lines.let(f"phi ptr [ {factors}, %{known} ], [ {copied}, %{absent} ]")
        zeros = lines.let(f"getelementptr i64, ptr {numbers}, i64 {ZEROS}")
        lines.add(f"store i64 0, ptr {zeros}, align 8")
        with counted_loop(lines, size) as number:
            step = lines.let(f"mul i64 {number}, {size + 1}")
            entry = lines.let(f"getelementptr {kind}, ptr {both}, i64 {step}")
            value = lines.let(f"load {kind}, ptr {entry}, align {align}")
            one = lines.let(f"zext i1 {lines.let(f'fcmp oeq {kind} {value}, 0.0')} to i64")
            before = lines.let(f"load i64, ptr {zeros}, align 8")
            lines.add(f"store i64 {lines.let(f'add i64 {before}, {one}')}, ptr {zeros}, align 8")
        return both, pivots, lines.let(f"load i64, ptr {zeros}, align 8")

    def _system_by_factors(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        right, out = given[2], given[-1]
        _, solution, numbers = places
        size, columns = self._size, self._columns
        factors, pivots, zeros = self._known_factors(lines, module, given, places)
        if self._strict:
            self._unless(lines, zeros)
        self._turned(lines, module, (size, columns), right, solution)
        letter = lines.let(f"getelementptr i64, ptr {numbers}, i64 {LETTERS}")
        word = "T" if self._params["transposed"] else "N"
        lines.add(f"store i8 {ord(word)}, ptr {letter}, align 1")
        self._lapack(
            lines, [letter, size, columns, factors, size, pivots, solution, size], numbers
        )
        self._turned(lines, module, (columns, size), solution, out)
        if self._strict:
            return
        singular, end = lines.label("singular"), lines.label("end")
        regular = lines.let(f"icmp eq i64 {zeros}, 0")
        lines.add(f"br i1 {regular}, label %{end}, label %{singular}")
        lines.begin(singular)
        copy_bytes(lines, out, given[3], self._right)
        lines.add(f"br label %{end}")
        lines.begin(end)

    def _determinant_by_factors(
        self, lines: Lines, module: Module, given: Sequence[str], places: Sequence[str]
    ) -> None:
        factors, pivots, zeros = self._known_factors(lines, module, given, places)
        self._of_diagonal(lines, factors, pivots, zeros, given[-1])

    def _unless(self, lines: Lines, failed: str) -> None:
        """Writes the return where LAPACK failed."""
        bad = lines.let(f"icmp ne i64 {failed}, 0")
        returned_if_not_0(lines, lines.let(f"select i1 {bad}, i64 {WRONG_LABEL}, i64 0"))

    def _turned(
        self, lines: Lines, module: Module, shape: tuple[int, int], source: str, place: str
    ) -> None:
        """Writes the transposed copy of a matrix of a shape."""
        rows, columns = shape
        part = CopiedPart((columns, rows), (1, columns), 0)
        kernel = copy_kernel(self._dtype, (columns, rows), [part])
        call_of_kernel(lines, module, kernel, [source, place])


def up(size: int) -> int:
    """Returns a number of bytes, rounded up to a multiple of eight."""
    return -(-size // 8) * 8


def hermitian_kernel(dtype: DType, size: int) -> LoopKernel:
    """Returns the kernel of half the sum of a matrix and its transpose, which it takes twice."""
    left, right, out = (
        Buffer(name, dtype, (size * size,), role)
        for name, role in (("matrix", "in"), ("transpose", "in"), ("out", "out"))
    )
    row, column = LoopAxis("row", size), LoopAxis("column", size)
    x, y, total, half = (LoopValue(dtype) for _ in range(4))
    body: list[Statement] = [
        Load(x, left, Index([(row, size), (column, 1)])),
        Load(y, right, Index([(row, 1), (column, size)])),
        Let(total, "add", [x, y]),
        Let(half, "multiply", [total, dtype.type(0.5)]),
        Store(out, Index([(row, size), (column, 1)]), half),
    ]
    rows: list[Statement] = [For(row, [For(column, body)])]
    kernel = LoopKernel("hermitian", [left, right, out], [], rows)
    if config.check_programs:
        check_kernel(kernel)
    return kernel
