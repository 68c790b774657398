"""Runs kernels slowly, in NumPy, to the letter of their language: what compiled ones have to equal.

Functions such as ``exp`` are those of NumPy and of the C library here, or formulas of operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, erfc
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import errstate
from .accesses import buffer_elements
from .arithmetic import computed
from .check import LIBRARY_PREFIX, check_kernel
from .functions import expanded
from .kernel import (
    BLOCK_NUMBER,
    STEPS_BETWEEN_FLUSHES,
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
    fold_identity,
)
from .operations import KERNEL_FUNCTIONS

if TYPE_CHECKING:
    from .graph import Expr

__all__ = ["interpret"]

ERROR_FUNCTIONS = {"erf": np.vectorize(erf, "d"), "erfc": np.vectorize(erfc, "d")}


def interpret(
    kernel: LoopKernel,
    arrays: Sequence[np.ndarray[Any, Any]],
    number: int = 0,
    low: int = 0,
    high: int | None = None,
    *,
    by_formulas: bool = False,
) -> None:
    """Runs a kernel for the rows of one block.

    Args:
        kernel: a kernel that keeps the rules of ``check.py``.
        arrays: the memory of its buffers, in order, in C order. That of a part has a first axis for
            the blocks.
        number: the number of the block.
        low: the first row of the block.
        high: the row behind the last one; None for the end of the axis.
        by_formulas: whether functions are computed by their formulas, as compiled kernels do.

    Raises:
        KernelError: the kernel breaks a rule.
        ValueError: an array is not that of its buffer.

    >>> import numpy as np
    >>> from functensor.backends.kernels.graph import ExprGraph
    >>> from functensor.backends.kernels.schedule import KernelResult, scheduled
    >>> graph = ExprGraph([4])
    >>> x = graph.input(0, np.float32, [0])
    >>> kernel = scheduled("double", graph, [x], [KernelResult(x + x, frozenset([0]))])
    >>> result = np.zeros(4, np.float32)
    >>> interpret(kernel, [np.arange(4, dtype=np.float32), result])
    >>> result
    array([0., 2., 4., 6.], dtype=float32)
    """
    check_kernel(kernel)
    memory = {}
    for buffer, array in zip(kernel.buffers, arrays, strict=True):
        memory[buffer] = _flat(buffer, array)
    for buffer in kernel.scratch:
        memory[buffer] = np.zeros(buffer.shape, buffer.dtype).reshape(-1)
    with errstate(all="ignore"):
        _Run(memory, number, low, high, by_formulas).body(kernel.body)


def _flat(buffer: Buffer, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the memory of an array, which has to be that of a buffer."""
    size = buffer_elements(buffer)
    fits = array.size % max(size, 1) == 0 if buffer.role == "part" else array.size == size
    if not fits or array.dtype != buffer.dtype or not array.flags.c_contiguous:
        raise ValueError(f"{array.dtype}{array.shape} in C order is not {buffer}")
    return array.reshape(-1)


class _Run:
    """A run: memory, the places of the loops, and the values.

    Loops with lanes compute all their places at once, statement by statement. That gives the same,
    because lanes do not write what others take. Folds follow the order of the lanes.

    Attributes:
        places: for every loop around it the place; all places in a loop with lanes.
    """

    def __init__(
        self,
        memory: dict[Buffer, np.ndarray[Any, Any]],
        number: int,
        low: int,
        high: int | None,
        by_formulas: bool,
    ) -> None:
        self.memory = memory
        self.by_formulas = by_formulas
        self.low, self.high = low, high
        # Where the tile begins and ends.
        self.tiles: dict[LoopAxis, tuple[int, int]] = {}
        self.places: dict[LoopAxis, Any] = {BLOCK_NUMBER: number}
        self.values: dict[LoopValue, np.ndarray[Any, Any]] = {}

    def body(self, body: Sequence[Statement]) -> None:
        """Runs statements in order."""
        for statement in body:
            if isinstance(statement, For):
                self._loop(statement)
            elif isinstance(statement, Let):
                self.values[statement.value] = self._computed(statement)
            elif isinstance(statement, Load):
                element = self._element(statement.index)
                self.values[statement.value] = np.asarray(self.memory[statement.buffer][element])
            elif isinstance(statement, PlaceOf):
                self.values[statement.value] = np.asarray(self.places[statement.axis], np.int32)
            elif isinstance(statement, PlaceWithin):
                number = self._value(statement.operand).astype(np.int64)
                number = np.where(number < 0, number + statement.length, number)
                self.values[statement.value] = np.clip(number, 0, statement.length - 1)
            else:
                memory, element = self.memory[statement.buffer], self._element(statement.index)
                number = self._value(statement.operand)
                if not isinstance(statement, Store):
                    operands = [memory[element], number]
                    number = computed(statement.operation, operands, memory.dtype)
                memory[element] = number

    def _element(self, index: Index) -> Any:
        place = index.begin + sum(stride * self.places[axis] for axis, stride in index.terms)
        return place + sum(stride * self.values[value] for value, stride in index.picks)

    def _value(self, operand: Operand) -> np.ndarray[Any, Any]:
        return self.values[operand] if isinstance(operand, LoopValue) else np.asarray(operand)

    def _computed(self, statement: Let) -> np.ndarray[Any, Any]:
        operation, dtype = statement.operation, statement.value.dtype
        operands = [self._value(x) for x in statement.operands]
        if operation in KERNEL_FUNCTIONS and self.by_formulas:
            return by_formula(operation, operands, dtype)
        if operation in KERNEL_FUNCTIONS:
            applied = ERROR_FUNCTIONS.get(operation) or getattr(np, operation)
            return np.asarray(applied(*operands), dtype)
        if operation.startswith(LIBRARY_PREFIX):
            name = operation.removeprefix(LIBRARY_PREFIX)
            return np.asarray(computed("library", operands, dtype, name))
        return np.asarray(computed(operation, operands, dtype))

    # -- loops

    def _loop(self, loop: For) -> None:
        axis = loop.axis
        low, high = 0, axis.extent
        if axis.block:
            low, high = self.low, axis.extent if self.high is None else self.high
        low, high = self.tiles.get(axis, (low, high))
        if loop.lanes > 1:
            self.places[axis] = np.arange(low, high)
            self.body(loop.body)
            arrays = [[self._spread(x, high - low) for x in f.operands] for f in loop.folds]
        else:
            # In a loop within a loop with lanes they have an axis for these.
            kept: list[list[list[Any]]] = [[[] for _ in f.operands] for f in loop.folds]
            kept_of = dict(zip(loop.folds, kept))
            handed = [fold for fold in loop.folds if fold.operation == "hand_on"]
            for place in range(low, high, max(loop.tile, 1)):
                if loop.tile:
                    self.tiles[axis] = place, min(place + loop.tile, high)
                else:
                    self.places[axis] = place
                for fold in handed:
                    so_far = kept_of[fold][0]
                    first = fold.value.dtype.type(0) if fold.begin is None else fold.begin
                    self.values[fold.value] = so_far[-1] if so_far else self._value(first)
                self.body(loop.body)
                for lists, fold in zip(kept, loop.folds):
                    for numbers, operand in zip(lists, fold.operands, strict=True):
                        numbers.append(self._value(operand))
            arrays = [[stacked_lanes(numbers) for numbers in lists] for lists in kept]
        self.places.pop(axis, None)
        if loop.tile:
            del self.tiles[axis]
        inner = any(np.ndim(place) for place in self.places.values())
        for fold, found in zip(loop.folds, arrays):
            if fold.operation == "hand_on":
                self.values[fold.value] = found[0][-1]
                continue
            begin = None if fold.begin is None else self._value(fold.begin)
            self.values[fold.value] = folded_lanes(loop, fold, *found, begin=begin, inner=inner)

    def _spread(self, operand: Operand, count: int) -> np.ndarray[Any, Any]:
        return np.broadcast_to(self._value(operand), (count,))


def stacked_lanes(numbers: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Returns the numbers of all places, one behind the other."""
    return np.stack(numbers) if numbers else np.empty(0)


def by_formula(
    name: str, operands: Sequence[np.ndarray[Any, Any]], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Returns a function of numbers by its formula, each step rounded once."""
    graph, result = expanded(name, dtype)
    known: dict[Expr, Any] = {}
    for node in graph.nodes:
        if node.operation == "input":
            known[node] = operands[node.detail]
        elif node.operation == "constant":
            known[node] = node.detail
        else:
            values = [known[x] for x in node.operands]
            known[node] = computed(node.operation, values, node.dtype, node.detail)
    return np.asarray(known[result], dtype)


def folded_lanes(
    loop: For,
    fold: Fold,
    numbers: np.ndarray[Any, Any],
    factors: np.ndarray[Any, Any] | None = None,
    *,
    begin: np.ndarray[Any, Any] | None = None,
    inner: bool = False,
) -> np.ndarray[Any, Any]:
    """Returns the fold of numbers at the places of a loop, in the order of its lanes.

    Args:
        loop: the loop, which says how many lanes there are and whether sums go to totals.
        fold: the fold.
        numbers: the numbers at all places.
        factors: by what they are multiplied; None for nothing.
        begin: what a sum begins with; None for 0.
        inner: whether there is a loop with lanes around the loop.
    """
    operation, dtype, lanes = fold.operation, fold.value.dtype, loop.lanes
    steps = -(-len(numbers) // lanes)
    identity = fold_identity(operation, dtype)
    rows = by_steps(numbers, steps, lanes, identity)
    by = None if factors is None else by_steps(factors, steps, lanes, dtype.type(1))
    total = running = np.full((lanes, *numbers.shape[1:]), identity, dtype)
    if begin is not None:
        running = begin[np.newaxis]
    flushes = loop.flushes and operation == "add" and not inner and begin is None
    for step, row in enumerate(rows, 1):
        if by is None:
            running = computed(operation, [running, row], dtype)
        else:
            running = computed("fma", [row, by[step - 1], running], dtype)
        if flushes and step % STEPS_BETWEEN_FLUSHES == 0:
            total = computed(operation, [total, running], dtype)
            running = np.full_like(running, identity)
    if flushes:
        running = computed(operation, [total, running], dtype)
    while len(running) > 1:
        half = len(running) // 2
        running = computed(operation, [running[:half], running[half:]], dtype)
    first: np.ndarray[Any, Any] = running[0]
    return first


def by_steps(numbers: np.ndarray[Any, Any], steps: int, lanes: int, idle: Any) -> Any:
    """Returns numbers by steps and lanes; idle lanes of the last step have a number of theirs."""
    table = np.full((steps * lanes, *numbers.shape[1:]), idle, np.asarray(idle).dtype)
    table[: len(numbers)] = numbers
    return table.reshape(steps, lanes, *numbers.shape[1:])
