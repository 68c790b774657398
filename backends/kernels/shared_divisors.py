"""Quotients by a number that many elements share, as products with its reciprocal.

A processor with AVX-512 divides 16 numbers in 16 cycles, and multiplies as many twice in one. A
layer norm divides all elements of a row by one number. The reciprocal of such a number is computed
once, in two parts with more than twice the digits of a float together: ``high``, a little nearer to
zero, and the ``rest``. ``x * high + x * rest`` is rounded at its end alone, by a fused
multiplication. It is at most 0.50001 units in the last place off, and one unit where it is
subnormal, or nearly so. Quotients that floats have are exact. Both parts have the sign of the
divisor, so that zeros, infinities and NaN are those of a division. Constants divide as they are
written: such quotients are often halfway between two floats, but for a bit.

Where the reciprocal may be infinite or subnormal, dividend and divisor are multiplied by a power of
two first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from .kernel import For, Let, Load, LoopAxis, LoopKernel, LoopValue, Operand, Statement
from .operations import result_dtype

__all__ = ["with_reciprocals"]

# Of fewer vectors the division takes less time than the reciprocal.
FEWEST_SHARED_STEPS = 8
# By the letters of dtypes: larger divisors are divided by this number, and smaller ones than its
# reciprocal are multiplied by it. Subnormal ones are normal then.
LARGEST_UNSCALED = {"f": 2.0**64, "d": 2.0**512}
# A root has a normal reciprocal, or is zero, infinite or NaN; so has what has another sign.
ROOT, SIGN_CHANGES = "sqrt", frozenset({"absolute", "negative"})
# Computes an operation of some operands, or writes a statement that does.
Compute = Callable[..., Any]


class Reciprocal(NamedTuple):
    """The reciprocal of a divisor, in two parts.

    Attributes:
        high: the larger part.
        rest: what it leaves.
        scale: by what dividends are multiplied first; None for nothing.
    """

    high: Operand
    rest: Operand
    scale: Operand | None


def with_reciprocals(kernel: LoopKernel) -> LoopKernel:
    """Returns a kernel that multiplies by the reciprocals of numbers that divide many vectors."""
    divisions = _Divisions()
    divisions.count(kernel.body, [])
    shared = {x for x, count in divisions.steps.items() if count >= FEWEST_SHARED_STEPS}
    if not shared:
        return kernel
    body = _Rewriter(shared, divisions.roots).body(kernel.body, lanes=False)
    return LoopKernel(kernel.name, kernel.buffers, kernel.scratch, body)


def reciprocal_of(compute: Compute, divisor: Any, scaled: bool) -> Reciprocal:
    """Returns the reciprocal of a number, by operations of kernels.

    Args:
        compute: takes the name of an operation and its operands.
        divisor: the number.
        scaled: whether it may be so large or small that the power of two is not 1.
    """
    kind = divisor.dtype.type
    most, scale = kind(LARGEST_UNSCALED[divisor.dtype.char]), None
    if scaled:
        size = compute("absolute", divisor)
        scale = compute("select", compute("greater", size, most), 1 / most, kind(1))
        scale = compute("select", compute("less", size, 1 / most), most, scale)
        divisor = compute("multiply", divisor, scale)
    whole = compute("divide", kind(1), divisor)
    # Below the reciprocal, however `whole` was rounded.
    high = compute("multiply", whole, kind(1) - 2 * np.finfo(kind).eps)
    left = compute("fma", compute("negative", high), divisor, kind(1))
    rest = compute("multiply", left, whole)
    # Of zeros and infinite divisors nothing is left that is a number.
    rest = compute("select", compute("equal", left, left), rest, whole)
    return Reciprocal(high, rest, scale)


def quotient_of(compute: Compute, dividend: Any, by: Reciprocal) -> tuple[Operand, ...]:
    """Returns the operands of the fused multiplication that is the quotient."""
    if by.scale is not None:
        dividend = compute("multiply", dividend, by.scale)
    return dividend, by.high, compute("multiply", dividend, by.rest)


def is_division(statement: Statement) -> TypeGuard[Let]:
    """Says whether a statement divides floats."""
    if not isinstance(statement, Let) or statement.operation != "divide":
        return False
    return statement.value.dtype.char in LARGEST_UNSCALED


def values_known_behind(statement: Statement) -> list[LoopValue]:
    """Returns the values that are known behind a statement."""
    if isinstance(statement, For):
        return [fold.value for fold in statement.folds]
    return [statement.value] if isinstance(statement, Let | Load) else []


class _Divisions:
    """Finds what divides vectors.

    Attributes:
        steps: how many vectors a value divides, for each time that it is computed.
        roots: the values whose reciprocals are normal.
    """

    def __init__(self) -> None:
        self.steps: Counter[LoopValue] = Counter()
        self.roots: set[Operand] = set()
        # The number of loops around what computes a value.
        self._home: dict[Operand, int] = {}

    def count(self, body: Iterable[Statement], loops: Sequence[For]) -> None:
        """Counts the divisions of statements within some loops."""
        for statement in body:
            if isinstance(statement, For):
                self.count(statement.body, [*loops, statement])
            elif is_division(statement):
                self._division(statement.operands[1], loops)
            self._home.update(dict.fromkeys(values_known_behind(statement), len(loops)))
            if isinstance(statement, Let) and self._is_root(statement):
                self.roots.add(statement.value)

    def _division(self, divisor: Operand, loops: Sequence[For]) -> None:
        if not isinstance(divisor, LoopValue) or all(loop.lanes == 1 for loop in loops):
            return
        inner = loops[self._home.get(divisor, len(loops)) :]
        if inner:
            tiles = {loop.axis: loop.tile for loop in loops if loop.tile}
            self.steps[divisor] += prod(number_of_steps(loop, tiles) for loop in inner)

    def _is_root(self, statement: Let) -> bool:
        if statement.operation == ROOT:
            return True
        return statement.operation in SIGN_CHANGES and statement.operands[0] in self.roots


def number_of_steps(loop: For, tiles: dict[LoopAxis, int]) -> int:
    """Returns how many steps a loop has; one within a tile has those of its places."""
    if loop.tile:
        return -(-loop.axis.extent // loop.tile)
    return -(-(tiles.get(loop.axis) or loop.axis.extent) // loop.lanes)


class _Rewriter:
    """Writes statements with products in place of quotients."""

    def __init__(self, shared: set[LoopValue], roots: set[Operand]) -> None:
        self._shared = shared
        self._roots = roots
        self._reciprocals: dict[Operand, Reciprocal] = {}
        self._written: list[Statement] = []

    def body(self, body: Iterable[Statement], lanes: bool) -> list[Statement]:
        """Returns statements; ``lanes`` says whether a loop around them has lanes."""
        around, self._written = self._written, []
        for statement in body:
            if isinstance(statement, For):
                self._loop(statement, lanes)
            elif lanes and is_division(statement):
                self._division(statement)
            else:
                self._written.append(statement)
            for value in values_known_behind(statement):
                if value in self._shared:
                    scaled = value not in self._roots
                    self._reciprocals[value] = reciprocal_of(self._compute, value, scaled)
        found, self._written = self._written, around
        return found

    def _loop(self, loop: For, lanes: bool) -> None:
        body = self.body(loop.body, lanes or loop.lanes > 1)
        self._written.append(
            For(loop.axis, body, loop.folds, loop.lanes, loop.tile, loop.together)
        )

    def _division(self, statement: Let) -> None:
        dividend, divisor = statement.operands
        if divisor in self._reciprocals:
            operands = quotient_of(self._compute, dividend, self._reciprocals[divisor])
            statement = Let(statement.value, "fma", operands)
        self._written.append(statement)

    def _compute(self, operation: str, *operands: Operand) -> LoopValue:
        value = LoopValue(result_dtype(operation, [x.dtype for x in operands]))
        self._written.append(Let(value, operation, operands))
        return value
