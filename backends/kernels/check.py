"""Proves that a kernel keeps the rules of its language, whatever its numbers are.

- Every value is computed once, before its use and in a loop around its use. A fold's value is known
  behind its loop.
- Operands have the dtypes that an operation takes.
- Indexes stay within their buffers. Only an index of a part has the number of the block.
- Places that are picked by numbers are within an axis. Only inputs are read there.
- Inputs are read alone. Every element of an output is written once, and never read. Only where one
  run computes all rows a fold may be gathered in an output.
- Parts, scratch memory and such outputs are written before they are read or updated.
- Values are handed on by loops of single places. Only these and sums there begin with a value of
  their own.
- Folds over the rows of a block go to parts: they are complete only after all blocks.
- Lanes do not write what other lanes take.
- A loop within a loop with lanes has no lanes and writes nothing. Blocks are cut outside of it.
- A loop over tiles has no lanes, and is within no loop with lanes. Only loops over the same axis in
  it have places; one of them with lanes has one for each place of a tile. Memory that keeps the
  rows of one tile is used within one loop over tiles. Places of a tile that are computed together
  write nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..restoring import errstate
from .accesses import Complaint, buffer_elements
from .errors import KernelError
from .kernel import (
    BLOCK_NUMBER,
    Buffer,
    Fold,
    For,
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
    all_statements,
)
from .memory_rules import check_memory, check_pairs
from .operations import KERNEL_FUNCTIONS, KERNEL_OPERATIONS, result_dtype

__all__ = ["KernelError", "check_kernel", "check_shared"]

FOLDS = frozenset({"add", "maximum", "minimum", "multiply"})
HANDED_ON = "hand_on"
FUNCTIONS_OF_TWO = frozenset({"arctan2", "fmod", "hypot", "power"})
# Floats: NumPy's, and bfloat16, whose kind is that of raw memory.
FLOAT_KINDS = "fV"
LIBRARY_PREFIX = "library_"


def check_kernel(kernel: LoopKernel) -> None:
    """Checks that a kernel keeps all rules.

    Raises:
        KernelError: it breaks one. The message names the kernel, the buffer and the statement.
    """
    complain = Complaint(kernel)
    _Checker(kernel, complain).body(kernel.body, [], set())
    check_memory(kernel, complain)


def check_shared(kernel: LoopKernel, pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
    """Checks that outputs of a kernel may have the same memory as inputs.

    A load of an element has to come before its store: at the same places of the loops around both.

    Args:
        kernel: a kernel that keeps the rules.
        pairs: an input and an output each.

    Raises:
        KernelError: an element may be read after it is written.
    """
    check_pairs(kernel, pairs, Complaint(kernel))


class _Checker:
    """Checks everything that concerns one statement and what is known before it."""

    def __init__(self, kernel: LoopKernel, complain: Complaint) -> None:
        self.complain = complain
        self.buffers = {*kernel.buffers, *kernel.scratch}
        self.computed: set[LoopValue] = set()
        # The lengths of the axes that places are within.
        self.within: dict[LoopValue, int] = {}
        self.block: LoopAxis | None = None
        # The loop over tiles that uses memory for the rows of one.
        self.tiles: dict[Buffer, For] = {}
        self._check_buffers(kernel)

    def _check_buffers(self, kernel: LoopKernel) -> None:
        names: set[str] = set()
        outputs = False
        for buffer in (*kernel.buffers, *kernel.scratch):
            if buffer.name in names:
                self.complain("two buffers have this name", None, buffer)
            names.add(buffer.name)
        for buffer in kernel.buffers:
            if buffer.role not in ("in", "out", "some", "part"):
                self.complain(f"the role of an argument is {buffer.role!r}", None, buffer)
            if buffer.role == "in" and outputs:
                self.complain("an input comes after a result", None, buffer)
            outputs = outputs or buffer.role != "in"
            if buffer.role == "part" and buffer.shape[:1] != (BLOCK_NUMBER.extent,):
                self.complain("a part has no axis for the number of the block", None, buffer)
        for buffer in kernel.scratch:
            if buffer.role != "scratch":
                self.complain(f"the role of own memory is {buffer.role!r}", None, buffer)
        for buffer in kernel.buffers:
            if buffer.tile:
                self.complain("only own memory keeps the rows of one tile", None, buffer)

    def body(self, body: Sequence[Statement], loops: list[For], known: set[LoopValue]) -> None:
        """Checks statements. What they compute is added to the values that are known."""
        for statement in body:
            if isinstance(statement, For):
                self._loop(statement, loops, known)
            elif isinstance(statement, Let):
                for operand in statement.operands:
                    self._is_known(operand, known, statement)
                self._let(statement)
                self._compute(statement.value, known, statement)
            elif isinstance(statement, Load):
                self._access(statement, loops, known)
                self._has_dtype(statement, statement.buffer, statement.value.dtype)
                self._compute(statement.value, known, statement)
            elif isinstance(statement, PlaceOf):
                self._place(statement, loops)
                self._compute(statement.value, known, statement)
            elif isinstance(statement, PlaceWithin):
                self._is_known(statement.operand, known, statement)
                self._place_within(statement)
                self._compute(statement.value, known, statement)
            else:
                self._is_known(statement.operand, known, statement)
                self._access(statement, loops, known)
                self._has_dtype(statement, statement.buffer, statement.operand.dtype)
                if isinstance(statement, UpdateOf):
                    self._fold(statement, statement.operation, statement.buffer.dtype)

    # -- loops

    def _loop(self, loop: For, loops: list[For], known: set[LoopValue]) -> None:
        axis = loop.axis
        if axis is BLOCK_NUMBER:
            self.complain("no loop goes over the number of the block", loop)
        around = [outer for outer in loops if axis is outer.axis]
        if len(around) > 1 or (around and (loop.tile or not around[0].tile)):
            self.complain(f"a loop around it goes over {axis} too", loop)
        if loop.tile < 0 or (loop.tile and loop.lanes > 1):
            self.complain("a loop over tiles goes over single ones", loop)
        if around and loop.lanes not in (1, around[0].tile):
            self.complain(f"a tile of {around[0].tile} places has {loop.lanes} lanes", loop)
        if axis.block:
            if self.block is not None and self.block is not axis:
                self.complain(f"blocks are cut along {self.block} too", loop)
            self.block = axis
        if axis.extent < 0:
            self.complain("an axis has a negative length", loop)
        if loop.lanes < 1 or loop.lanes & (loop.lanes - 1):
            self.complain(f"{loop.lanes} lanes are no power of two", loop)
        if loop.together > 1:
            self._check_together(loop, loops, bool(around))
        if any(outer.lanes > 1 for outer in loops):
            self._check_inner(loop, bool(around))
        for fold in loop.folds:
            goes_on = fold.begin is not None or fold.operation == HANDED_ON
            if goes_on and (loop.lanes > 1 or loop.tile or axis.block):
                self.complain("a sum goes on in a loop that is not one of single places", loop)
            if fold.begin is not None:
                self._begin_of(fold, known, loop)
        handed = {fold.value for fold in loop.folds if fold.operation == HANDED_ON}
        inner = known | handed
        self.body(loop.body, [*loops, loop], inner)
        for fold in loop.folds:
            for operand in fold.operands:
                self._is_known(operand, inner, loop)
            self._fold_of(fold, loop)
        for fold in loop.folds:
            self._compute(fold.value, known, loop)

    def _check_together(self, loop: For, loops: Sequence[For], of_tile: bool) -> None:
        """Checks a loop some of whose places may be computed more than once."""
        if not of_tile or loop.lanes > 1 or loop.folds or any(x.lanes > 1 for x in loops):
            self.complain("only single places of a tile are computed together", loop)
        for s in all_statements(loop.body):
            if isinstance(s, UpdateOf) or (isinstance(s, Store) and not s.buffer.tile):
                self.complain("places that are computed together write", s, s.buffer)

    def _check_inner(self, loop: For, of_tile: bool) -> None:
        """Checks a loop within a loop with lanes, which may go over the places of a tile."""
        if loop.lanes > 1 or loop.tile or (loop.axis.block and not of_tile):
            self.complain("a loop with lanes has loops with lanes or blocks in it", loop)
        for statement in loop.body:
            if isinstance(statement, Store | UpdateOf):
                self.complain("a loop within a loop with lanes writes", statement, statement.buffer)

    def _fold_of(self, fold: Fold, loop: For) -> None:
        dtype = fold.value.dtype
        for operand in fold.operands:
            if operand.dtype != dtype:
                self.complain(f"a fold of {operand.dtype} gives {dtype}", loop)
        if fold.factor is not None and (fold.operation != "add" or dtype.kind != "f"):
            self.complain("only sums of floats have factors", loop)
        if fold.operation != HANDED_ON:
            self._fold(loop, fold.operation, dtype)

    def _begin_of(self, fold: Fold, known: set[LoopValue], loop: For) -> None:
        assert fold.begin is not None
        self._is_known(fold.begin, known, loop)
        if fold.operation not in ("add", HANDED_ON) or fold.begin.dtype != fold.value.dtype:
            self.complain(f"a fold of {fold.value.dtype} begins with {fold.begin.dtype}", loop)

    def _fold(self, statement: Statement, operation: str, dtype: np.dtype[Any]) -> None:
        if operation not in FOLDS:
            self.complain(f"{operation!r} is no fold", statement)
        problem = kernel_misfit(operation, (dtype, dtype), dtype)
        if problem:
            self.complain(problem, statement)

    def _place(self, statement: PlaceOf, loops: Sequence[For]) -> None:
        if all(loop.axis is not statement.axis for loop in loops):
            self.complain(f"no loop around it goes over {statement.axis}", statement)
        if statement.value.dtype != np.int32:
            self.complain(f"the number of a place is not int32: {statement.value.dtype}", statement)

    def _place_within(self, statement: PlaceWithin) -> None:
        value, taken = statement.value, statement.operand.dtype
        if value.dtype != np.int64:
            self.complain(f"the place is not int64: {value.dtype}", statement)
        if taken.kind not in "iu":
            self.complain(f"{taken} names no place", statement)
        if statement.length < 1:
            self.complain("an axis without places", statement)
        self.within[value] = statement.length

    # -- values

    def _compute(self, value: LoopValue, known: set[LoopValue], statement: Statement) -> None:
        if value in self.computed:
            self.complain(f"{self.complain.names.of(value)} is computed twice", statement)
        self.computed.add(value)
        known.add(value)

    def _is_known(self, operand: Operand, known: set[LoopValue], statement: Statement) -> None:
        if isinstance(operand, LoopValue):
            if operand not in known:
                name = self.complain.names.of(operand)
                self.complain(f"{name} is not known here", statement)
        elif not isinstance(operand, np.generic):
            self.complain(f"{operand!r} is no value and no constant of NumPy", statement)

    def _let(self, statement: Let) -> None:
        dtypes = tuple([x.dtype for x in statement.operands])
        problem = kernel_misfit(statement.operation, dtypes, statement.value.dtype)
        if problem:
            self.complain(problem, statement)

    # -- memory

    def _access(
        self, statement: Load | Store | UpdateOf, loops: Sequence[For], known: set[LoopValue]
    ) -> None:
        buffer, index = statement.buffer, statement.index
        if buffer not in self.buffers:
            self.complain("it is no buffer of the kernel", statement, buffer)
        first, last = index.begin, index.begin
        if index.picks and not (isinstance(statement, Load) and buffer.role == "in"):
            self.complain("only inputs are read at places that are picked", statement, buffer)
        for value, stride in index.picks:
            self._is_known(value, known, statement)
            if value not in self.within:
                name = self.complain.names.of(value)
                self.complain(f"{name} is within no axis", statement, buffer)
            first += min(stride * (self.within[value] - 1), 0)
            last += max(stride * (self.within[value] - 1), 0)
        around = [loop.axis for loop in loops if not loop.tile]
        if buffer.tile:
            self._check_tile(statement, loops)
        for axis, stride in index.terms:
            if axis is BLOCK_NUMBER:
                if buffer.role != "part":
                    self.complain("only a part has the number of the block", statement, buffer)
                continue
            if axis not in around:
                self.complain(f"no loop around it goes over {axis}", statement, buffer)
            first += min(stride * (axis.extent - 1), 0)
            last += max(stride * (axis.extent - 1), 0)
        size = buffer_elements(buffer)
        if buffer.role == "part" and index.stride(BLOCK_NUMBER) != size:
            step = index.stride(BLOCK_NUMBER)
            self.complain(
                f"the number of the block goes over {step} elements, not {size}",
                statement,
                buffer,
            )
        if all(loop.axis.extent for loop in loops) and not 0 <= first <= last < size:
            self.complain(f"it takes elements {first} to {last} of {size}", statement, buffer)

    def _check_tile(self, statement: Load | Store | UpdateOf, loops: Sequence[For]) -> None:
        """Checks the use of memory that keeps the rows of one tile."""
        buffer, index = statement.buffer, statement.index
        tiles = next((loop for loop in loops if loop.tile), None)
        if tiles is None or tiles.tile != buffer.tile:
            self.complain(f"no loop over tiles of {buffer.tile} is around it", statement, buffer)
        if self.tiles.setdefault(buffer, tiles) is not tiles:
            self.complain("two loops over tiles use it", statement, buffer)
        row = prod(buffer.shape[1:])
        first = index.begin + sum(s * (a.extent - 1) for a, s in index.terms if s < 0)
        last = index.begin + sum(
            s * (a.extent - 1) for a, s in index.terms if s > 0 and a is not tiles.axis
        )
        if index.stride(tiles.axis) != row or not 0 <= first <= last < row:
            self.complain("it takes elements of other rows", statement, buffer)

    def _has_dtype(
        self, statement: Load | Store | UpdateOf, buffer: Buffer, dtype: np.dtype[Any]
    ) -> None:
        if dtype != buffer.dtype:
            self.complain(f"{dtype} is not {buffer.dtype}", statement, buffer)


# -- operations


@cache
def kernel_misfit(operation: str, dtypes: tuple[np.dtype[Any], ...], result: np.dtype[Any]) -> str:
    """Returns what is wrong about the dtypes of an operation; empty if nothing is."""
    shown = ", ".join(map(str, dtypes))
    if operation in ("bits", "cast"):
        if len(dtypes) != 1:
            return f"{operation} takes 1 operand, not {len(dtypes)}"
        if operation == "bits" and dtypes[0].itemsize != result.itemsize:
            return f"{result} has another size than {shown}"
        return ""
    if operation.startswith(LIBRARY_PREFIX):
        if len(dtypes) < 3 or dtypes[0].kind != "b" or len({*dtypes[1:], result}) > 1:
            return f"{operation} takes a mask and operands of {result}, not {shown}"
        return "" if result.kind in FLOAT_KINDS else f"{operation} takes floats, not {result}"
    count = number_of_operands(operation)
    if count is None:
        return f"there is no operation {operation!r}"
    if len(dtypes) != count:
        return f"{operation} takes {count} operands, not {len(dtypes)}"
    if operation == "select" and dtypes[0].kind != "b":
        return f"select takes a mask first, not {dtypes[0]}"
    if len(set(dtypes[operation == "select" :])) > 1:
        return f"{operation} takes operands of one dtype, not {shown}"
    wanted = result_dtype(operation, list(dtypes))
    if result != wanted:
        return f"{operation} of {shown} gives {wanted}, not {result}"
    return "" if is_taken(operation, dtypes, result) else f"{operation} does not take {shown}"


def number_of_operands(operation: str) -> int | None:
    """Returns how many operands an operation takes; None of an unknown one."""
    if operation in KERNEL_FUNCTIONS:
        return 1 + (operation in FUNCTIONS_OF_TWO)
    if operation in ("fma", "select"):
        return 3
    return KERNEL_OPERATIONS[operation].nin if operation in KERNEL_OPERATIONS else None  # type: ignore[attr-defined]


def is_taken(operation: str, dtypes: Sequence[np.dtype[Any]], result: np.dtype[Any]) -> bool:
    """Says whether an operation takes operands of some dtypes: NumPy's own has to."""
    if operation in KERNEL_FUNCTIONS:
        return result in (np.float32, np.float64)
    if operation == "fma":
        return result.kind in FLOAT_KINDS
    if operation in ("floor_divide", "remainder"):
        return result.kind in "iu"
    try:
        with errstate(all="ignore"):
            found = KERNEL_OPERATIONS[operation](*[np.ones((), dtype) for dtype in dtypes])
    except TypeError:
        return False
    return bool(found.dtype == result)
